// Channels-last images and the windows that pass over them.
#pragma once

#include <penlight/kernel.h>

#include "vector/routines.h"

namespace penlight::optimized {

inline bool is_channels_last(const Tensor& tensor) {
  constexpr dim_t kInnermostFirst[] = {1, 3, 2, 0};
  dim_t expected = 1;
  for (const dim_t d : kInnermostFirst) {
    if (tensor.size(d) > 1 && tensor.stride(d) != expected) return tensor.numel() == 0;
    expected *= tensor.size(d);
  }
  return true;
}

// The memory of a dense tensor as an image of other sizes, whose dimensions lie in `order`, the
// outermost first.
class ImageView {
 public:
  ImageView(const Tensor& tensor, const dim_t (&sizes)[4], const uint8_t (&order)[4])
      : impl_(*tensor.unsafeGetTensorImpl()) {
    dim_t stride = 1;
    for (int i = 3; i >= 0; --i) {
      const uint8_t d = order_[i] = order[i];
      sizes_[d] = sizes[d];
      strides_[d] = stride;
      stride *= sizes[d];
    }
    impl_.sizes = sizes_;
    impl_.strides = strides_;
    impl_.dim_order = order_;
    impl_.dim = 4;
  }
  ImageView(const ImageView&) = delete;
  ImageView& operator=(const ImageView&) = delete;
  Tensor tensor() { return Tensor(&impl_); }

  // Has memory of its own instead, which holds `elements`.
  void use(float* data, dim_t elements) {
    impl_.data = data;
    impl_.numel = elements;
    impl_.capacity = static_cast<size_t>(elements) * sizeof(float);
  }

 private:
  TensorImpl impl_;
  dim_t sizes_[4], strides_[4];
  uint8_t order_[4];
};

// A window's sizes in the two directions of an image.
struct Window {
  dim_t taps[2], stride[2], padding[2], dilation[2];
};

// No number that a program says of a window is larger, so that a product of two of them fits an address.
constexpr int64_t kMostOfWindow = 1 << 24;

// One number for both directions or one for each, from `least` on.
inline bool read_pair(ArrayRef<int64_t> from, int64_t least, dim_t (&to)[2]) {
  if (from.size() != 1 && from.size() != 2) return false;
  for (size_t d = 0; d < 2; ++d) {
    const int64_t value = from[from.size() == 1 ? 0 : d];
    if (value < least || value > kMostOfWindow) return false;
    to[d] = static_cast<dim_t>(value);
  }
  return true;
}

// What a program says of a window.
inline bool read_window(ArrayRef<int64_t> taps, ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                        ArrayRef<int64_t> dilation, Window& window) {
  return read_pair(taps, 1, window.taps) && read_pair(stride, 1, window.stride) &&
         read_pair(padding, 0, window.padding) && read_pair(dilation, 1, window.dilation);
}

// How `window` passes over images of `input`'s sizes, to an output of `height` by `width`.
inline Geometry geometry_of(const Tensor& input, const Window& window, dim_t height, dim_t width) {
  return {input.size(2),
          input.size(3),
          height,
          width,
          window.taps[0],
          window.taps[1],
          window.stride[0],
          window.stride[1],
          window.padding[0],
          window.padding[1],
          window.dilation[0],
          window.dilation[1]};
}

// What the arguments of a convolution say, bounded so that a product of two numbers fits an
// address.
struct Convolution {
  Window window;
  dim_t outputs, groups, out[2];
};

// `shape` is outputs and taps, and `padding` is of both sides alike, or above, left, below and
// right; false, with the failure recorded, where it does not fit `input`.
inline bool read_convolution(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> shape,
                             ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                             int64_t groups, dim_t channels, Convolution& c) {
  const bool sides = padding.size() == 4;
  const ArrayRef<int64_t> before = sides ? ArrayRef<int64_t>(padding.data(), 2) : padding,
                          behind = sides ? ArrayRef<int64_t>(padding.data() + 2, 2) : padding;
  Window last;
  bool good = shape.size() == 3 && groups > 0 && groups <= kMostOfWindow && shape[0] > 0 &&
              shape[0] <= kMostOfWindow && channels % groups == 0 && shape[0] % groups == 0 &&
              read_window({shape.data() + 1, 2}, stride, before, dilation, c.window) &&
              read_window({shape.data() + 1, 2}, stride, behind, dilation, last);
  for (size_t d = 0; d < 2 && good; ++d) {
    const int64_t size = input.size(static_cast<dim_t>(d) + 2);
    const int64_t room = size + c.window.padding[d] + last.padding[d] -
                         c.window.dilation[d] * (int64_t{c.window.taps[d]} - 1) - 1;
    good = room >= 0;
    c.out[d] = static_cast<dim_t>(room / c.window.stride[d] + 1);
  }
  if (!good)
    return ctx.refuse(
        "a convolution's window, stride, padding, dilation or groups do not fit {} channels of {} by {}",
        channels, input.size(2), input.size(3));
  c.outputs = static_cast<dim_t>(shape[0]);
  c.groups = static_cast<dim_t>(groups);
  return true;
}

}  // namespace penlight::optimized
