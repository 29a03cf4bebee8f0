#include "lent_inputs.h"

#include <penlight/module.h>
#include <string.h>

namespace penlight::hosted {

namespace {

constexpr uintptr_t kAlignment = 16;  // which kernels may expect of every tensor

}  // namespace

bool LentInputs::find(const Module& module, Method& method) {
  module_ = &module;
  method_ = &method;
  ArrayRef<uint8_t> words;
  if (module.program().named_data("penlight.unshared:", method.name(), words) != Status::Ok) return true;
  for (size_t at = 0; at + sizeof(int64_t) <= words.size(); at += sizeof(int64_t)) {
    int64_t number;
    memcpy(&number, words.data() + at, sizeof number);
    if (number < 0 || static_cast<uint64_t>(number) >= method.input_count()) continue;
    const size_t index = static_cast<size_t>(number);
    const Value& value = method.input(index);
    if (value.tag != Tag::Tensor) continue;
    const TensorImpl& impl = *value.as_tensor.unsafeGetTensorImpl();
    if (impl.data && !inputs_.push({index, impl.data, impl.capacity})) return false;
  }
  return true;
}

TensorImpl& LentInputs::tensor_of(const Input& input) const {
  return *method_->input(input.index).as_tensor.unsafeGetTensorImpl();
}

// What the run itself writes to, as an output of the last one, is to be read before.
bool LentInputs::may_read(const Input& input, const void* data) const {
  return data && reinterpret_cast<uintptr_t>(data) % kAlignment == 0 &&
         !module_->has_memory_in(data, input.capacity);
}

Status LentInputs::set_input(size_t index, const InputTensor& tensor, Message* message) const {
  for (const Input& input : inputs_) {
    if (input.index != index || !may_read(input, tensor.data)) continue;
    TensorImpl& impl = tensor_of(input);
    impl.data = const_cast<void*>(tensor.data);
    const Status status = method_->set_input(index, tensor, message);
    impl.capacity = static_cast<size_t>(impl.numel) * element_size(impl.dtype);
    return status;
  }
  return method_->set_input(index, tensor, message);
}

void LentInputs::take_back() const {
  for (const Input& input : inputs_) {
    TensorImpl& impl = tensor_of(input);
    impl.data = input.data;
    impl.capacity = input.capacity;
  }
}

}  // namespace penlight::hosted
