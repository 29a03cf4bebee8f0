// Max pooling, without the places of the maxima, over channels-last images and over planes.
#include "pool.h"

#include "isa.h"

namespace penlight::optimized {

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

}  // namespace penlight::optimized
