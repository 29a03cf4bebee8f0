// Calls a kernel of a library by its operator's name, as the interpreter does.
//
//   Call(optimized_library, "aten::mm.out").tensor(a).tensor(b).run(out)
//
// Arrays, scratch memory and outputs are guarded and hold NaN where nothing was written.
#pragma once

#include <penlight/kernel.h>
#include <penlight/memory.h>

#include "guarded.h"

namespace penlight_test {

using namespace penlight;

// A tensor with memory of its own.
class Array {
 public:
  // `order`: outermost dimension first; null for row-major.
  void shape(const dim_t* sizes, int dim, const uint8_t* order, ScalarType dtype, bool front) {
    for (int d = 0; d < dim; ++d) {
      sizes_[d] = sizes[d];
      order_[d] = order ? order[d] : static_cast<uint8_t>(d);
    }
    impl_ = {nullptr, sizes_, strides_, order_, 0, 0, dtype, static_cast<uint8_t>(dim), Dynamism::Static, 0};
    refresh_layout(impl_);
    const size_t item = element_size(dtype);
    impl_.capacity = static_cast<size_t>(impl_.numel) * item;
    impl_.data = memory_.place(impl_.capacity, item, front);
  }
  Tensor tensor() { return Tensor(&impl_); }
  float* data() { return static_cast<float*>(impl_.data); }
  uint8_t* bytes() { return static_cast<uint8_t*>(impl_.data); }
  dim_t size(int d) const { return sizes_[d]; }
  dim_t numel() const { return impl_.numel; }
  int dim() const { return impl_.dim; }
  // Where the element of these indices lies.
  template <class... I>
  dim_t at(I... indices) const {
    dim_t offset = 0;
    int d = 0;
    ((offset += static_cast<dim_t>(indices) * strides_[d++]), ...);
    return offset;
  }
  bool intact() const { return memory_.intact(); }

 private:
  Guarded memory_;
  TensorImpl impl_{};
  dim_t sizes_[8], strides_[8];
  uint8_t order_[8];
};

// Scratch memory: each part between guards of its own.
class Scratch {
 public:
  ScratchSource source() {
    return {[](void* owner, size_t bytes, size_t alignment) -> void* {
              Scratch& self = *static_cast<Scratch*>(owner);
              if (self.used_ == kParts) return nullptr;
              return self.parts_[self.used_++].place(bytes, alignment, false);
            },
            [](void* owner) { static_cast<Scratch*>(owner)->used_ = 0; }, this};
  }
  bool intact() const {
    for (const Guarded& part : parts_) {
      if (!part.intact()) return false;
    }
    return true;
  }

 private:
  static constexpr int kParts = 32;
  Guarded parts_[kParts];
  int used_ = 0;
};

inline Scratch& scratch() {
  static Scratch only;
  return only;
}

// "Threads" that do their parts one after the other, the last part first.
inline Workers backwards(size_t threads) {
  return {[](void*, void (*task)(void*, size_t), void* argument, size_t count) {
            while (count > 0) task(argument, --count);
          },
          nullptr, threads};
}

class Call {
 public:
  Call(KernelLibrary& library, const char* name) {
    KernelRegistry registry;
    registry.append(library);
    kernel_ = registry.find(name, nullptr);
  }
  Call& tensor(Array& array) {
    next(Tag::Tensor).as_tensor = array.tensor();
    return *this;
  }
  Call& optional(Array* array) {
    if (array) return tensor(*array);
    next(Tag::None);
    return *this;
  }
  Call& integer(int64_t value) {
    next(Tag::Int).as_int = value;
    return *this;
  }
  Call& number(double value) {
    next(Tag::Double).as_double = value;
    return *this;
  }
  Call& flag(bool value) {
    next(Tag::Bool).as_bool = value;
    return *this;
  }
  Call& string(const char* text) {
    text_ = {text, strlen(text)};
    next(Tag::String).as_string = &text_;
    return *this;
  }
  Call& none() {
    next(Tag::None);
    return *this;
  }
  template <class... I>
  Call& integers(I... items) {
    int64_t* first = numbers_ + numbers_used_;
    ((numbers_[numbers_used_++] = static_cast<int64_t>(items)), ...);
    ListStorage<int64_t>& list = lists_[lists_used_++];
    list = {sizeof...(items), first, nullptr};
    next(Tag::IntList).as_int_list = &list;
    return *this;
  }
  Call& list(const int64_t* items, int count) {
    int64_t* first = numbers_ + numbers_used_;
    for (int i = 0; i < count; ++i) numbers_[numbers_used_++] = items[i];
    ListStorage<int64_t>& list = lists_[lists_used_++];
    list = {static_cast<size_t>(count), first, nullptr};
    next(Tag::IntList).as_int_list = &list;
    return *this;
  }
  // What these two are given has to live until the call is over.
  Call& list(double* items, int count) {
    doubles_ = {static_cast<size_t>(count), items, nullptr};
    next(Tag::DoubleList).as_double_list = &doubles_;
    return *this;
  }
  Call& list(Tensor* items, int count) {
    ListStorage<Tensor>& list = tensors_[tensors_used_++];
    list = {static_cast<size_t>(count), items, nullptr};
    next(Tag::TensorList).as_tensor_list = &list;
    return *this;
  }

  // The kernel's own word on the arguments; what it says in message() when it fails.
  Status run(Array& out, size_t threads = 1) {
    if (!kernel_) return Status::NotFound;
    const int before = used_;
    tensor(out);
    Value* arguments[kMost];
    for (int i = 0; i < used_; ++i) arguments[i] = &values_[i];
    used_ = before;  // ready to be run again
    message_.clear();
    KernelContext context(scratch().source(), &message_);
    if (threads > 1) context.set_workers(backwards(threads));
    kernel_->call(context, arguments);
    const Status status = context.status();
    context.reset();
    return status;
  }
  const char* message() const { return message_.c_str(); }

 private:
  static constexpr int kMost = 20;

  Value& next(Tag tag) {
    Value& value = values_[used_++];
    value.tag = tag;
    return value;
  }

  const Kernel* kernel_;
  Value values_[kMost];
  int used_ = 0;
  StringView text_;
  ListStorage<int64_t> lists_[8];
  int lists_used_ = 0;
  int64_t numbers_[96];
  int numbers_used_ = 0;
  ListStorage<double> doubles_;
  ListStorage<Tensor> tensors_[2];
  int tensors_used_ = 0;
  Message message_;
};

}  // namespace penlight_test
