// What a call failed of, in words from which Python makes an error of its own (ops/dispatch.py).
#include <stdio.h>
#include <string.h>

#include "c_handles.h"
#include "torch_call.h"

namespace penlight::hosted {

namespace {

// Writes words, each for an argument or a result, to a failure; pl_torch_failure says how they are spelled.
class Words {
 public:
  explicit Words(Failure& failure) : to_(failure.arguments) {}
  // Nothing, when not all of them have room.
  ~Words() { to_[fits_ ? used_ : 0] = '\0'; }

  void text(const char* letters) {
    const size_t count = strlen(letters);
    fits_ = fits_ && count < sizeof(Failure::arguments) - used_;
    if (!fits_) return;
    memcpy(to_ + used_, letters, count);
    used_ += count;
  }
  void number(int64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", static_cast<long long>(number));
    text(digits);
  }
  void value(const Value& value);
  void expected(const int64_t*& next);

 private:
  template <class T>
  void sizes(const T* items, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (i) text(",");
      number(items[i]);
    }
  }
  void tensor(const Tensor& tensor) {
    text("t");
    number(static_cast<int64_t>(tensor.scalar_type()));
    text(":");
    sizes(tensor.sizes().data(), tensor.sizes().size());
  }
  void shape(const int64_t*& next);

  char* to_;
  size_t used_ = 0;
  bool fits_ = true;
};

void Words::value(const Value& value) {
  char digits[32];
  switch (value.tag) {
    case Tag::Tensor:
      tensor(value.as_tensor);
      break;
    case Tag::TensorList:
      text("l");
      for (size_t k = 0; k < value.as_tensor_list->size; ++k) {
        if (k) text(";");
        tensor(value.as_tensor_list->items[k]);
      }
      break;
    case Tag::OptionalTensorList:
      text("l");
      for (size_t k = 0; k < value.as_optional_tensor_list->size; ++k) {
        const Optional<Tensor>& item = value.as_optional_tensor_list->items[k];
        if (k) text(";");
        item ? tensor(*item) : text("n");
      }
      break;
    case Tag::Int:
    case Tag::Bool:
      text(value.tag == Tag::Int ? "i" : "b");
      number(value.to_int());
      break;
    case Tag::Double:
      text("f");
      snprintf(digits, sizeof digits, "%a", value.as_double);
      text(digits);
      break;
    case Tag::String:
      text("z");
      for (size_t k = 0; k < value.as_string->size(); ++k) {
        snprintf(digits, sizeof digits, "%02x", static_cast<uint8_t>(value.as_string->data()[k]));
        text(digits);
      }
      break;
    case Tag::IntList:
      text("j");
      sizes(value.as_int_list->items, value.as_int_list->size);
      break;
    default:
      text("n");
  }
  text(" ");
}

void Words::shape(const int64_t*& next) {
  const int64_t rank = next[1];
  if (rank == kKernelSays) {
    text("n");
  } else {
    text("t0:");
    sizes(next + 2, static_cast<size_t>(rank));
  }
  next += 2 + (rank > 0 ? rank : 0);
}

// Of one result.
void Words::expected(const int64_t*& next) {
  const int64_t count = *next++;
  if (count == kNoList) {
    shape(next);
  } else {
    text("l");
    for (int64_t k = 0; k < count; ++k) {
      if (k) text(";");
      shape(next);
    }
  }
  text(" ");
}

}  // namespace

Failure& last_failure() {
  static thread_local Failure failure = {};
  return failure;
}

void describe(const Slot& slot, Value* const* args, const ExpectedResults* expected) {
  Words words(last_failure());
  for (size_t i = 0; i < slot.count; ++i) words.value(*args[i]);
  const int64_t* next = expected ? expected->begin() : nullptr;
  while (next && next != expected->end()) words.expected(next);
}

}  // namespace penlight::hosted

void pl_torch_failed(pl_torch_failure* to) {
  const penlight::hosted::Failure& failure = penlight::hosted::last_failure();
  if (!failure.slot) return;
  *to = {failure.slot->kernel_name, failure.message.c_str(), failure.arguments,
         static_cast<pl_status>(failure.status)};
}
