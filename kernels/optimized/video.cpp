// Convolution over time, of channels-last frames that lie one after the other.
#include "video.h"

#include "image.h"
#include "isa.h"
#include "packed.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

bool read_number(ArrayRef<int64_t> from, size_t place, int64_t least, dim_t& to) {
  dim_t pair[2];
  const bool good = read_pair({from.data() + place, 1}, least, pair);
  to = good ? pair[0] : 0;
  return good;
}

bool read_times(KernelContext& ctx, const Tensor& input, int64_t frames, ArrayRef<int64_t> window,
                ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                Times& times) {
  const bool sides = padding.size() == 6;
  if (window.size() != 4 || stride.size() != 3 || dilation.size() != 3 || (!sides && padding.size() != 3))
    return ctx.refuse("conv3d_packed takes windows over time, height and width");
  Numbers& n = times.window;
  const bool good = read_number(window, 1, 1, n.taps) && read_number(stride, 0, 1, n.stride) &&
                    read_number(padding, 0, 0, n.before) &&
                    read_number(padding, sides ? 3 : 0, 0, n.behind) &&
                    read_number(dilation, 0, 1, n.dilation) && frames > 0 && frames <= INT32_MAX &&
                    input.size(0) % frames == 0;
  const int64_t room =
      good ? frames + n.before + n.behind - n.dilation * (int64_t{n.taps} - 1) - 1 : int64_t{-1};
  if (room < 0)
    return ctx.refuse("a window over time does not fit videos of {} frames, of {} in all", frames,
                      input.size(0));
  times.frames = static_cast<dim_t>(frames);
  times.videos = input.size(0) / times.frames;
  times.out = static_cast<dim_t>(room / n.stride + 1);
  return true;
}

bool is_one_pixel(ArrayRef<int64_t> window, ArrayRef<int64_t> stride, ArrayRef<int64_t> padding) {
  bool one = window[2] == 1 && window[3] == 1 && stride[1] == 1 && stride[2] == 1;
  for (size_t i = 0; i < padding.size(); ++i) one = one && (i % 3 == 0 || padding[i] == 0);
  return one;
}

// Of a tile for two rows of eight columns, the least that there is: does its size fit an address?
bool has_tile(const DepthwiseFrames& v) {
  const Geometry& g = v.image.geometry;
  constexpr dim_t kRows = 2, kColumns = 8, kBytes = 2 * kPanel * static_cast<dim_t>(sizeof(float));
  const dim_t high = kRows * g.stride_h + g.taps_h * g.dilation_h,
              wide = kColumns * g.stride_w + g.taps_w * g.dilation_w;
  const dim_t reach = v.taps * v.dilation, frames = reach < v.frames ? reach : v.frames;
  dim_t size = 0;
  return multiply_sizes(high, wide, size) && multiply_sizes(size, frames, size) &&
         multiply_sizes(size, kBytes, size);
}

