// Max pooling, without the places of the maxima, and average pooling, over channels-last images and
// over planes; the latter over signals too.
#include "image.h"
#include "isa.h"
#include "packed.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

// Outputs along one direction; a window that ceil_mode adds begins inside the padded input.
int64_t pooled_size(int64_t size, const Window& w, size_t d, bool ceil_mode) {
  const int64_t room = size + 2 * w.padding[d] - w.dilation[d] * (int64_t{w.taps[d]} - 1) - 1;
  if (room < 0 && !(ceil_mode && room > -int64_t{w.stride[d]})) return -1;
  int64_t out = (room + (ceil_mode ? w.stride[d] - 1 : 0)) / w.stride[d] + 1;
  if (ceil_mode && (out - 1) * w.stride[d] >= size + w.padding[d]) --out;
  return out;
}

constexpr dim_t kLongestLine = 1 << 30;  // elements, so that their places are numbers of 32 bits

// Elements of a row with its padding and all that windows read: they end in the padding, or with ceil_mode
// behind it, and of planes vectors of them past the last pixel. 0 where there would be too many.
dim_t line_size(const Geometry& g, dim_t pixel) {
  const dim_t columns = pixel == 1 ? round_to_panel(g.out_width) : g.out_width;
  const dim_t windows = (columns - 1) * g.stride_w + (g.taps_w - 1) * g.dilation_w + 1;
  const dim_t padded = g.width + 2 * g.pad_w, length = windows > padded ? windows : padded;
  return length > kLongestLine / pixel ? 0 : length * pixel + kPanel;
}

bool are_planes(const Tensor& input, const Tensor& out) {
  return input.is_contiguous() && out.is_contiguous();
}

}  // namespace

Tensor& max_pool2d_out(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> kernel_size,
                       ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                       bool ceil_mode, Tensor& out) {
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float ||
      input.dim() != 4 || !(input.is_contiguous() || is_channels_last(input)))
    return ctx.fail(out, Status::InvalidArgument,
                    "max_pool2d takes a float32 image of 4 dimensions, row-major or channels-last");
  Window w{};
  int64_t size[2] = {-1, -1};
  if (read_window(kernel_size, stride.empty() ? kernel_size : stride, padding, dilation, w)) {
    for (size_t d = 0; d < 2; ++d) {
      size[d] = pooled_size(input.size(static_cast<dim_t>(d) + 2), w, d, ceil_mode);
    }
  }
  if (size[0] < 1 || size[1] < 1)
    return ctx.fail(out, Status::InvalidArgument, "max_pool2d: the window does not fit an input of {} by {}",
                    input.size(2), input.size(3));
  const dim_t sizes[] = {input.size(0), input.size(1), static_cast<dim_t>(size[0]),
                         static_cast<dim_t>(size[1])};
  if (!ctx.resize(out, SizesRef(sizes, 4))) return out;
  const bool planar = are_planes(input, out);
  if (!planar && !(is_channels_last(input) && is_channels_last(out)))
    return ctx.fail(out, Status::InvalidArgument, "the result of max_pool2d lies in the order of its input");
  if (out.numel() == 0) return out;
  MaxPool pool{};
  pool.input = input.const_data_ptr<float>();
  pool.output = out.mutable_data_ptr<float>();
  pool.pixel = planar ? 1 : input.size(1);
  pool.geometry = geometry_of(input, w, sizes[2], sizes[3]);
  pool.line_size = planar ? line_size(pool.geometry, 1) : 0;
  if (planar && pool.line_size == 0)
    return ctx.fail(out, Status::InvalidArgument, "max_pool2d of {} columns, which are too many",
                    input.size(3));
  const dim_t rows = out.numel() / (sizes[3] * pool.pixel);
  const double operations = 4.0 * static_cast<double>(out.numel()) * static_cast<double>(w.taps[0]) *
                            static_cast<double>(w.taps[1]);
  const dim_t parts = parts_of(ctx, operations, rows);
  PartMemory memory;
  if (planar && !allocate_parts(ctx, parts, static_cast<size_t>(pool.line_size) * sizeof(float), memory)) {
    return out;
  }
  const auto part = [&](size_t index) {
    MaxPool mine = pool;
    const Range range = range_of(index, parts, rows);
    mine.first_row = range.first;
    mine.last_row = range.last;
    if (planar) mine.line = static_cast<float*>(memory.of(index));
    routines().max_pool(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return out;
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

// False, with nothing written, if it is for the portable kernel.
bool average(KernelContext& ctx, const Tensor& input, const Window& w, bool ceil_mode, AveragePool pool,
             Tensor& out) {
  dim_t sizes[] = {input.size(0), input.size(1), 0, 0};
  for (size_t d = 0; d < 2; ++d) {
    const int64_t size = pooled_size(input.size(static_cast<dim_t>(d) + 2), w, d, ceil_mode);
    if (size < 1 || 2 * w.padding[d] > w.taps[d]) return false;
    sizes[d + 2] = static_cast<dim_t>(size);
  }
  if (!ctx.resize(out, SizesRef(sizes, 4))) return true;
  const bool planar = are_planes(input, out);
  if (!planar && !(is_channels_last(input) && is_channels_last(out))) return false;
  const Geometry g = geometry_of(input, w, sizes[2], sizes[3]);
  const dim_t columns = round_to_panel(g.out_width);
  pool.geometry = g;
  pool.pixel = planar ? 1 : input.size(1);
  pool.line_size = line_size(g, pool.pixel);
  if (pool.line_size == 0) return false;
  float* counts = ctx.allocate_scratch_array<float>(static_cast<size_t>(columns));
  if (!counts) return true;
  count_columns(g, pool.count_padding, pool.divisor != 0.0f, columns, counts);
  pool.sizes = counts;
  pool.input = input.const_data_ptr<float>();
  pool.output = out.mutable_data_ptr<float>();
  const dim_t rows = out.numel() / (g.out_width * pool.pixel);
  const double work = static_cast<double>(g.taps_h * g.stride_w + g.taps_w + 2);
  const dim_t parts = parts_of(ctx, 2.0 * static_cast<double>(out.numel()) * work, rows);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, static_cast<size_t>(pool.line_size) * sizeof(float), memory)) return true;
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

}  // namespace

