// Max pooling with the places of the maxima, over channels-last images and over planes of images and volumes;
// the portable kernels take what these decline.
#include "isa.h"
#include "parameters.h"
#include "volume_window.h"

namespace penlight::optimized {

namespace {

// The first column inside of each window.
void first_columns(const Geometry& g, dim_t count, int32_t* columns) {
  for (dim_t w = 0; w < count; ++w) {
    dim_t first = w * g.stride_w - g.pad_w;
    if (first < 0) first += (-first + g.dilation_w - 1) / g.dilation_w * g.dilation_w;
    columns[w] = static_cast<int32_t>(first);
  }
}

// False, with nothing written, if it is for the portable kernel.
bool max_places(KernelContext& ctx, size_t dims, const Tensor& self, const VolumeWindow& w, Tensor& out,
                Tensor& indices) {
  if (!w.resize(ctx, self, dims, out) || !w.resize(ctx, self, dims, indices)) return true;
  const bool planar = are_planes(self, out) && indices.is_contiguous();
  if (!planar && !(self.dim() == 4 && dims == 2 && is_channels_last(self) && is_channels_last(out) &&
                   is_channels_last(indices)))
    return false;
  MaxPlaces pool{};
  pool.input = self.const_data_ptr<float>();
  pool.output = out.mutable_data_ptr<float>();
  pool.places = indices.mutable_data_ptr<int64_t>();
  pool.pixel = planar ? 1 : self.size(1);
  pool.geometry = w.geometry(self);
  pool.depth = w.depth;
  const Geometry& g = pool.geometry;
  // Places are numbers of 32 bits, and of windows past the last too.
  const double elements = static_cast<double>(pool.depth.size * g.height) * static_cast<double>(g.width);
  pool.line_size = planar ? line_size(g, 1) : 0;
  if (elements > kLongestLine || (planar && pool.line_size == 0)) return false;
  const size_t columns = planar ? static_cast<size_t>(round_to_panel(g.out_width)) : 0;
  const double taps = static_cast<double>(pool.depth.taps) * static_cast<double>(g.taps_h * g.taps_w);
  const dim_t rows = out.numel() / (g.out_width * pool.pixel);
  const dim_t parts = parts_of(ctx, 6.0 * taps * static_cast<double>(out.numel()), rows);
  PartMemory memory{};
  if (planar) {
    int32_t* const first = ctx.allocate_scratch_array<int32_t>(columns);
    const size_t floats = static_cast<size_t>(pool.line_size) + 2 * columns;
    if (!first || !allocate_parts(ctx, parts, floats * sizeof(float), memory)) return true;
    first_columns(g, static_cast<dim_t>(columns), first);
    pool.columns = first;
  }
  const auto part = [&](size_t index) {
    MaxPlaces mine = pool;
    const Range range = range_of(index, parts, rows);
    mine.first_row = range.first;
    mine.last_row = range.last;
    if (planar) {
      mine.line = static_cast<float*>(memory.of(index));
      mine.most = mine.line + pool.line_size;
      mine.at = reinterpret_cast<int32_t*>(mine.most + columns);
    }
    routines().max_places(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

Tensor& max_pool(KernelContext& ctx, size_t dims, const Tensor& self, ArrayRef<int64_t> kernel_size,
                 ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                 bool ceil_mode, Tensor& out, Tensor& indices) {
  const size_t rank = static_cast<size_t>(self.dim());
  VolumeWindow w;
  const bool takes = is_float(self) && is_float(out) && indices.scalar_type() == ScalarType::Long &&
                     (rank == dims + 1 || rank == dims + 2) && self.numel() > 0 &&
                     w.read(self, dims, kernel_size, stride, padding, dilation, ceil_mode);
  return or_decline(ctx, takes && max_places(ctx, dims, self, w, out, indices), out);
}

}  // namespace

Tensor& max_pool2d_with_indices_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> kernel_size,
                                    ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                                    ArrayRef<int64_t> dilation, bool ceil_mode, Tensor& out,
                                    Tensor& indices) {
  return max_pool(ctx, 2, self, kernel_size, stride, padding, dilation, ceil_mode, out, indices);
}

Tensor& max_pool3d_with_indices_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> kernel_size,
                                    ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                                    ArrayRef<int64_t> dilation, bool ceil_mode, Tensor& out,
                                    Tensor& indices) {
  return max_pool(ctx, 3, self, kernel_size, stride, padding, dilation, ceil_mode, out, indices);
}

}  // namespace penlight::optimized