void run_depthwise(KernelContext& ctx, DepthwiseFrames& v, dim_t taps) {
  const Depthwise& image = v.image;
  const dim_t rows = image.last_row, panels = round_to_panel(image.channels) / kPanel;
  // Rows of a frame share lines of the image, so parts are of channels where these are enough.
  const bool by_rows = panels < static_cast<dim_t>(4 * ctx.threads()) && panels < rows;
  const double results = static_cast<double>(v.videos * v.out_frames * rows) *
                         static_cast<double>(image.geometry.out_width * image.channels);
  const dim_t parts = parts_of(ctx, 4 * results * static_cast<double>(taps), by_rows ? rows : panels);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, routines().depthwise_frames_scratch(v), memory)) return;
  const auto part = [&](size_t index) {
    DepthwiseFrames mine = v;
    mine.image.tile = static_cast<float*>(memory.of(index));
    if (by_rows) {
      const Range range = range_of(index, parts, rows);
      mine.image.first_row = range.first;
      mine.image.last_row = range.last;
    } else {
      const Range range = range_of(index, parts, image.channels, kPanel);
      mine.image.first_channel = range.first;
      mine.image.last_channel = range.last;
    }
    routines().depthwise_frames(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

void depthwise(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Times& times,
               const Convolution& c, const Epilogue& epilogue, Tensor& out) {
  const Numbers& n = times.window;
  DepthwiseFrames v{};
  v.videos = times.videos;
  v.frames = times.frames;
  v.out_frames = times.out;
  v.taps = n.taps;
  v.stride = n.stride;
  v.pad = n.before;
  v.dilation = n.dilation;
  Depthwise& image = v.image;
  image.geometry = geometry_of(input, c.window, c.out[0], c.out[1]);
  dim_t taps = 0, size = 0;
  if (!multiply_sizes(c.window.taps[0], c.window.taps[1], taps) || !multiply_sizes(taps, n.taps, taps) ||
      !packed_size(c.outputs, taps, size) || !has_tile(v)) {
    ctx.fail("conv3d_packed: a window of {} by {} by {} is too large", n.taps, c.window.taps[0],
             c.window.taps[1]);
    return;
  }
  if (!check_packed(ctx, weight, size) || out.numel() == 0) return;
  image.input = input.const_data_ptr<float>();
  image.packed = weight.const_data_ptr<float>();
  image.output = out.mutable_data_ptr<float>();
  image.channels = image.last_channel = c.outputs;
  image.multiplier = c.outputs / c.groups;
  image.epilogue = epilogue;
  image.last_row = c.out[0];
  run_depthwise(ctx, v, taps);
}

}  // namespace

Tensor& conv3d_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                          const Optional<Tensor>& residual, int64_t frames, ArrayRef<int64_t> window,
                          ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                          int64_t groups, int64_t activation, double low, double high, Tensor& out) {
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float ||
      input.dim() != 4 || !is_channels_last(input))
    return ctx.fail(out, Status::InvalidArgument, "conv3d_packed takes channels-last float32 images");
  Times times{};
  if (!read_times(ctx, input, frames, window, stride, padding, dilation, times)) return out;
  const bool sides = padding.size() == 6, one_pixel = is_one_pixel(window, stride, padding);
  const int64_t shape[] = {window[0], window[2], window[3]};
  const int64_t around[] = {padding[1], padding[2], padding[sides ? 4 : 1], padding[sides ? 5 : 2]};
  Convolution c{};
  if (!read_convolution(ctx, input, {shape, 3}, {stride.data() + 1, 2}, {around, 4}, {dilation.data() + 1, 2},
                        groups, input.size(1), c)) {
    return out;
  }
  dim_t count = 0;
  if (!multiply_sizes(times.videos, times.out, count))
    return ctx.fail(out, Status::InvalidArgument, "conv3d_packed: {} videos of {} frames are too many",
                    times.videos, times.out);
  const dim_t sizes[] = {count, c.outputs, c.out[0], c.out[1]};
  if (!ctx.resize(out, SizesRef(sizes, 4))) return out;
  if (!is_channels_last(out))
    return ctx.fail(out, Status::InvalidArgument, "the result of conv3d_packed is channels-last");
  if (!check_activation(ctx, activation) || !check_residual(ctx, residual, out)) return out;
  if (!one_pixel && c.groups > 1 && c.groups == input.size(1)) {
    depthwise(ctx, input, weight, times, c, epilogue_of(residual, activation, low, high), out);
    return out;
  }
  if (times.videos == 0) return out;
  if (!one_pixel) {
    convolve_side_by_side(ctx,
                          {{&input, 1},
                           weight,
                           residual,
                           {shape, 3},
                           {stride.data() + 1, 2},
                           {around, 4},
                           {dilation.data() + 1, 2},
                           groups,
                           activation,
                           low,
                           high},
                          times, out);
    return out;
  }
  const Numbers& n = times.window;
  const int64_t taps[] = {window[0], n.taps, 1}, steps[] = {n.stride, 1}, apart[] = {n.dilation, 1},
                pads[] = {n.before, 0, n.behind, 0};
  // One image of each video, a row for each frame.
  constexpr uint8_t order[] = {0, 2, 3, 1};
  const dim_t pixels = input.size(2) * input.size(3);
  const dim_t given[] = {times.videos, input.size(1), times.frames, pixels},
              made[] = {times.videos, c.outputs, times.out, pixels};
  ImageView from(input, given, order), to(out, made, order),
      added(residual.has_value() ? residual.value() : out, made, order);
  const Optional<Tensor> more = residual.has_value() ? Optional<Tensor>(added.tensor()) : Optional<Tensor>();
  Tensor result = to.tensor();
  const Tensor image = from.tensor();
  convolve(ctx,
           {{&image, 1},
            weight,
            more,
            {taps, 3},
            {steps, 2},
            {pads, 4},
            {apart, 2},
            groups,
            activation,
            low,
            high},
           result);
  return out;
}

}  // namespace penlight::optimized
