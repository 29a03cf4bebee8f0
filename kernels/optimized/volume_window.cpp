// Windows over images and volumes, as programs say them.
#include "volume_window.h"

namespace penlight::optimized {

bool VolumeWindow::read(const Tensor& input, size_t dims, ArrayRef<int64_t> taps, ArrayRef<int64_t> stride,
                        ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation, bool ceil_mode) {
  depth = Depth{};
  out[0] = 1;
  const ArrayRef<int64_t> given[] = {taps, stride.empty() ? taps : stride, padding, dilation};
  ArrayRef<int64_t> last[4];
  for (size_t i = 0; i < 4; ++i) {
    const bool is_each = dims == 3 && given[i].size() == 3;
    if (dims == 3 && !is_each && given[i].size() != 1) return false;
    last[i] = is_each ? ArrayRef<int64_t>(given[i].data() + 1, 2) : given[i];
  }
  if (!read_window(last[0], last[1], last[2], last[3], image)) return false;
  if (dims == 3) {
    Window first;
    const auto one = [&](size_t i) { return ArrayRef<int64_t>(given[i].data(), 1); };
    if (!read_window(one(0), one(1), one(2), one(3), first)) return false;
    depth = {input.size(-3), 0, first.taps[0], first.stride[0], first.padding[0], first.dilation[0]};
    depth.out = static_cast<dim_t>(pooled_size(input.size(-3), first, 0, ceil_mode));
    out[0] = depth.out;
    if (depth.out < 1 || 2 * depth.pad > depth.dilation * (depth.taps - 1) + 1) return false;
  }
  for (size_t d = 0; d < 2; ++d) {
    const int64_t size = pooled_size(input.size(static_cast<dim_t>(d) - 2), image, d, ceil_mode);
    if (size < 1 || 2 * image.padding[d] > image.dilation[d] * (image.taps[d] - 1) + 1) return false;
    out[d + 1] = static_cast<dim_t>(size);
  }
  return true;
}

Geometry VolumeWindow::geometry(const Tensor& input) const {
  return {input.size(-2),    input.size(-1),   out[1],          out[2],           image.taps[0],
          image.taps[1],     image.stride[0],  image.stride[1], image.padding[0], image.padding[1],
          image.dilation[0], image.dilation[1]};
}

bool VolumeWindow::resize(KernelContext& ctx, const Tensor& input, size_t dims, Tensor& to) const {
  dim_t sizes[5];
  const size_t rank = static_cast<size_t>(input.dim()), before = rank - dims;
  for (size_t d = 0; d < before; ++d) sizes[d] = input.size(static_cast<dim_t>(d));
  for (size_t d = 0; d < dims; ++d) sizes[before + d] = out[3 - dims + d];
  return ctx.resize(to, SizesRef(sizes, rank));
}

}  // namespace penlight::optimized
