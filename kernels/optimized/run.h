// How the elements of a dense tensor lie about some of its dimensions.
#pragma once

#include <penlight/kernel.h>

namespace penlight::optimized {

// Elements before the named dimensions, in them, and after them.
struct Run {
  dim_t outer, count, inner;
};

// Dimension `k` of a tensor in the order in which it lies in memory, outermost first.
inline dim_t dim_at(const Tensor& tensor, dim_t k) {
  return tensor.dim_order().empty() ? k : tensor.dim_order()[static_cast<size_t>(k)];
}

// Is `out` of the shape of `self` and in its order?
inline bool lies_alike(const Tensor& self, const Tensor& out) {
  const TensorImpl &x = *self.unsafeGetTensorImpl(), &to = *out.unsafeGetTensorImpl();
  if (x.dim != to.dim) return false;
  dim_t different = 0;
  for (int d = 0; d < x.dim; ++d) different |= (x.sizes[d] ^ to.sizes[d]) | (x.strides[d] ^ to.strides[d]);
  return different == 0;
}

// False where `self` is not dense, or where others lie between the dimensions of `mask`.
inline bool read_run(const Tensor& self, uint32_t mask, Run& run) {
  run = {1, 1, 1};
  dim_t expected = 1;
  for (dim_t k = self.dim(); k-- > 0;) {
    const dim_t d = dim_at(self, k), size = self.size(d);
    if (size == 1) continue;
    if (self.stride(d) != expected) return false;
    expected *= size;
    if (mask >> d & 1u) {
      if (run.outer > 1) return false;
      run.count *= size;
    } else {
      (run.count > 1 ? run.outer : run.inner) *= size;
    }
  }
  return true;
}

}  // namespace penlight::optimized
