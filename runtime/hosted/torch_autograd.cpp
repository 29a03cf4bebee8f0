// What torch calls for a kernel's operator where autograd would come in: C++ alone while
// no tensor asks for a gradient, Python's formula when one does.
//
// torch's stable interface has no form for this: its trampolines cannot go on to the
// next dispatch key. So torch's own boxed kernel that does (and would warn of a missing
// formula) is registered with another function in its place, `enter`, which calls it:
//
//   no gradient asked for    torch's kernel goes on below autograd
//   one asked for            the same, to a key where the operator has its Python function
//
// The second is torch's way to reach a kernel with its arguments untouched: symbolic
// sizes, fake tensors and Python's exceptions pass through. It is also how a kernel that
// fails raises an error of Python's. None of this is promised by torch. Whoever connects
// has to see, by probes, that stacks look as is assumed here.
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include <new>

#include "c_handles.h"
#include "torch_shim.h"

using penlight::Status;

namespace penlight::hosted {

namespace {

// torch::CppFunction, as far as calls are concerned: returned through memory, as what
// has a destructor is. It ends its life within Library::_impl, which takes what it owns.
struct CppFunction {
  CppFunction() {}
  CppFunction(const CppFunction&) = delete;
  ~CppFunction() {}
  alignas(16) char bytes[1024];
};
// One argument on a stack of torch's.
struct Item {
  uint64_t payload;
  uint32_t tag;
  uint32_t padding;
};
struct Stack {
  Item *begin, *end, *capacity;
};
using BoxedKernel = void (*)(void* functor, const void* op, uint64_t keys, Stack* stack);

bool (*grad_mode_is_enabled)();
void (*set_grad_mode)(bool);
bool (*requires_grad)(const void* tensor);
const void* const& (*forward_grad)(const void* tensor, uint64_t level, const void* const& self);
CppFunction (*make_fallback)();
void* (*library_impl)(void* library, const char* name, CppFunction& function, uint8_t how);
int32_t (*library_init)(const char*, const char*, const char*, uint32_t, TorchLibrary*);

BoxedKernel below;      // torch's own
uint64_t python_keys;   // of the key where operators have their Python function
const void* undefined;  // the tensor that stands for none
uint32_t tensor_tag, none_tag;
thread_local uint64_t keys_of_call;
pl_torch_probe* probe;       // takes the arguments of the next call
const void* raiser[2] = {};  // torch's handle of the operator that raises

bool asks(const Item& item) {
  if (item.tag != tensor_tag) return false;
  const void* tensor = reinterpret_cast<const void*>(item.payload);
  return requires_grad(tensor) || forward_grad(tensor, 0, tensor) != undefined;
}

void go_on(bool gradient, void* functor, const void* op, uint64_t keys, Stack* stack) {
  if (!gradient) return below(functor, op, keys, stack);
  // Off, so that torch's kernel adds nothing to the results; Python turns it on again, also
  // when it throws.
  set_grad_mode(false);
  keys_of_call = keys;
  below(functor, op, python_keys, stack);
  set_grad_mode(true);
}

// For operators without lists of tensors. What lies deeper on the stack, of the caller's,
// can only make it more careful.
void enter(void* functor, const void* op, uint64_t keys, Stack* stack) {
  bool gradient = false;
  if (grad_mode_is_enabled()) {
    for (const Item* item = stack->begin; !gradient && item != stack->end; ++item) gradient = asks(*item);
  }
  go_on(gradient, functor, op, keys, stack);
}

// For operators with lists: Python looks into them.
void enter_with_lists(void* functor, const void* op, uint64_t keys, Stack* stack) {
  go_on(grad_mode_is_enabled(), functor, op, keys, stack);
}

void enter_probe(void* functor, const void* op, uint64_t, Stack* stack) {
  if (probe) {
    probe->count = static_cast<uint64_t>(stack->end - stack->begin);
    for (uint64_t i = 0; i < probe->count && i < PL_TORCH_PROBED; ++i) {
      probe->payloads[i] = stack->begin[i].payload;
      probe->tags[i] = stack->begin[i].tag;
    }
    // What was called last is the operator that raises.
    memcpy(raiser, op, sizeof raiser);
  }
  below(functor, op, python_keys, stack);
}

// The one pointer to code of torch's in `function`.
void** code_in(CppFunction& function, const char* library) {
  void** found = nullptr;
  for (size_t at = 0; at + sizeof(void*) <= 256; at += sizeof(void*)) {
    void** word = reinterpret_cast<void**>(function.bytes + at);
    Dl_info info = {};
    if (!*word || !dladdr(*word, &info) || !info.dli_fname || strcmp(info.dli_fname, library) != 0) continue;
    if (found) return nullptr;
    found = word;
  }
  return found;
}

Status add(const char* name, BoxedKernel kernel, Message& message) {
  const char* base = strstr(name, "::");
  char space[201];
  if (!base || static_cast<size_t>(base - name) > 200) {
    message.set("{} has no namespace", name);
    return Status::InvalidArgument;
  }
  memcpy(space, name, static_cast<size_t>(base - name));
  space[base - name] = '\0';
  // torch writes as much of it as it needs; what lay in the rest must not be taken for a kernel.
  alignas(CppFunction) char memory[sizeof(CppFunction)];
  memset(memory, 0, sizeof memory);
  asm volatile("" : : "r"(memory) : "memory");
  CppFunction& function = *new (memory) CppFunction(make_fallback());
  Dl_info info = {};
  void** code =
      dladdr(reinterpret_cast<void*>(make_fallback), &info) ? code_in(function, info.dli_fname) : nullptr;
  if (!code) {
    message.set("this version of torch keeps its kernels in another way");
    return Status::NotSupported;
  }
  below = reinterpret_cast<BoxedKernel>(*code);
  *code = reinterpret_cast<void*>(kernel);
  TorchLibrary library = nullptr;
  // Never deleted: the registration holds as long as the library object does.
  if (library_init(space, "Autograd", "penlight", 0, &library)) {
    message.set("torch refused {}", name);
    return Status::InvalidState;
  }
  library_impl(library, base + 2, function, 0);
  return Status::Ok;
}

template <class Function>
bool find(void* handle, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

void raise_in_python() {
  if (probe || !raiser[0]) return;
  Item none = {0, none_tag, 0};
  Stack stack = {&none, &none + 1, &none + 1};
  below(nullptr, raiser, python_keys, &stack);
}

}  // namespace penlight::hosted

pl_status pl_torch_autograd_connect(const char* path, uint64_t keys, const void* plain,
                                    pl_torch_probe* probed, char* error, size_t error_size) {
  using namespace penlight::hosted;
  penlight::Message message;
  void* handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
  if (!handle || !find(handle, grad_mode_is_enabled, "_ZN3c108GradMode10is_enabledEv") ||
      !find(handle, set_grad_mode, "_ZN3c108GradMode11set_enabledEb") ||
      !find(handle, requires_grad, "_ZNK3c1010TensorImpl13requires_gradEv") ||
      !find(handle, forward_grad, "_ZNK3c1010TensorImpl8_fw_gradEmRKN2at10TensorBaseE") ||
      !find(handle, make_fallback, "_ZN5torch8autograd35basicAutogradNotImplementedFallbackEv") ||
      !find(handle, library_impl, "_ZNR5torch7Library5_implEPKcONS_11CppFunctionENS_17_RegisterOrVerifyE") ||
      !find(handle, library_init, "aoti_torch_library_init_impl")) {
    return report(Status::NotSupported, "this version of torch lacks what is needed", error, error_size);
  }
  python_keys = keys;
  undefined = forward_grad(plain, 0, plain);
  probe = probed;
  return report(Status::Ok, "", error, error_size);
}

uint64_t pl_torch_autograd_keys(void) { return penlight::hosted::keys_of_call; }

void pl_torch_autograd_probed(uint32_t of_tensor, uint32_t of_none) {
  penlight::hosted::probe = nullptr;
  penlight::hosted::tensor_tag = of_tensor;
  penlight::hosted::none_tag = of_none;
}

pl_status pl_torch_autograd_register(const char* name, int32_t lists, char* error, size_t error_size) {
  using namespace penlight::hosted;
  penlight::Message message;
  const Status status = add(name, probe ? enter_probe : lists ? enter_with_lists : enter, message);
  return report(status, message.c_str(), error, error_size);
}
