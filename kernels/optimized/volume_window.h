// Windows that pass over the last two or three dimensions of a tensor.
#pragma once

#include "pool.h"

namespace penlight::optimized {

struct VolumeWindow {
  Depth depth;  // of images, its default
  Window image;
  dim_t out[3];  // depth, height and width of the output

  // False where the arguments are none, or no window fits the input, whose sizes `depth` takes too.
  bool read(const Tensor& input, size_t dims, ArrayRef<int64_t> taps, ArrayRef<int64_t> stride,
            ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation, bool ceil_mode);

  Geometry geometry(const Tensor& input) const;

  // Gives `to` the sizes of the result.
  bool resize(KernelContext& ctx, const Tensor& input, size_t dims, Tensor& to) const;
};

}  // namespace penlight::optimized
