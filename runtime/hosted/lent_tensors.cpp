#include "lent_tensors.h"

#include <penlight/module.h>
#include <string.h>

namespace penlight::hosted {

namespace {

constexpr uintptr_t kAlignment = 16;  // which kernels may expect of every tensor

}  // namespace

// Numbers of a list that are tensors with memory of their own.
template <class ValueOf>
bool LentTensors::read_list(const char* key, size_t count, ValueOf&& value_of, Array<Lent>& list) const {
  ArrayRef<uint8_t> words;
  if (module_->program().named_data(key, method_->name(), words) != Status::Ok) return true;
  for (size_t at = 0; at + sizeof(int64_t) <= words.size(); at += sizeof(int64_t)) {
    int64_t number;
    memcpy(&number, words.data() + at, sizeof number);
    if (number < 0 || static_cast<uint64_t>(number) >= count) continue;
    const size_t index = static_cast<size_t>(number);
    const Value value = value_of(index);
    if (value.tag != Tag::Tensor) continue;
    TensorImpl* const impl = value.as_tensor.unsafeGetTensorImpl();
    if (impl->data && !list.push({index, impl, impl->data, impl->capacity})) return false;
  }
  return true;
}

bool LentTensors::find(const Module& module, Method& method) {
  module_ = &module;
  method_ = &method;
  const auto input = [&](size_t index) { return method.input(index); };
  const auto output = [&](size_t index) { return method.output(index); };
  return read_list("penlight.unshared:", method.input_count(), input, inputs_) &&
         read_list("penlight.unshared-outputs:", method.output_count(), output, outputs_);
}

// What the run itself writes to, as an output of the last one, is to be read before.
bool LentTensors::may_use(const Lent& lent, const void* data) const {
  return data && reinterpret_cast<uintptr_t>(data) % kAlignment == 0 &&
         !module_->has_memory_in(data, lent.capacity);
}

Status LentTensors::set_input(size_t index, const InputTensor& tensor, Message* message) const {
  for (const Lent& input : inputs_) {
    if (input.index != index || !may_use(input, tensor.data)) continue;
    TensorImpl& impl = *input.impl;
    impl.data = const_cast<void*>(tensor.data);
    const Status status = method_->set_input(index, tensor, message);
    impl.capacity = static_cast<size_t>(impl.numel) * element_size(impl.dtype);
    return status;
  }
  return method_->set_input(index, tensor, message);
}

bool LentTensors::lend_output(size_t index, void* data) const {
  for (const Lent& output : outputs_) {
    if (output.index != index || !may_use(output, data)) continue;
    output.impl->data = data;
    return true;
  }
  return false;
}

void LentTensors::take_back() const {
  const auto take = [](const Lent& lent) {
    lent.impl->data = lent.data;
    lent.impl->capacity = lent.capacity;
  };
  for (const Lent& input : inputs_) take(input);
  for (const Lent& output : outputs_) take(output);
}

}  // namespace penlight::hosted
