// Complex numbers of two float32 as what they are in memory: float32 with one more dimension, of
// two parts.
#pragma once

#include <penlight/dispatch.h>
#include <penlight/kernel.h>

#include "chain.h"

namespace penlight::optimized {

PENLIGHT_BY_DTYPES_BEGIN

inline bool is_complex_float(const Tensor& tensor) {
  return dtype_selected(ScalarType::ComplexFloat) && tensor.scalar_type() == ScalarType::ComplexFloat;
}

// Is it complex64, with a dimension to spare?
inline bool has_pairs(const Tensor& tensor) { return is_complex_float(tensor) && tensor.dim() < kMaxDim; }

PENLIGHT_BY_DTYPES_END

// A tensor over the memory of one that has pairs, and has to outlive it.
class Pairs {
 public:
  explicit Pairs(const Tensor& of) : impl_(*of.unsafeGetTensorImpl()) {
    const int dim = impl_.dim++;
    impl_.dtype = ScalarType::Float;
    impl_.numel *= 2;
    impl_.sizes = sizes_;
    impl_.strides = strides_;
    impl_.dim_order = impl_.dim_order ? order_ : nullptr;
    for (int d = 0; d < dim; ++d) {
      sizes_[d] = of.size(d);
      strides_[d] = 2 * of.stride(d);
      if (impl_.dim_order) order_[d] = of.dim_order()[static_cast<size_t>(d)];
    }
    sizes_[dim] = 2;
    strides_[dim] = 1;
    order_[dim] = static_cast<uint8_t>(dim);
    tensor_ = Tensor(&impl_);
  }
  Pairs(const Pairs&) = delete;
  Tensor& tensor() { return tensor_; }

 private:
  TensorImpl impl_;
  dim_t sizes_[kMaxDim], strides_[kMaxDim];
  uint8_t order_[kMaxDim];
  Tensor tensor_;
};

// One number that is a pair.
class Pair {
 public:
  Pair(double re, double im)
      : parts_{static_cast<float>(re), static_cast<float>(im)},
        impl_{parts_, &size_, &stride_, nullptr, 2, sizeof parts_, ScalarType::Float, 1, {}, 0},
        tensor_(&impl_) {}
  Pair(const Pair&) = delete;
  Tensor& tensor() { return tensor_; }

 private:
  float parts_[2];
  dim_t size_ = 2, stride_ = 1;
  TensorImpl impl_;
  Tensor tensor_;
};

// Of complex64 tensors: false, with nothing written, for all others. Of two there is Add, Sub and Mul; of
// one and a number, MulComplex is that product, and others take part by part.
bool complex_of_two(KernelContext& ctx, ElementOp op, const Tensor& a, const Tensor& b, Tensor& out);
bool complex_and_number(KernelContext& ctx, ElementOp op, const Tensor& a, double re, double im, Tensor& out);
bool negative_of_complex(KernelContext& ctx, const Tensor& x, Tensor& out);
// `op` of the parts of each number, of which the real one is the second for Atan2.
bool real_of_complex(KernelContext& ctx, ElementOp op, const Tensor& x, Tensor& out);

}  // namespace penlight::optimized
