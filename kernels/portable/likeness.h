// A tensor like another one, to be described anew: as other elements, with other sizes, over other memory.
#pragma once

#include "kernels/common/convert.h"

namespace penlight::portable {

struct Likeness {
  TensorImpl impl;
  Tensor tensor;
  dim_t sizes[kMaxDim], strides[kMaxDim];

  explicit Likeness(const Tensor& of) : impl(*of.unsafeGetTensorImpl()), tensor(&impl) {
    for (dim_t d = 0; d < of.dim(); ++d) {
      sizes[d] = of.size(d);
      strides[d] = of.stride(d);
    }
    impl.sizes = sizes;
    impl.strides = strides;
    impl.dynamism = Dynamism::Static;
  }
  Likeness(const Likeness&) = delete;

  // The elements are those at `data`.
  template <class T>
  void look_at(T* data) {
    impl.data = data;
    impl.dtype = ScalarTypeOf<T>::value;
  }
};

}  // namespace penlight::portable
