// Max pooling over channels-last images, without the places of the maxima.
#include "image.h"
#include "isa.h"
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

}  // namespace

Tensor& max_pool2d_out(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> kernel_size,
                       ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                       bool ceil_mode, Tensor& out) {
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float ||
      input.dim() != 4 || !is_channels_last(input)) {
    ctx.fail(Status::InvalidArgument, "max_pool2d takes a channels-last float32 image of 4 dimensions");
    return out;
  }
  Window w{};
  int64_t size[2] = {-1, -1};
  if (read_window(kernel_size, stride.empty() ? kernel_size : stride, padding, dilation, w)) {
    for (size_t d = 0; d < 2; ++d) {
      size[d] = pooled_size(input.size(static_cast<dim_t>(d) + 2), w, d, ceil_mode);
    }
  }
  if (size[0] < 1 || size[1] < 1) {
    ctx.fail(Status::InvalidArgument, "max_pool2d: the window does not fit an input of {} by {}",
             input.size(2), input.size(3));
    return out;
  }
  const dim_t sizes[] = {input.size(0), input.size(1), static_cast<dim_t>(size[0]),
                         static_cast<dim_t>(size[1])};
  if (!ctx.resize(out, SizesRef(sizes, 4))) return out;
  if (!is_channels_last(out)) {
    ctx.fail(Status::InvalidArgument, "the result of max_pool2d is channels-last");
    return out;
  }
  if (out.numel() == 0) return out;
  MaxPool pool{};
  pool.input = input.const_data_ptr<float>();
  pool.output = out.mutable_data_ptr<float>();
  pool.channels = input.size(1);
  pool.geometry = geometry_of(input, w, sizes[2], sizes[3]);
  const dim_t rows = input.size(0) * sizes[2];
  const double operations = 4.0 * static_cast<double>(out.numel()) * static_cast<double>(w.taps[0]) *
                            static_cast<double>(w.taps[1]);
  const dim_t parts = parts_of(ctx, operations, rows);
  const auto part = [&](size_t index) {
    MaxPool mine = pool;
    const Range range = range_of(index, parts, rows);
    mine.first_row = range.first;
    mine.last_row = range.last;
    routines().max_pool(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return out;
}

}  // namespace penlight::optimized
