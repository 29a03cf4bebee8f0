// Windows sliding over a signal, an image or a volume: what all pooling shares.
//
// A window is given by one range along each axis, so that fixed and adaptive pooling
// differ only in how an axis makes its ranges.
#pragma once

#include "volume.h"

namespace penlight::portable {

// The inputs of one output position along an axis: first, first + step, ... below end.
struct PoolRange {
  dim_t first, end, step;
  dim_t padded;  // length before it was cut to the input

  dim_t count() const { return end > first ? (end - first + step - 1) / step : 0; }
};

struct PoolAxis {
  dim_t in = 1, out = 1;
  dim_t kernel = 1, stride = 1, padding = 0, dilation = 1;
  bool adaptive = false;

  PoolRange range(dim_t position) const;
};

struct PoolShape {
  dim_t batch, channels;
  Volume in, out, indices;
  PoolAxis axes[3];
};

constexpr int64_t kNoDilation[] = {1};

// Fill `shape` from the arguments and give `out` (and `indices`, may be null) its
// sizes. False with the failure recorded. Empty `stride` means the kernel's size.
bool prepare_pool(KernelContext& ctx, int dims, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                  IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out, Tensor* indices,
                  PoolShape& shape);
bool prepare_adaptive_pool(KernelContext& ctx, const Tensor& self, IntArrayRef output_size, Tensor& out,
                           Tensor* indices, PoolShape& shape);

struct PoolAverage {
  bool count_padding;
  int64_t divisor;  // 0: the window's own size
};

}  // namespace penlight::portable
