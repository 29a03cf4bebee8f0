// A part of a tensor, some of its dimensions in their logical order, read into a
// row of the compute type or written back from one.
//
// Dimensions that lie evenly in memory are one, so that for most tensors a span
// is a single block.
#pragma once

#include "convert.h"

namespace penlight {

class Span {
 public:
  // Dimensions [first, last) of `tensor`.
  Span(const Tensor& tensor, dim_t first, dim_t last) : Span(tensor.dtype()) {
    for (dim_t d = first; d < last; ++d) push(tensor.size(d), tensor.stride(d));
  }
  explicit Span(ScalarType dtype)
      : dtype_(dtype), item_(static_cast<dim_t>(element_size(dtype))), dim_(0), count_(1) {}

  // One more dimension, inside of those there are.
  void push(dim_t size, dim_t stride) {
    count_ *= size;
    if (size == 1) return;
    if (dim_ > 0 && strides_[dim_ - 1] == stride * size) {
      sizes_[dim_ - 1] *= size;
      strides_[dim_ - 1] = stride;
      return;
    }
    sizes_[dim_] = size;
    strides_[dim_++] = stride;
  }

  dim_t count() const { return count_; }
  ScalarType dtype() const { return dtype_; }

  // Offset in elements of item `index`, counted in logical order.
  dim_t offset(dim_t index) const {
    dim_t at = 0;
    for (int d = dim_ - 1; d >= 0; --d) {
      at += index % sizes_[d] * strides_[d];
      index /= sizes_[d];
    }
    return at;
  }

  // `data` is the tensor's first element, `at` an offset in elements.
  template <class T>
  void load(T* row, const void* data, dim_t at) const {
    const char* from = static_cast<const char*>(data) + at * item_;
    for_each_block([&](dim_t done, dim_t offset, dim_t stride, dim_t count) {
      load_block(row + done, dtype_, from + offset * item_, stride, count);
    });
  }
  template <class T>
  void store(const T* row, void* data, dim_t at) const {
    char* to = static_cast<char*>(data) + at * item_;
    for_each_block([&](dim_t done, dim_t offset, dim_t stride, dim_t count) {
      store_block(dtype_, to + offset * item_, stride, row + done, count);
    });
  }

 private:
  template <class Block>
  void for_each_block(Block&& block) const {
    if (count_ == 0) return;
    if (dim_ == 0) return block(dim_t{0}, dim_t{0}, dim_t{1}, dim_t{1});
    const int inner = dim_ - 1;
    const dim_t step = sizes_[inner];
    for (dim_t done = 0; done < count_; done += step) {
      dim_t at = 0, rest = done / step;
      for (int d = inner - 1; d >= 0; --d) {
        at += rest % sizes_[d] * strides_[d];
        rest /= sizes_[d];
      }
      block(done, at, strides_[inner], step);
    }
  }

  ScalarType dtype_;
  dim_t item_;
  int dim_;
  dim_t count_;
  dim_t sizes_[kMaxDim], strides_[kMaxDim];
};

// Room for so many numbers; null, with the failure recorded.
template <class T = double>
T* scratch(KernelContext& ctx, dim_t rows, dim_t columns = 1) {
  return ctx.allocate_scratch_array<T>(static_cast<size_t>(rows * columns) + 1);
}

// Whole tensors as rows, for operators that are seldom run: dtypes, layouts and the precision of long sums
// cost them no code.

PENLIGHT_BY_DTYPES_BEGIN

// Calls body(zero), a zero of the type that floating point numbers of `type` are computed in.
template <class Body>
void dispatch_real(KernelContext& ctx, ScalarType type, Body&& body) {
  if constexpr (kDoubleSelected) {
    if (type == ScalarType::Double) return body(0.0);
  }
  if constexpr (kFloatSelected) {
    if (is_floating(type) && type != ScalarType::Double) return body(0.0f);
  }
  ctx.fail(Status::NotSupported, "element type {} is not supported here", dtype_name(type));
}

PENLIGHT_BY_DTYPES_END

// The elements in row-major order; null, with the failure recorded, without scratch.
template <class T = double>
T* dense_copy(KernelContext& ctx, const Tensor& tensor) {
  T* row = scratch<T>(ctx, tensor.numel());
  if (row) Span(tensor, 0, tensor.dim()).load(row, tensor.const_data_ptr(), 0);
  return row;
}

// Indices as a row of int64: where they lie, if they are such a row, else copied.
inline const int64_t* dense_indices(KernelContext& ctx, const Tensor& tensor) {
  if (tensor.scalar_type() == ScalarType::Long && tensor.is_contiguous())
    return tensor.const_data_ptr<int64_t>();
  return dense_copy<int64_t>(ctx, tensor);
}

inline double* dense_zeros(KernelContext& ctx, dim_t count) {
  double* row = scratch(ctx, count);
  if (row) memset(row, 0, static_cast<size_t>(count) * sizeof(double));
  return row;
}

template <class T>
void dense_store(const T* row, Tensor& tensor) {
  Span(tensor, 0, tensor.dim()).store(row, tensor.mutable_data_ptr(), 0);
}

}  // namespace penlight
