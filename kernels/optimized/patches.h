// Convolutions by large windows of few channels that lie side by side, as those that make the tokens of a
// vision transformer (Dosovitskiy et al., "An image is worth 16x16 words", 2020).
#pragma once

#include <penlight/kernel.h>

#include "image.h"

namespace penlight::optimized {

// Computes `out` if that is such a convolution, of `input` in either order. False if it is not. Want of
// memory is recorded in the context.
#ifdef __OPTIMIZE_SIZE__  // the way of overlapping windows is enough there
inline bool run_patches(KernelContext&, const Tensor&, const Tensor&, const Window&, const Epilogue&,
                        Tensor&) {
  return false;
}
#else
bool run_patches(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Window& window,
                 const Epilogue& epilogue, Tensor& out);
#endif

}  // namespace penlight::optimized
