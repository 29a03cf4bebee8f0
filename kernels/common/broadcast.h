// Broadcasting: sizes aligned at the last dimension, where 1 stretches.
#pragma once

#include <penlight/kernel.h>

namespace penlight {

// A shape with room for any rank.
struct Shape {
  dim_t sizes[kMaxDim];
  int dim = 0;

  Shape() = default;
  explicit Shape(SizesRef from) {
    for (const dim_t size : from) append(size);
  }
  operator SizesRef() const { return {sizes, static_cast<size_t>(dim)}; }
  dim_t& operator[](int d) { return sizes[d]; }
  dim_t operator[](int d) const { return sizes[d]; }
  void append(dim_t size) { sizes[dim++] = size; }
  dim_t numel() const {
    dim_t count = 1;
    for (int d = 0; d < dim; ++d) count *= sizes[d];
    return count;
  }
};

// Gives `out` these sizes, as a program lists them.
bool resize_to(KernelContext& ctx, Tensor& out, IntArrayRef size);

// Widens `shape` so that `other` broadcasts into it. False, with the failure
// recorded, when two sizes differ and neither is 1.
bool broadcast_into(KernelContext& ctx, Shape& shape, SizesRef other);

// Gives `out` the sizes to which both broadcast.
bool resize_to_both(KernelContext& ctx, Tensor& out, const Tensor& a, const Tensor& b);

// Fills strides[0..shape.size()) with the strides by which `sizes`/`strides`
// is read as `shape`: 0 where it is stretched. The shapes must broadcast.
void broadcast_strides(SizesRef shape, SizesRef sizes, SizesRef strides, dim_t* result);

}  // namespace penlight
