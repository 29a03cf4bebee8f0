// What kernels compute as 2-D convolutions.
#pragma once

#include <penlight/kernel.h>

#include "vector/routines.h"

namespace penlight::optimized {

// The arguments of conv2d_packed, and of conv2d_parts_packed, which reads several images side by side in
// channels.
struct PackedConvolution {
  TensorList images;
  const Tensor& weight;
  const Optional<Tensor>& residual;
  ArrayRef<int64_t> window, stride, padding, dilation;  // the window: outputs and taps
  int64_t groups, activation;
  double low, high;
  bool transformed = true;         // by tiles of transformed products where that is thought to be faster
  const Blocks* blocks = nullptr;  // as of Product, where windows are of one pixel
};

// False, with the failure recorded, where they do not fit each other.
bool convolve(KernelContext& ctx, const PackedConvolution& call, Tensor& out);

}  // namespace penlight::optimized
