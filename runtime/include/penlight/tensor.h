// Tensor: a view of memory, with sizes, strides and an element type.
//
// A Tensor is a handle of one pointer to a TensorImpl that the method (or a
// binding) keeps; copying the handle copies no data, as with at::Tensor, whose
// API this is a subset of. It owns nothing and allocates nothing.
#pragma once

#include <penlight/array_ref.h>
#include <penlight/scalar_type.h>
#include <penlight/status.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

// One dimension: as wide as a pointer, which on 64-bit hosts is at::Tensor's
// own type (its sizes can be viewed without a copy) and on small cores 32 bits.
using dim_t = intptr_t;
using SizesRef = ArrayRef<dim_t>;

constexpr int kMaxDim = 16;

enum class Dynamism : uint8_t { Static = 0, Bounded = 1, Unbounded = 2 };

struct TensorImpl {
  void* data;
  dim_t* sizes;
  dim_t* strides;      // in elements
  uint8_t* dim_order;  // outermost first; null means row-major order
  dim_t numel;
  size_t capacity;  // bytes at `data`; the upper bound of a resize
  ScalarType dtype;
  uint8_t dim;
  Dynamism dynamism;
  uint8_t flags;
};

class Tensor {
 public:
  // As kernel files written for ExecuTorch call them.
  using SizesType = dim_t;
  using StridesType = dim_t;
  using DimOrderType = uint8_t;

  constexpr Tensor() : impl_(nullptr) {}
  constexpr explicit Tensor(TensorImpl* impl) : impl_(impl) {}

  bool defined() const { return impl_ != nullptr; }
  TensorImpl* unsafeGetTensorImpl() const { return impl_; }

  ScalarType scalar_type() const { return impl_->dtype; }
  ScalarType dtype() const { return impl_->dtype; }
  dim_t dim() const { return impl_->dim; }
  dim_t numel() const { return impl_->numel; }
  size_t element_size() const { return penlight::element_size(impl_->dtype); }
  size_t itemsize() const { return penlight::element_size(impl_->dtype); }
  size_t nbytes() const { return static_cast<size_t>(impl_->numel) * element_size(); }

  SizesRef sizes() const { return {impl_->sizes, impl_->dim}; }
  SizesRef strides() const { return {impl_->strides, impl_->dim}; }
  ArrayRef<uint8_t> dim_order() const {
    return {impl_->dim_order, impl_->dim_order ? impl_->dim : size_t{0}};
  }

  // A negative dimension counts from the end. Not checked: see in_range_dim().
  dim_t size(dim_t d) const { return impl_->sizes[d < 0 ? d + impl_->dim : d]; }
  dim_t stride(dim_t d) const { return impl_->strides[d < 0 ? d + impl_->dim : d]; }

  const void* const_data_ptr() const { return impl_->data; }
  void* mutable_data_ptr() const { return impl_->data; }
  void* data_ptr() const { return impl_->data; }
  template <class T>
  const T* const_data_ptr() const {
    return static_cast<const T*>(impl_->data);
  }
  template <class T>
  T* mutable_data_ptr() const {
    return static_cast<T*>(impl_->data);
  }
  template <class T>
  T* data_ptr() const {
    return static_cast<T*>(impl_->data);
  }

  // Row-major without gaps. Strides of dimensions of size 1 do not matter.
  bool is_contiguous() const {
    dim_t expected = 1;
    for (int d = impl_->dim; d-- > 0;) {
      if (impl_->sizes[d] == 1) continue;
      if (impl_->strides[d] != expected) return impl_->numel == 0;
      expected *= impl_->sizes[d];
    }
    return true;
  }

 private:
  TensorImpl* impl_;
};

using TensorList = ArrayRef<Tensor>;
using IntArrayRef = ArrayRef<int64_t>;

// Sets numel, and strides from sizes and dim order (sizes of 0 count as 1).
void refresh_layout(TensorImpl& tensor);

}  // namespace penlight
