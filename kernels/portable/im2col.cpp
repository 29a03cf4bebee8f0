// Patches of an image as columns (im2col), and columns summed back into an image.
#include "axis_argument.h"
#include "fill.h"

namespace penlight::portable {

namespace {

// How patches lie on an image along both axes.
struct PatchGrid {
  dim_t kernel[2], dilation[2], padding[2], stride[2], image[2], count[2];

  dim_t positions() const { return count[0] * count[1]; }
  dim_t taps() const { return kernel[0] * kernel[1]; }

  // The windows whose tap `tap` along axis `d` is inside the image, and where it is in the first one.
  struct Range {
    dim_t first, count, start;
  };
  Range inside(int d, dim_t tap) const {
    const dim_t start = tap * dilation[d] - padding[d];  // of window 0
    const auto windows_before = [&](dim_t place) {
      const dim_t some = place > start ? (place - start + stride[d] - 1) / stride[d] : 0;
      return some < count[d] ? some : count[d];
    };
    const dim_t first = windows_before(0), some = windows_before(image[d]) - first;
    return {first, some, some ? start + first * stride[d] : 0};
  }
};

bool make_grid(KernelContext& ctx, IntArrayRef kernel, IntArrayRef dilation, IntArrayRef padding,
               IntArrayRef stride, dim_t height, dim_t width, PatchGrid& grid) {
  grid.image[0] = height;
  grid.image[1] = width;
  for (dim_t d = 0; d < 2; ++d) {
    if (!axis_argument(ctx, "kernel_size", kernel, 2, d, 1, grid.kernel[d]) ||
        !axis_argument(ctx, "dilation", dilation, 2, d, 1, grid.dilation[d]) ||
        !axis_argument(ctx, "padding", padding, 2, d, 0, grid.padding[d]) ||
        !axis_argument(ctx, "stride", stride, 2, d, 1, grid.stride[d]))
      return false;
    const dim_t room = grid.image[d] + 2 * grid.padding[d] - grid.dilation[d] * (grid.kernel[d] - 1) - 1;
    if (room < 0)
      return ctx.refuse("a kernel of {} with stride {} and padding {} does not fit {}", grid.kernel[d],
                        grid.stride[d], grid.padding[d], grid.image[d]);
    grid.count[d] = room / grid.stride[d] + 1;
  }
  return true;
}

}  // namespace

// [N, C, H, W] (or without N) to [N, C kh kw, positions].
void im2col_out(KernelContext& ctx, const Tensor& self, IntArrayRef kernel_size, IntArrayRef dilation,
                IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  const bool batched = self.dim() == 4;
  if (!batched && !check_rank(ctx, self, 3, "self")) return;
  PatchGrid grid;
  if (!check_same_dtype(ctx, self, out) ||
      !make_grid(ctx, kernel_size, dilation, padding, stride, self.size(-2), self.size(-1), grid))
    return;
  const dim_t images = batched ? self.size(0) : 1, channels = self.size(-3);
  const dim_t sizes[] = {images, channels * grid.taps(), grid.positions()};
  if (!ctx.resize(out, batched ? SizesRef(sizes, 3) : SizesRef(sizes + 1, 2)) || out.numel() == 0) return;
  // A tap of all windows is the image, moved and cut, with zeros where it is outside.
  View from = view_of(self), to = view_of(out);
  if (!batched) {
    from.insert_dim(0, 1, 0);
    to.insert_dim(0, 1, 0);
  }
  to.sizes[1] = channels;
  to.insert_dim(2, grid.count[0], to.strides[2] * grid.count[1]);
  to.sizes[3] = grid.count[1];
  const dim_t row = to.strides[1];
  to.strides[1] *= grid.taps();
  const View image = from;
  const char zero[16] = {};
  for (dim_t tap = 0; tap < grid.taps(); ++tap, to.data += row) {
    const dim_t taps[] = {tap / grid.kernel[1], tap % grid.kernel[1]};
    dim_t before[4] = {};
    from.data = image.data;
    for (int d = 0; d < 2; ++d) {
      const PatchGrid::Range range = grid.inside(d, taps[d]);
      before[2 + d] = range.first;
      from.sizes[2 + d] = range.count;
      from.strides[2 + d] = image.strides[2 + d] * grid.stride[d];
      from.data += range.start * image.strides[2 + d];
    }
    move_padded(out.element_size(), from, before, zero, to);
  }
}

// [N, C kh kw, positions] (or without N) to [N, C, H, W].
void col2im_out(KernelContext& ctx, const Tensor& self, IntArrayRef output_size, IntArrayRef kernel_size,
                IntArrayRef dilation, IntArrayRef padding, IntArrayRef stride, Tensor& out) {
  const bool batched = self.dim() == 3;
  if ((!batched && !check_rank(ctx, self, 2, "self")) || !check_same_dtype(ctx, self, out)) return;
  if (output_size.size() != 2 || output_size[0] < 0 || output_size[0] > kLargestArgument ||
      output_size[1] < 0 || output_size[1] > kLargestArgument)
    return ctx.fail("output_size has {} values, 2 sizes are wanted", output_size.size());
  PatchGrid grid;
  if (!make_grid(ctx, kernel_size, dilation, padding, stride, static_cast<dim_t>(output_size[0]),
                 static_cast<dim_t>(output_size[1]), grid))
    return;
  if (self.size(-2) % grid.taps() != 0 || self.size(-1) != grid.positions())
    return ctx.fail("columns of [{}, {}] do not come from {} taps at {} positions", self.size(-2),
                    self.size(-1), grid.taps(), grid.positions());
  const dim_t images = batched ? self.size(0) : 1, channels = self.size(-2) / grid.taps();
  const dim_t plane = grid.image[0] * grid.image[1];
  const dim_t sizes[] = {images, channels, grid.image[0], grid.image[1]};
  if (!ctx.resize(out, batched ? SizesRef(sizes, 4) : SizesRef(sizes + 1, 3))) return;
  dispatch<Floats>(ctx, self.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    using T = Compute<S>;
    T* sums = ctx.allocate_scratch_array<T>(static_cast<size_t>(plane + 1));
    if (!sums) return;
    for (dim_t n = 0; n < images; ++n) {
      for (dim_t c = 0; c < channels; ++c) {
        const S* rows =
            self.const_data_ptr<S>() + (batched ? n * self.stride(0) : 0) + c * grid.taps() * self.stride(-2);
        S* to = out.mutable_data_ptr<S>() + (batched ? n * out.stride(0) : 0) + c * out.stride(-3);
        for (dim_t i = 0; i < plane; ++i) sums[i] = 0;
        for (dim_t tap = 0; tap < grid.taps(); ++tap) {
          const PatchGrid::Range y = grid.inside(0, tap / grid.kernel[1]),
                                 x = grid.inside(1, tap % grid.kernel[1]);
          for (dim_t h = 0; h < y.count; ++h) {
            const S* row =
                rows + tap * self.stride(-2) + ((y.first + h) * grid.count[1] + x.first) * self.stride(-1);
            T* sum = sums + (y.start + h * grid.stride[0]) * grid.image[1] + x.start;
            for (dim_t i = 0; i < x.count; ++i)
              sum[i * grid.stride[1]] += static_cast<T>(row[i * self.stride(-1)]);
          }
        }
        for (dim_t i = 0; i < plane; ++i) {
          to[i / grid.image[1] * out.stride(-2) + i % grid.image[1] * out.stride(-1)] =
              static_cast<S>(sums[i]);
        }
      }
    }
  });
}

}  // namespace penlight::portable
