// 2-D convolution over channels-last images and weights packed when the program was made.
//
// Two layouts of packed weights: panels (vector/product.cpp, vector/winograd.cpp,
// vector/few_channels.cpp, vector/few_channels_tiles.cpp, patches.cpp), one group after the other; and,
// where every channel is a group of its own, taps of all outputs (vector/depthwise.cpp).
#include "convolution.h"

#include "image.h"
#include "isa.h"
#include "linear.h"
#include "packed.h"
#include "parallel.h"
#include "patches.h"
#include "product.h"
#include "winograd.h"

namespace penlight::optimized {

namespace {

// Below this many channels a run of one column is too short to be worth its pointer, unless outputs are few.
constexpr dim_t kFewChannels = 32;
// From so many tiles on they are worth the transformation of the weights.
constexpr dim_t kManyTiles = 64;
// From so many pixels on tiles may be faster than direct windows over fewer than kFewChannels.
constexpr dim_t kManyPixels = 128;
// Columns of one row that no two threads share: tiles of any height fill them.
constexpr dim_t kColumnsTogether = 24;
// A window that reaches further down is not cut into more parts than needed.
constexpr dim_t kFewLines = 5;

void run_depthwise(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Convolution& c,
                   const Epilogue& epilogue, Tensor& out) {
  Depthwise convolution{};
  convolution.input = input.const_data_ptr<float>();
  convolution.packed = weight.const_data_ptr<float>();
  convolution.output = out.mutable_data_ptr<float>();
  convolution.channels = c.outputs;
  convolution.multiplier = c.outputs / c.groups;
  convolution.epilogue = epilogue;
  convolution.geometry = geometry_of(input, c.window, c.out[0], c.out[1]);
  convolution.last_row = input.size(0) * c.out[0];
  convolution.last_channel = convolution.channels;
  convolution.fetches_results = fetches_results();
  const double operations =
      2.0 * static_cast<double>(out.numel()) * static_cast<double>(c.window.taps[0] * c.window.taps[1]);
  const double work = 4 * operations;  // it is memory that it waits for
  const size_t tile = routines().depthwise_scratch(convolution);
  const dim_t rows = convolution.last_row, threads = static_cast<dim_t>(ctx.threads());
  PartMemory memory;
  if (is_one_part(work, threads)) {
    if (!allocate_parts(ctx, 1, tile, memory)) return;
    convolution.tile = tile ? static_cast<float*>(memory.of(0)) : nullptr;
    return routines().depthwise(convolution);
  }
  // Few rows are cut by channels, as the product that made them was most likely.
  const dim_t panels = round_to_panel(convolution.channels) / kPanel;
  const bool by_rows = rows >= 5 * threads || panels < rows;
  dim_t steps = by_rows ? rows : panels;
  const dim_t reach = (c.window.taps[0] - 1) * c.window.dilation[0] + 1, overlap = reach / c.window.stride[0];
  if (by_rows && reach > kFewLines && overlap > 0) {  // each part reads that much beside its own rows
    const dim_t few = rows / (2 * overlap), fewest = threads < rows ? threads : rows;
    steps = few > fewest ? few : fewest;
  }
  const dim_t parts = parts_of(ctx, work, steps);
  if (!allocate_parts(ctx, parts, tile, memory)) return;
  const auto part = [&](size_t index) {
    Depthwise mine = convolution;
    mine.tile = tile ? static_cast<float*>(memory.of(index)) : nullptr;
    if (by_rows) {
      const Range range = range_of(index, parts, rows);
      mine.first_row = range.first;
      mine.last_row = range.last;
    } else {
      const Range range = range_of(index, parts, convolution.channels, kPanel);
      mine.first_channel = range.first;
      mine.last_channel = range.last;
    }
    routines().depthwise(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

// Calls `run` with parts of a convolution, each with scratch of its own. False, with the failure recorded,
// where there is not so much memory.
template <class Piece, class Run>
bool in_parts_of(KernelContext& ctx, dim_t parts, size_t scratch, Piece&& piece_at, Run&& run) {
  PartMemory memory;
  if (!allocate_parts(ctx, parts, scratch, memory)) return false;
  const auto part = [&](size_t index) {
    FewChannels mine = piece_at(index);
    mine.scratch = memory.of(index);
    run(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

// With parts of so many rows.
template <class Run>
bool in_parts_of_rows(KernelContext& ctx, const FewChannels& convolution, double operations, dim_t rows,
                      size_t scratch, Run&& run) {
  const dim_t parts = parts_of(ctx, operations, rows);
  const auto rows_at = [&](size_t index) {
    FewChannels some = convolution;
    const Range range = range_of(index, parts, rows);
    some.first_row = range.first;
    some.last_row = range.last;
    return some;
  };
  return in_parts_of(ctx, parts, scratch, rows_at, run);
}

#ifndef __OPTIMIZE_SIZE__
// Some columns of one row of outputs, as a convolution of its own: the image begins so far to the left of
// them that its padding is negative.
FewChannels columns_of_row(const FewChannels& whole, dim_t row, Range columns) {
  FewChannels some = whole;
  const dim_t count = columns.last - columns.first;
  const dim_t apart = (row * (whole.geometry.out_width - count) + columns.first) * whole.outputs;
  some.geometry.out_width = count;
  some.geometry.pad_w -= columns.first * whole.geometry.stride_w;
  some.first_row = row;
  some.last_row = row + 1;
  some.output += apart;
  if (some.epilogue.residual) some.epilogue.residual += apart;
  return some;
}

// Shares columns of a few rows of outputs, as those of a signal are, between threads. False where there are
// rows enough, or too few columns.
bool in_parts_of_columns(KernelContext& ctx, const FewChannels& convolution, double operations, dim_t rows) {
  const Routines& does = routines();
  const dim_t width = convolution.geometry.out_width;
  const dim_t steps = (width + kColumnsTogether - 1) / kColumnsTogether;
  if (rows >= static_cast<dim_t>(ctx.threads())) return false;
  const dim_t most = parts_of(ctx, operations, rows * steps) / rows, pieces = most < steps ? most : steps;
  if (pieces < 2) return false;
  const auto piece_at = [&](size_t index) {
    const size_t row = index / static_cast<size_t>(pieces), piece = index % static_cast<size_t>(pieces);
    return columns_of_row(convolution, static_cast<dim_t>(row),
                          range_of(piece, pieces, width, kColumnsTogether));
  };
  size_t scratch = 0;
  for (size_t i = 0; i < static_cast<size_t>(pieces); ++i) {
    const size_t size = does.few_channels_scratch(piece_at(i));
    scratch = size > scratch ? size : scratch;
  }
  in_parts_of(ctx, rows * pieces, scratch, piece_at, does.few_channels);
  return true;
}
#endif

void run_few_channels(KernelContext& ctx, const PackedConvolution& call, const Convolution& c,
                      const Epilogue& epilogue, Tensor& out) {
  const Tensor& input = call.images[0];
  FewChannels convolution{};
  convolution.input = input.const_data_ptr<float>();
  convolution.packed = call.weight.const_data_ptr<float>();
  convolution.output = out.mutable_data_ptr<float>();
  convolution.channels = input.size(1);
  convolution.outputs = c.outputs;
  convolution.planar = !is_channels_last(input);
  convolution.epilogue = epilogue;
  convolution.geometry = geometry_of(input, c.window, c.out[0], c.out[1]);
  const Routines& does = routines();
  const dim_t images = input.size(0), taps = c.window.taps[0] * c.window.taps[1];
  const double operations =
      2.0 * static_cast<double>(out.numel()) * static_cast<double>(taps * convolution.channels);
  const auto tiles_of = [](dim_t size) { return (size + kFewChannelsTile - 1) / kFewChannelsTile; };
  const dim_t rows = images * tiles_of(c.out[0]);  // of tiles
  convolution.wide_tiles = prefers_wide_tiles();
  convolution.tall_tiles = prefers_tall_tiles();
  const bool many = call.transformed && does.few_channels_tiles && rows * tiles_of(c.out[1]) >= kManyTiles;
  const size_t by_tiles = many ? does.few_channels_tiles_scratch(convolution) : 0;
  if (by_tiles) {
    int wild = 0;
    const auto run = [&](const FewChannels& part) {
      if (!does.few_channels_tiles(part)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
    };
    if (!in_parts_of_rows(ctx, convolution, operations / 3, rows, by_tiles, run) || wild == 0) return;
  }
  const dim_t lines = images * c.out[0];
#ifndef __OPTIMIZE_SIZE__
  if (in_parts_of_columns(ctx, convolution, operations, lines)) return;
#endif
  in_parts_of_rows(ctx, convolution, operations, lines, does.few_channels_scratch(convolution),
                   does.few_channels);
}

// Has `product` read `images` side by side: runs of as many channels as all of them have a multiple of.
bool read_parts(KernelContext& ctx, TensorList images, Product& product) {
  dim_t run = 0, channels = 0;
  for (const Tensor& image : images) {
    channels += image.size(1);
    for (dim_t rest = image.size(1); rest != 0;) {
      const dim_t next = run % rest;
      run = rest;
      rest = next;
    }
  }
  const dim_t count = channels / run;
  InputPart* const parts = ctx.allocate_scratch_array<InputPart>(static_cast<size_t>(count));
  if (!parts) return false;
  InputPart* part = parts;
  for (const Tensor& image : images) {
    for (dim_t c = 0; c < image.size(1); c += run)
      *part++ = {image.const_data_ptr<float>() + c, image.size(1)};
  }
  product.parts = parts;
  product.part_count = count;
  product.channels = run;
  return true;
}

// A convolution as a product; of several images, read_parts() has to say where they are.
Product product_of(const PackedConvolution& call, const Convolution& c, const Epilogue& epilogue,
                   Tensor& out) {
  const Tensor& input = call.images[0];
  Product product{};
  product.input = input.const_data_ptr<float>();
  product.packed = call.weight.const_data_ptr();
  product.format = format_of(call.weight);
  product.output = out.mutable_data_ptr<float>();
  product.output_pitch = c.outputs;
  product.outputs = c.outputs / c.groups;
  product.channels = input.size(1) / c.groups;
  product.last_row = input.size(0) * c.out[0] * c.out[1];
  product.last_panel = round_to_panel(product.outputs) / kPanel;
  product.last_group = c.groups;
  product.by_channels = c.groups == 1 && call.images.size() == 1 &&
                        is_by_channels(product.last_row, product.channels, product.outputs);
  product.blocks = call.blocks;
  product.epilogue = epilogue;
  product.geometry = geometry_of(input, c.window, c.out[0], c.out[1]);
  product.pixel = input.size(1);
  return product;
}

void run_groups(KernelContext& ctx, const PackedConvolution& call, const Convolution& c,
                const Epilogue& epilogue, Tensor& out) {
  Product product = product_of(call, c, epilogue, out);
  if (call.images.size() > 1 && !read_parts(ctx, call.images, product)) return;
  if (call.transformed && run_winograd(ctx, product, call.images[0].size(0))) return;
  if (!ctx.ok()) return;
  const dim_t longest = product.parts ? product.channels : product.pixel;
  float* zeros = ctx.allocate_scratch_array<float>(static_cast<size_t>(longest));
  if (!zeros) return;
  for (dim_t i = 0; i < longest; ++i) zeros[i] = 0.0f;
  product.zeros = zeros;
  run_product(ctx, product);
}

// Are outputs so few that a product of which vectors are of channels is faster?
bool goes_by_channels(const Tensor& input, const Convolution& c) {
  return is_channels_last(input) && c.outputs <= routines().few_outputs &&
         is_by_channels(input.size(0) * c.out[0] * c.out[1], input.size(1), c.outputs);
}

// By tiles of Winograd's method, as in run_groups(). False, unless a failure was recorded, where there are
// too few of them, or of channels, to be faster; and for one row or column of taps, which gains less.
bool run_tiles(KernelContext& ctx, const PackedConvolution& call, const Convolution& c,
               const Epilogue& epilogue, Tensor& out) {
  const Tensor& input = call.images[0];
  const bool flat = c.window.taps[0] == 1 || c.window.taps[1] == 1;
  const bool many = input.size(0) * c.out[0] * c.out[1] >= kManyPixels;
  if (!call.transformed || flat || !many || !is_channels_last(input)) return false;
  return run_winograd(ctx, product_of(call, c, epilogue, out), input.size(0)) || !ctx.ok();
}

// Are these images of one size, in the order that a convolution over several reads?
bool lie_side_by_side(TensorList images) {
  const Tensor& first = images[0];
  for (const Tensor& image : images) {
    if (image.scalar_type() != ScalarType::Float || image.dim() != 4 || !is_channels_last(image) ||
        image.size(0) != first.size(0) || image.size(1) < 1 || image.size(2) != first.size(2) ||
        image.size(3) != first.size(3)) {
      return false;
    }
  }
  return true;
}

// Checks what the sizes that the arguments say leave open, and makes `out` ready. False where it has no
// elements, or with the failure recorded.
bool prepare(KernelContext& ctx, const PackedConvolution& call, dim_t size, Format format,
             const dim_t (&sizes)[4], Tensor& out) {
  if (!check_packed(ctx, call.weight, size, format) || !check_activation(ctx, call.activation)) return false;
  if (!ctx.resize(out, SizesRef(sizes, 4))) return false;
  if (!is_channels_last(out)) {
    ctx.fail("the result of conv2d_packed is channels-last");
    return false;
  }
  return check_residual(ctx, call.residual, out) && out.numel() != 0;
}

#ifndef __OPTIMIZE_SIZE__
// Does the window pass over every pixel alone? Anything else, and what is no convolution, is for
// read_convolution().
bool is_of_pixels(const PackedConvolution& call) {
  const auto are_all = [](ArrayRef<int64_t> list, int64_t value) {
    if (list.size() != 1 && list.size() != 2) return false;
    return list[0] == value && list[list.size() - 1] == value;
  };
  const Tensor& input = call.images[0];
  return call.images.size() == 1 && call.groups == 1 && call.window.size() == 3 && call.window[0] > 0 &&
         call.window[0] <= kMostOfWindow && call.window[1] == 1 && call.window[2] == 1 &&
         are_all(call.stride, 1) && are_all(call.padding, 0) && are_all(call.dilation, 1) &&
         input.size(2) > 0 && input.size(3) > 0 && is_channels_last(input);
}

// It is a linear layer, of pixels, and there are few of them after a mean over the image: finding that out
// early saves half of the time then.
void convolve_pixels(KernelContext& ctx, const PackedConvolution& call, Tensor& out) {
  const Tensor& input = call.images[0];
  const dim_t outputs = static_cast<dim_t>(call.window[0]), depth = input.size(1);
  dim_t size = 0;
  if (!packed_size(outputs, depth, size)) {
    ctx.fail("a convolution of {} channels cannot have {} outputs", depth, outputs);
    return;
  }
  const dim_t sizes[] = {input.size(0), outputs, input.size(2), input.size(3)};
  if (!prepare(ctx, call, size, format_of(call.weight), sizes, out)) return;
  const Epilogue epilogue = epilogue_of(call.residual, call.activation, call.low, call.high);
  multiply_rows(ctx, input.const_data_ptr<float>(), out.numel() / outputs, depth, call.weight, outputs,
                epilogue, call.blocks, out.mutable_data_ptr<float>());
}
#endif

}  // namespace

bool convolve(KernelContext& ctx, const PackedConvolution& call, Tensor& out) {
  const Tensor &input = call.images[0], &weight = call.weight;
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float ||
      input.dim() != 4) {
    ctx.fail("conv2d_packed takes a float32 image of 4 dimensions");
    return ctx.ok();
  }
  const bool several = call.images.size() > 1;
  if (several && !lie_side_by_side(call.images)) {
    ctx.fail("conv2d_parts_packed takes channels-last float32 images of one size");
    return ctx.ok();
  }
#ifndef __OPTIMIZE_SIZE__
  if (is_of_pixels(call)) {
    convolve_pixels(ctx, call, out);
    return ctx.ok();
  }
#endif
  dim_t inputs = 0;
  for (const Tensor& image : call.images) inputs += image.size(1);
  Convolution c{};
  if (!read_convolution(ctx, input, call.window, call.stride, call.padding, call.dilation, call.groups,
                        inputs, c))
    return ctx.ok();
  const dim_t channels = inputs / c.groups, outputs = c.outputs / c.groups;
  const bool depthwise = c.groups > 1 && channels == 1;
  const bool few =
      !several && c.groups == 1 && channels < kFewChannels && c.window.taps[0] * c.window.taps[1] > 1;
  if (!is_channels_last(input) && !(few && input.is_contiguous())) {
    ctx.fail("conv2d_packed takes channels-last images, or dense ones of fewer than {} channels",
             kFewChannels);
    return ctx.ok();
  }
  dim_t taps = 0, depth = 0, size = 0;
  const bool fits = multiply_sizes(c.window.taps[0], c.window.taps[1], taps) &&
                    multiply_sizes(taps, channels, depth) &&
                    packed_size(depthwise ? c.outputs : outputs, depth, size) &&
                    (depthwise || multiply_sizes(size, c.groups, size));
  if (!fits) {
    ctx.fail("conv2d_packed: a window of {} by {} is too large", c.window.taps[0], c.window.taps[1]);
    return ctx.ok();
  }
  const Format format = depthwise || few ? Format::Float32 : format_of(weight);
  const dim_t sizes[] = {input.size(0), c.outputs, c.out[0], c.out[1]};
  if (!prepare(ctx, call, size, format, sizes, out)) return ctx.ok();
  const Epilogue epilogue = epilogue_of(call.residual, call.activation, call.low, call.high);
  if (depthwise) {
    run_depthwise(ctx, input, weight, c, epilogue, out);
  } else if (few && run_patches(ctx, input, weight, c.window, epilogue, out)) {
    return ctx.ok();
  } else if (few && !goes_by_channels(input, c)) {
    if (!run_tiles(ctx, call, c, epilogue, out)) run_few_channels(ctx, call, c, epilogue, out);
  } else {
    run_groups(ctx, call, c, epilogue, out);
  }
  return ctx.ok();
}

Tensor& conv2d_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                          const Optional<Tensor>& residual, ArrayRef<int64_t> window,
                          ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                          int64_t groups, int64_t activation, double low, double high, Tensor& out) {
  convolve(ctx,
           {{&input, 1}, weight, residual, window, stride, padding, dilation, groups, activation, low, high},
           out);
  return out;
}

// As of their concatenation.
Tensor& conv2d_parts_packed_out(KernelContext& ctx, TensorList inputs, const Tensor& weight,
                                const Optional<Tensor>& residual, ArrayRef<int64_t> window,
                                ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                                ArrayRef<int64_t> dilation, int64_t activation, double low, double high,
                                Tensor& out) {
  if (inputs.empty())
    return ctx.fail(out, Status::InvalidArgument, "conv2d_parts_packed takes at least one image");
  convolve(ctx, {inputs, weight, residual, window, stride, padding, dilation, 1, activation, low, high}, out);
  return out;
}

// What tuning chose where it measured that no transformation is faster.
Tensor& conv2d_direct_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                                 const Optional<Tensor>& residual, ArrayRef<int64_t> window,
                                 ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                                 ArrayRef<int64_t> dilation, int64_t groups, int64_t activation, double low,
                                 double high, Tensor& out) {
  convolve(ctx,
           {{&input, 1},
            weight,
            residual,
            window,
            stride,
            padding,
            dilation,
            groups,
            activation,
            low,
            high,
            false},
           out);
  return out;
}

}  // namespace penlight::optimized
