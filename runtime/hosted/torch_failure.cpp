// What a call failed of, in words from which Python makes an error of its own (ops/dispatch.py).
#include <stdio.h>

#include "c_handles.h"
#include "torch_call.h"

namespace penlight::hosted {

Failure& last_failure() {
  static thread_local Failure failure = {};
  return failure;
}

void describe(const Slot& slot, Value* const* args, const ExpectedResults* expected) {
  Failure& failure = last_failure();
  char* text = failure.arguments;
  char* const end = text + sizeof failure.arguments;
  const auto add = [&](const char* format, auto... values) {
    if (text >= end) return;
    text += snprintf(text, static_cast<size_t>(end - text), format, values...);
  };
  const auto add_tensor = [&](const Tensor& tensor) {
    add("t%d:", static_cast<int>(tensor.scalar_type()));
    for (dim_t d = 0; d < tensor.dim(); ++d)
      add(d ? ",%lld" : "%lld", static_cast<long long>(tensor.size(d)));
  };
  for (size_t i = 0; i < slot.count; ++i) {
    const Value& value = *args[i];
    if (value.tag == Tag::Tensor) {
      add_tensor(value.as_tensor);
    } else if (value.tag == Tag::TensorList) {
      add("l");
      for (size_t k = 0; k < value.as_tensor_list->size; ++k) {
        if (k) add(";");
        add_tensor(value.as_tensor_list->items[k]);
      }
    } else if (value.tag == Tag::OptionalTensorList) {
      add("l");
      for (size_t k = 0; k < value.as_optional_tensor_list->size; ++k) {
        const Optional<Tensor>& item = value.as_optional_tensor_list->items[k];
        if (k) add(";");
        item ? add_tensor(*item) : add("n");
      }
    } else if (value.tag == Tag::Int || value.tag == Tag::Bool) {
      add(value.tag == Tag::Int ? "i%lld" : "b%lld", static_cast<long long>(value.to_int()));
    } else if (value.tag == Tag::Double) {
      add("f%a", value.as_double);
    } else if (value.tag == Tag::String) {
      add("z");
      for (size_t k = 0; k < value.as_string->size(); ++k) {
        add("%02x", static_cast<unsigned>(static_cast<unsigned char>(value.as_string->data()[k])));
      }
    } else if (value.tag == Tag::IntList) {
      add("j");
      for (size_t k = 0; k < value.as_int_list->size; ++k) {
        add(k ? ",%lld" : "%lld", static_cast<long long>(value.as_int_list->items[k]));
      }
    } else {
      add("n");
    }
    add(" ");
  }
  const int64_t* next = expected ? expected->begin() : nullptr;
  const auto add_expected = [&] {
    const int64_t rank = next[1] == kKernelSays ? 0 : next[1];
    add(next[1] == kKernelSays ? "n" : "t%d:", 0);
    for (int64_t d = 0; d < rank; ++d) add(d ? ",%lld" : "%lld", static_cast<long long>(next[2 + d]));
    next += 2 + rank;
  };
  while (next && next != expected->end()) {
    const int64_t count = *next++;
    if (count == kNoList) {
      add_expected();
    } else {
      add("l");
      for (int64_t k = 0; k < count; ++k) {
        if (k) add(";");
        add_expected();
      }
    }
    add(" ");
  }
  if (text >= end) failure.arguments[0] = '\0';  // not all of them
}

}  // namespace penlight::hosted

void pl_torch_failed(pl_torch_failure* to) {
  const penlight::hosted::Failure& failure = penlight::hosted::last_failure();
  if (!failure.slot) return;
  *to = {failure.slot->kernel_name, failure.message.c_str(), failure.arguments,
         static_cast<pl_status>(failure.status)};
}
