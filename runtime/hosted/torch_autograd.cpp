// What torch calls for a kernel's operator where autograd would come in: C++ alone while
// no tensor asks for a gradient, Python's formula when one does.
//
//   no gradient asked for    torch's kernel goes on below autograd
//   one asked for            the same, to a key where the operator has its Python function
#include <dlfcn.h>

#include "c_handles.h"
#include "torch_dispatch.h"

using penlight::Status;

namespace penlight::hosted {

namespace {

bool (*grad_mode_is_enabled)();
void (*set_grad_mode)(bool);
bool (*requires_grad)(const void* tensor);
const void* const& (*forward_grad)(const void* tensor, uint64_t level, const void* const& self);

const void* undefined;  // the tensor that stands for none
thread_local uint64_t keys_of_call;
thread_local bool mode_of_call;

// Gradients backward are of no interest where they are turned off; forward they cannot be.
bool asks(const Item& item, bool backward) {
  if (item.tag == forms.tensor) {
    const void* tensor = reinterpret_cast<const void*>(item.payload);
    return (backward && requires_grad(tensor)) || forward_grad(tensor, 0, tensor) != undefined;
  }
  if (item.tag != forms.list) return false;
  for (const Item& each : items_of(item)) {
    if (each.tag != forms.tensor && each.tag != forms.none) return false;  // all are numbers then
    if (asks(each, backward)) return true;
  }
  return false;
}

void enter(void* functor, const void* op, uint64_t keys, Stack* stack) {
  const bool mode = grad_mode_is_enabled();
  bool gradient = false;
  // What lies deeper on the stack, of the caller's, can only make it more careful.
  for (const Item* item = stack->begin; !gradient && item != stack->end; ++item) gradient = asks(*item, mode);
  if (!gradient) return below(functor, op, keys, stack);
  // Off, so that torch's kernel adds nothing to the results; Python turns it on again, also
  // when it throws.
  set_grad_mode(false);
  keys_of_call = keys;
  mode_of_call = mode;
  below(functor, op, gradient_keys, stack);
  set_grad_mode(mode);
}

template <class Function>
bool find(void* handle, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

bool connect_autograd(void* torch, const void* plain) {
  if (!find(torch, grad_mode_is_enabled, "_ZN3c108GradMode10is_enabledEv") ||
      !find(torch, set_grad_mode, "_ZN3c108GradMode11set_enabledEb") ||
      !find(torch, requires_grad, "_ZNK3c1010TensorImpl13requires_gradEv") ||
      !find(torch, forward_grad, "_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE")) {
    return false;
  }
  undefined = forward_grad(plain, 0, plain);
  return true;
}

}  // namespace penlight::hosted

uint64_t pl_torch_autograd_keys(int32_t* grad_mode) {
  *grad_mode = penlight::hosted::mode_of_call;
  return penlight::hosted::keys_of_call;
}

pl_status pl_torch_autograd_register(const char* name, char* error, size_t error_size) {
  penlight::Message message;
  const Status status = penlight::hosted::stand_at(name, "Autograd", penlight::hosted::enter, message);
  return penlight::hosted::report(status, message.c_str(), error, error_size);
}
