// What pools of images and volumes share.
#pragma once

#include "image.h"
#include "packed.h"
#include "parallel.h"
#include "vector/pool.h"

namespace penlight::optimized {

// Outputs along one direction; a window that ceil_mode adds begins inside the padded input. Negative where
// none fits.
inline int64_t pooled_size(int64_t size, int64_t taps, int64_t stride, int64_t padding, int64_t dilation,
                           bool ceil_mode) {
  const int64_t room = size + 2 * padding - dilation * (taps - 1) - 1;
  if (room < 0 && !(ceil_mode && room > -stride)) return -1;
  int64_t out = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (out - 1) * stride >= size + padding) --out;
  return out;
}

inline int64_t pooled_size(int64_t size, const Window& w, size_t d, bool ceil_mode) {
  return pooled_size(size, w.taps[d], w.stride[d], w.padding[d], w.dilation[d], ceil_mode);
}

constexpr dim_t kLongestLine = 1 << 30;  // elements, so that their places are numbers of 32 bits

// Elements of a row with its padding and all that windows read: they end in the padding, or with ceil_mode
// behind it, and of planes vectors of them past the last pixel. 0 where there would be too many.
inline dim_t line_size(const Geometry& g, dim_t pixel) {
  const dim_t columns = pixel == 1 ? round_to_panel(g.out_width) : g.out_width;
  const dim_t windows = (columns - 1) * g.stride_w + (g.taps_w - 1) * g.dilation_w + 1;
  const dim_t padded = g.width + 2 * g.pad_w, length = windows > padded ? windows : padded;
  return length > kLongestLine / pixel ? 0 : length * pixel + kPanel;
}

inline bool are_planes(const Tensor& input, const Tensor& out) {
  return input.is_contiguous() && out.is_contiguous();
}

}  // namespace penlight::optimized