Tensor& avg_pool2d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> kernel_size,
                       ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                       bool count_include_pad, Optional<int64_t> divisor_override, Tensor& out) {
  constexpr int64_t kOne[] = {1};
  Window w{};
  AveragePool pool{};
  pool.count_padding = count_include_pad;
  pool.divisor = static_cast<float>(divisor_override.value_or(0));
  const bool takes = self.scalar_type() == ScalarType::Float && out.scalar_type() == ScalarType::Float &&
                     self.dim() == 4 && self.numel() > 0 && divisor_override.value_or(1) != 0 &&
                     read_window(kernel_size, stride.empty() ? kernel_size : stride, padding, kOne, w);
  if (!takes || !average(ctx, self, w, ceil_mode, pool, out)) ctx.decline();
  return out;
}

// A signal is a plane of one row.
Tensor& avg_pool1d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> kernel_size,
                       ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, bool ceil_mode,
                       bool count_include_pad, Tensor& out) {
  AveragePool pool{};
  pool.count_padding = count_include_pad;
  Window w{{1, 0}, {1, 0}, {0, 0}, {1, 1}};
  const ArrayRef<int64_t> steps = stride.empty() ? kernel_size : stride;
  const dim_t dims = self.dim();
  dim_t taps[2], step[2], pad[2];
  const bool takes = self.scalar_type() == ScalarType::Float && out.scalar_type() == ScalarType::Float &&
                     (dims == 2 || dims == 3) && self.numel() > 0 && self.is_contiguous() &&
                     kernel_size.size() == 1 && steps.size() == 1 && padding.size() == 1 &&
                     read_pair(kernel_size, 1, taps) && read_pair(steps, 1, step) &&
                     read_pair(padding, 0, pad);
  if (takes) {
    w.taps[1] = taps[0];
    w.stride[1] = step[0];
    w.padding[1] = pad[0];
  }
  const int64_t size = takes ? pooled_size(self.size(-1), w, 1, ceil_mode) : 0;
  if (size < 1 || 2 * w.padding[1] > w.taps[1]) {
    ctx.decline();
    return out;
  }
  const dim_t length = static_cast<dim_t>(size), signals = self.numel() / self.size(-1);
  const dim_t sizes[] = {self.size(0), dims == 2 ? length : self.size(1), length};
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dims)))) return out;
  constexpr uint8_t order[] = {0, 1, 2, 3};
  const dim_t given[] = {1, signals, 1, self.size(-1)}, made[] = {1, signals, 1, length};
  ImageView from(self, given, order), to(out, made, order);
  Tensor result = to.tensor();
  if (!out.is_contiguous() || !average(ctx, from.tensor(), w, ceil_mode, pool, result)) ctx.decline();
  return out;
}

}  // namespace penlight::optimized
