// The first convolution of a network, over an image of few channels, and the depthwise one that reads
// its result, as mobile networks begin (Howard et al., "MobileNets", 2017). The image between them is
// the largest of the network: of the usual windows only the few of its rows exist that a row of them
// reads (vector/expansion.cpp). For others, and in small builds, it is scratch.
#include "convolution.h"
#include "expansion.h"
#include "image.h"
#include "packed.h"

namespace penlight::optimized {

namespace {

// The two convolutions, of few channels and of single ones.
struct Stem {
  const PackedConvolution &first, &last;
  Convolution a{}, b{};  // what their arguments say
};

// False, with the failure recorded, where the weights or activations do not fit.
bool check(KernelContext& ctx, const Stem& stem) {
  const dim_t channels = stem.first.images[0].size(1);
  dim_t taps = 0, depth = 0, first = 0, last = 0;
  const bool fits = stem.b.outputs == stem.a.outputs &&
                    multiply_sizes(stem.a.window.taps[0], stem.a.window.taps[1], taps) &&
                    multiply_sizes(taps, channels, depth) && packed_size(stem.a.outputs, depth, first) &&
                    multiply_sizes(stem.b.window.taps[0], stem.b.window.taps[1], taps) &&
                    packed_size(stem.a.outputs, taps, last);
  if (!fits)
    return ctx.refuse("conv2d_depthwise_packed: windows and {} channels do not fit each other",
                      stem.a.outputs);
  return check_packed(ctx, stem.first.weight, first) && check_packed(ctx, stem.last.weight, last) &&
         check_activation(ctx, stem.first.activation) && check_activation(ctx, stem.last.activation);
}

// False: there is no code for it.
bool run_together(KernelContext& ctx, const Stem& stem, const Tensor& between, Tensor& out) {
  const Tensor& input = stem.first.images[0];
  FewChannels few{};
  few.input = input.const_data_ptr<float>();
  few.channels = input.size(1);
  few.planar = !is_channels_last(input);
  few.wide_tiles = prefers_wide_tiles();
  few.tall_tiles = prefers_tall_tiles();
  few.geometry = geometry_of(input, stem.a.window, stem.a.out[0], stem.a.out[1]);
  Expansion e{};
  e.wide_tiles = prefers_wide_tiles();
  e.tall_tiles = prefers_tall_tiles();
  e.windows.fetches_results = fetches_results();
  e.few = &few;
  e.packed = stem.first.weight.const_data_ptr<float>();
  e.steps = few.geometry.taps_h * few.geometry.taps_w * few.channels;
  e.epilogue = epilogue_of({}, stem.first.activation, stem.first.low, stem.first.high);
  e.windows.packed = stem.last.weight.const_data_ptr<float>();
  e.windows.output = out.mutable_data_ptr<float>();
  e.windows.channels = e.windows.last_channel = stem.b.outputs;
  e.windows.epilogue = epilogue_of({}, stem.last.activation, stem.last.low, stem.last.high);
  e.windows.geometry = geometry_of(between, stem.b.window, stem.b.out[0], stem.b.out[1]);
  e.windows.last_row = input.size(0) * stem.b.out[0];
  const size_t scratch = panels_scratch(e);
  if (scratch) run_by_panels(ctx, e, scratch);
  return scratch != 0;
}

}  // namespace

Tensor& conv2d_depthwise_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& first,
                                    const Tensor& weight, ArrayRef<int64_t> first_window,
                                    ArrayRef<int64_t> first_stride, ArrayRef<int64_t> first_padding,
                                    ArrayRef<int64_t> first_dilation, int64_t first_activation,
                                    double first_low, double first_high, ArrayRef<int64_t> window,
                                    ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                                    ArrayRef<int64_t> dilation, int64_t activation, double low, double high,
                                    Tensor& out) {
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float ||
      input.dim() != 4 || (!is_channels_last(input) && !input.is_contiguous())) {
    return ctx.fail(out, Status::InvalidArgument, "conv2d_depthwise_packed takes dense float32 images");
  }
  const Optional<Tensor> none;
  const PackedConvolution begin{{&input, 1},      first,         none,           first_window,
                                first_stride,     first_padding, first_dilation, 1,
                                first_activation, first_low,     first_high};
  Convolution a{};
  if (!read_convolution(ctx, input, first_window, first_stride, first_padding, first_dilation, 1,
                        input.size(1), a))
    return out;
  constexpr uint8_t kChannelsLast[] = {0, 2, 3, 1};
  const dim_t sizes[] = {input.size(0), a.outputs, a.out[0], a.out[1]};
  dim_t elements = 1;
  bool small = true;
  for (const dim_t size : sizes) small = small && multiply_sizes(elements, size, elements);
  if (!small || elements > INTPTR_MAX / 8) {
    return ctx.fail(out, Status::InvalidArgument,
                    "conv2d_depthwise_packed: {} channels of {} by {} are too large", a.outputs, a.out[0],
                    a.out[1]);
  }
  ImageView view(input, sizes, kChannelsLast);
  view.use(nullptr, elements);
  Tensor between = view.tensor();
  const PackedConvolution end{{&between, 1}, weight,    none,       window, stride, padding,
                              dilation,      a.outputs, activation, low,    high};
  Stem stem{begin, end, a, {}};
  if (!read_convolution(ctx, between, window, stride, padding, dilation, a.outputs, a.outputs, stem.b) ||
      !check(ctx, stem)) {
    return out;
  }
  const dim_t result[] = {input.size(0), stem.b.outputs, stem.b.out[0], stem.b.out[1]};
  if (!ctx.resize(out, SizesRef(result, 4))) return out;
  if (!is_channels_last(out))
    return ctx.fail(out, Status::InvalidArgument, "the result of conv2d_depthwise_packed is channels-last");
  if (out.numel() == 0 || run_together(ctx, stem, between, out)) return out;
  float* const memory = ctx.allocate_scratch_array<float>(static_cast<size_t>(elements));
  if (!memory) return out;
  view.use(memory, elements);
  if (convolve(ctx, begin, between)) convolve(ctx, end, out);
  return out;
}

}  // namespace penlight::optimized
