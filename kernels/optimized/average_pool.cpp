// Average pooling over channels-last images, and over planes of signals, images and volumes; the portable
// kernels take what these decline.
#include "average_pool.h"

#include "isa.h"
#include "parameters.h"
#include "volume_window.h"

namespace penlight::optimized {

bool place(const Tensor& self, size_t dims, Tensor& out, AveragePool& pool) {
  const bool planar = are_planes(self, out);
  if (!planar && !(self.dim() == 4 && dims == 2 && is_channels_last(self) && is_channels_last(out)))
    return false;
  pool.input = self.const_data_ptr<float>();
  pool.output = out.mutable_data_ptr<float>();
  pool.pixel = planar ? 1 : self.size(1);
  return true;
}

bool average_rows(KernelContext& ctx, const AveragePool& pool, dim_t rows, double operations) {
  const double elements =
      static_cast<double>(rows) * static_cast<double>(pool.geometry.out_width * pool.pixel);
  const dim_t parts = parts_of(ctx, elements * operations, rows);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, static_cast<size_t>(pool.line_size) * sizeof(float), memory)) return false;
  const auto part = [&](size_t index) {
    AveragePool mine = pool;
    const Range range = range_of(index, parts, rows);
    mine.first_row = range.first;
    mine.last_row = range.last;
    mine.line = static_cast<float*>(memory.of(index));
    routines().average_pool(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

namespace {

// How many columns each window has, with padding or without, for as many outputs as vectors compute.
void count_columns(const Geometry& g, bool count_padding, bool is_given, dim_t count, float* sizes) {
  for (dim_t w = 0; w < count; ++w) {
    const dim_t begin = w * g.stride_w - g.pad_w, end = begin + g.taps_w;
    const dim_t border = count_padding ? g.width + g.pad_w : g.width;
    const dim_t first = count_padding || begin > 0 ? begin : 0, last = end < border ? end : border;
    sizes[w] = is_given || last <= first ? 1.0f : static_cast<float>(last - first);
  }
}

// `pool` lacks sizes and a line yet. False, with nothing written, if it is for the portable kernel.
bool average(KernelContext& ctx, AveragePool pool, dim_t elements) {
  const Geometry& g = pool.geometry;
  const dim_t columns = round_to_panel(g.out_width);
  pool.line_size = line_size(g, pool.pixel);
  if (pool.line_size == 0) return false;
  float* sizes = ctx.allocate_scratch_array<float>(static_cast<size_t>(columns));
  if (!sizes) return true;
  count_columns(g, pool.count_padding, pool.divisor != 0.0f, columns, sizes);
  pool.sizes = sizes;
  const double lines = static_cast<double>(pool.depth.taps * g.taps_h * g.stride_w);
  average_rows(ctx, pool, elements / (g.out_width * pool.pixel),
               2.0 * (lines + static_cast<double>(g.taps_w + 2)));
  return true;
}

// Over the last `dims` dimensions, 2 or 3.
bool average(KernelContext& ctx, size_t dims, const Tensor& self, ArrayRef<int64_t> kernel_size,
             ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode, bool count_include_pad,
             Optional<int64_t> divisor_override, Tensor& out) {
  constexpr int64_t kOne[] = {1};
  const size_t rank = static_cast<size_t>(self.dim());
  VolumeWindow w;
  if (!is_float(self) || !is_float(out) || (rank != dims + 1 && rank != dims + 2) || self.numel() == 0 ||
      divisor_override.value_or(1) == 0 || !w.read(self, dims, kernel_size, stride, padding, kOne, ceil_mode))
    return false;
  if (!w.resize(ctx, self, dims, out)) return true;
  AveragePool pool{};
  if (!place(self, dims, out, pool)) return false;
  pool.geometry = w.geometry(self);
  pool.depth = w.depth;
  pool.count_padding = count_include_pad;
  pool.divisor = static_cast<float>(divisor_override.value_or(0));
  return average(ctx, pool, out.numel());
}

}  // namespace

Tensor& avg_pool2d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> kernel_size,
                       ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                       bool count_include_pad, Optional<int64_t> divisor_override, Tensor& out) {
  return or_decline(ctx,
                    average(ctx, 2, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                            divisor_override, out),
                    out);
}

Tensor& avg_pool3d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> kernel_size,
                       ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                       bool count_include_pad, Optional<int64_t> divisor_override, Tensor& out) {
  return or_decline(ctx,
                    average(ctx, 3, self, kernel_size, stride, padding, ceil_mode, count_include_pad,
                            divisor_override, out),
                    out);
}

// A signal is a plane of one row.
Tensor& avg_pool1d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> kernel_size,
                       ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                       bool count_include_pad, Tensor& out) {
  const ArrayRef<int64_t> steps = stride.empty() ? kernel_size : stride;
  const dim_t dims = self.dim();
  dim_t taps[2], step[2], pad[2];
  const bool takes = is_float(self) && is_float(out) && (dims == 2 || dims == 3) && self.numel() > 0 &&
                     self.is_contiguous() && kernel_size.size() == 1 && steps.size() == 1 &&
                     padding.size() == 1 && read_pair(kernel_size, 1, taps) && read_pair(steps, 1, step) &&
                     read_pair(padding, 0, pad) && 2 * pad[1] <= taps[1];
  const int64_t size = takes ? pooled_size(self.size(-1), taps[1], step[1], pad[1], 1, ceil_mode) : 0;
  if (size < 1) return decline(ctx, out);
  const dim_t length = static_cast<dim_t>(size);
  const dim_t sizes[] = {self.size(0), dims == 2 ? length : self.size(1), length};
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dims)))) return out;
  AveragePool pool{};
  pool.input = self.const_data_ptr<float>();
  pool.output = out.mutable_data_ptr<float>();
  pool.pixel = 1;
  pool.geometry = {1, self.size(-1), 1, length, 1, taps[1], 1, step[1], 0, pad[1], 1, 1};
  pool.count_padding = count_include_pad;
  return or_decline(ctx, out.is_contiguous() && average(ctx, pool, out.numel()), out);
}

}  // namespace penlight::optimized
