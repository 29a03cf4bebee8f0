// Signals and images as volumes: leading spatial dimensions of size 1.
#pragma once

#include <penlight/kernel.h>

namespace penlight::portable {

// Sizes and strides, in elements, of a tensor whose last dimensions are spatial. Before
// them are channels, and perhaps a batch.
struct Volume {
  dim_t sizes[3] = {1, 1, 1}, steps[3] = {0, 0, 0};
  dim_t batch = 0, channel = 0;

  Volume() = default;
  Volume(const Tensor& tensor, int dims) {
    const dim_t *size = tensor.sizes().data() + tensor.dim() - dims,
                *stride = tensor.strides().data() + tensor.dim() - dims;
    channel = stride[-1];
    if (tensor.dim() == dims + 2) batch = stride[-2];
    for (int d = 0; d < dims; ++d) {
      sizes[3 - dims + d] = size[d];
      steps[3 - dims + d] = stride[d];
    }
  }

  // Offsets of an image's channel, and of a place in it.
  dim_t plane(dim_t image, dim_t c) const { return image * batch + c * channel; }
  dim_t place(dim_t d, dim_t h, dim_t w) const { return d * steps[0] + h * steps[1] + w * steps[2]; }
};

}  // namespace penlight::portable
