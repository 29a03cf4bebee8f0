// A 1x1 convolution to more channels and the depthwise convolution after it, as inverted
// bottlenecks have them (Sandler et al., "MobileNetV2", 2018).
//
// The image between the two is the largest of such a network. Where it is small all the same, it is made
// whole, or so many channels of it as the second cache holds, by products of many rows at once. Else, of the
// usual windows only the few of its rows exist that a row of them reads, those of the channels in work in the
// nearest cache (vector/expansion.cpp). For others it is made in bands: the rows that a few rows of the
// result need exist, in the second cache; those that the next band needs too are moved to the front. Either
// of these ways each row is a product of its own. So no element depends on where a band or a thread begins.
#include "expansion.h"

#include <string.h>

#include "image.h"
#include "packed.h"
#include "product.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kBand = 65536;  // elements of the rows that exist at once

struct Bands {
  Product row;  // the 1x1 convolution of one row
  Depthwise windows;
  dim_t row_size, band;  // elements of a row between the two; rows of the result in a band
};

// Rows of the expanded image that exist for `band` rows of the result.
dim_t rows_between(const Geometry& g, dim_t band) {
  return (band - 1) * g.stride_h + (g.taps_h - 1) * g.dilation_h + 1;
}

// Rows [first, last) of all images' results; `rows` has room for those between.
void run_part(const Bands& e, dim_t first, dim_t last, float* rows) {
  const Geometry& g = e.windows.geometry;
  Product row = e.row;
  Depthwise windows = e.windows;
  dim_t begin = 0, end = 0;  // the rows of all images that exist
  for (windows.first_row = first; windows.first_row < last; windows.first_row = windows.last_row) {
    const dim_t image = windows.first_row / g.out_height, top = windows.first_row % g.out_height;
    const dim_t bottom = top + e.band < g.out_height ? top + e.band : g.out_height;
    windows.last_row = image * g.out_height + bottom < last ? image * g.out_height + bottom : last;
    const dim_t before = image * g.height, from = top * g.stride_h - g.pad_h;
    const dim_t to = (windows.last_row - image * g.out_height - 1) * g.stride_h - g.pad_h +
                     (g.taps_h - 1) * g.dilation_h + 1;
    const dim_t lowest = before + (from < 0 ? 0 : from > g.height ? g.height : from);
    const dim_t highest = before + (to < 0 ? 0 : to > g.height ? g.height : to);
    if (end > lowest && begin <= lowest) {
      memmove(rows, rows + (lowest - begin) * e.row_size,
              static_cast<size_t>((end - lowest) * e.row_size) * sizeof(float));
    } else {
      end = lowest;
    }
    begin = lowest;
    for (; end < highest; ++end) {
      row.input = e.row.input + end * g.width * row.pixel;
      row.output = rows + (end - begin) * e.row_size;
      routines().product(row);
    }
    // Where the first row of the first image would be; only rows that exist are read.
    windows.input = rows - begin * e.row_size;
    routines().depthwise(windows);
  }
}

// What bands need beside `e`; false where a row is too large.
bool plan_bands(const Expansion& e, Bands& bands, dim_t& buffer) {
  const Geometry& g = e.windows.geometry;
  const dim_t outputs = e.windows.channels;
  bands.row = over_matrix(g.width, e.steps, e.steps, outputs, outputs);
  bands.row.input = e.input;
  bands.row.packed = e.packed;
  bands.row.epilogue = e.epilogue;
  bands.windows = e.windows;
  bands.band = 1;
  if (!multiply_sizes(g.width, outputs, bands.row_size) ||
      !multiply_sizes(rows_between(g, 1), bands.row_size, buffer)) {
    return false;
  }
  const dim_t most = bands.row_size > 0 ? kBand / bands.row_size : 0;
  while (bands.band < g.out_height && rows_between(g, bands.band + 1) <= most) ++bands.band;
  buffer = round_to_panel(rows_between(g, bands.band) * bands.row_size);  // pointers lie behind it
  return buffer <= INTPTR_MAX / static_cast<dim_t>(2 * sizeof(float));
}

void run_by_bands(KernelContext& ctx, const Expansion& e) {
  Bands bands{};
  dim_t buffer = 0;
  if (!plan_bands(e, bands, buffer)) {
    ctx.fail("expand_depthwise_packed: rows of {} by {} are too large", e.windows.geometry.width,
             e.windows.channels);
    return;
  }
  const dim_t parts = parts_of_expansion(ctx, e, e.windows.last_row);
  const size_t between = static_cast<size_t>(buffer) * sizeof(float),
               tile = routines().depthwise_scratch(bands.windows);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, between + tile + routines().product_scratch(bands.row), memory)) return;
  const auto part = [&](size_t index) {
    const Range range = range_of(index, parts, e.windows.last_row);
    float* const own = static_cast<float*>(memory.of(index));
    Bands mine = bands;
    mine.windows.tile = tile ? own + buffer : nullptr;
    mine.row.scratch = own + buffer + tile / sizeof(float);
    run_part(mine, range.first, range.last, own);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

#ifndef __OPTIMIZE_SIZE__  // small builds do without

// Elements of the image between the two that exist at once where sums are short.
constexpr dim_t kFewBetween = 32768;

// Sums from this length on are worth products of many rows at once, for all channels.
constexpr dim_t kLongSum = 48;

// Is it better to have the whole image between the two, if not of all channels at once? Where the second
// cache has room for it and for the result, and sums are so long that products of many rows at once gain more
// than it costs to go there: measured on Intel's processors with AVX-512, and on Zen 5. There it is also
// where they are short, before 5x5 windows with a stride of one, of few channels at once; threads need many
// to share.
bool is_by_image(const Expansion& e) {
  constexpr dim_t kTaps = 5, kManyChannels = 7 * kPanel;
  const Geometry& g = e.windows.geometry;
  dim_t pixels = 0, panel = 0, image = 0, result = 0;
  if (!e.wide_tiles || !multiply_sizes(g.height, g.width, pixels) || pixels == 0 ||
      !multiply_sizes(pixels, kPanel, panel) || !multiply_sizes(pixels, e.windows.channels, image) ||
      !multiply_sizes(g.out_height * g.out_width, e.windows.channels, result)) {
    return false;
  }
  if (e.steps >= kLongSum) return image <= kSecondCache && result <= kSecondCache - image;
  const bool is_usual = g.taps_h == kTaps && g.taps_w == kTaps && g.stride_h == 1 && g.stride_w == 1 &&
                        g.dilation_h == 1 && g.dilation_w == 1;
  return cores() == Cores::Zen5 && is_usual && e.windows.channels >= kManyChannels && panel <= kFewBetween;
}

// A part has some panels of one image after the other, as many as exist at once, in memory of its own: what
// another processor wrote is slow to write again.
void run_by_images(KernelContext& ctx, const Expansion& e) {
  const Geometry& g = e.windows.geometry;
  const dim_t pixels = g.height * g.width, result = g.out_height * g.out_width;
  const dim_t channels = e.windows.channels, images = e.windows.last_row / g.out_height;
  Product product = over_matrix(pixels, e.steps, e.steps, channels, channels);
  product.packed = e.packed;
  product.epilogue = e.epilogue;
  Depthwise windows = e.windows;
  windows.last_row = g.out_height;
  const PanelProduct by = by_panels(product);
  const dim_t panels = product.last_panel;
  const PanelParts cut = panel_parts_of(ctx, panels, by.step, by.tile, operations_of(e));
  const dim_t steps = (panels + cut.step - 1) / cut.step;
  const dim_t parts = one_a_thread(ctx, cut.parts);
  // As many steps at once as there is room for, in turns of the same length.
  const dim_t each = (steps + parts - 1) / parts, between = e.steps >= kLongSum ? kSecondCache : kFewBetween;
  const dim_t room = between / (pixels * kPanel * cut.step);
  const dim_t turns = room > 0 ? (each + room - 1) / room : each;
  const dim_t together = (each + turns - 1) / turns * cut.step;  // panels
  const dim_t most = together * kPanel;
  windows.pixel = most;
  const size_t tile = routines().depthwise_scratch(windows), scratch = by.scratch > tile ? by.scratch : tile;
  PartMemory memory;
  const size_t image = static_cast<size_t>(pixels * most) * sizeof(float);
  if (!allocate_parts(ctx, parts, image + scratch, memory)) return;
  const auto part = [&](size_t index) {
    const Range range = range_of(index, parts, panels, cut.step);
    float* const own = static_cast<float*>(memory.of(index));
    Product mine = product;
    mine.output_pitch = most;
    mine.scratch = own + pixels * most;
    Depthwise over = windows;
    over.tile = tile ? own + pixels * most : nullptr;
    for (dim_t i = 0; i < images; ++i) {
      mine.input = e.input + i * pixels * e.steps;
      over.output = windows.output + i * result * channels;
      for (dim_t panel = range.first; panel < range.last; panel = mine.last_panel) {
        mine.first_panel = panel;
        mine.last_panel = panel + together < range.last ? panel + together : range.last;
        over.first_channel = panel * kPanel;
        over.last_channel = mine.last_panel < panels ? mine.last_panel * kPanel : channels;
        over.input = mine.output = own - over.first_channel;
        mine.asked = asks_for_output() && parts > 1 && result == pixels ? over.output : nullptr;
        mine.asked_pitch = channels;
        by.multiply(mine);
        routines().depthwise(over);
      }
    }
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

#else

bool is_by_image(const Expansion&) { return false; }
void run_by_images(KernelContext&, const Expansion&) {}

#endif

}  // namespace

Tensor& expand_depthwise_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& expansion,
                                    const Tensor& weight, ArrayRef<int64_t> window, ArrayRef<int64_t> stride,
                                    ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                                    int64_t expansion_activation, double expansion_low, double expansion_high,
                                    int64_t activation, double low, double high, Tensor& out) {
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float ||
      input.dim() != 4 || !is_channels_last(input))
    return ctx.fail(out, Status::InvalidArgument,
                    "expand_depthwise_packed takes channels-last float32 images");
  Convolution c{};
  const int64_t channels = window.size() == 3 ? window[0] : 0;
  if (channels <= 0 || channels > INT32_MAX)
    return ctx.fail(out, Status::InvalidArgument, "expand_depthwise_packed cannot have {} channels",
                    channels);
  if (!read_convolution(ctx, input, window, stride, padding, dilation, channels, static_cast<dim_t>(channels),
                        c)) {
    return out;
  }
  const dim_t depth = input.size(1);
  dim_t taps = 0, packed = 0, expanded = 0;
  const bool fits = multiply_sizes(c.window.taps[0], c.window.taps[1], taps) &&
                    packed_size(c.outputs, depth, expanded) && packed_size(c.outputs, taps, packed);
  if (!fits)
    return ctx.fail(out, Status::InvalidArgument,
                    "expand_depthwise_packed: a window of {} by {} is too large", c.window.taps[0],
                    c.window.taps[1]);
  if (!check_packed(ctx, expansion, expanded) || !check_packed(ctx, weight, packed) ||
      !check_activation(ctx, expansion_activation) || !check_activation(ctx, activation)) {
    return out;
  }
  const dim_t sizes[] = {input.size(0), c.outputs, c.out[0], c.out[1]};
  if (!ctx.resize(out, SizesRef(sizes, 4))) return out;
  if (!is_channels_last(out))
    return ctx.fail(out, Status::InvalidArgument, "the result of expand_depthwise_packed is channels-last");
  if (out.numel() == 0) return out;

  Expansion e{};
  e.wide_tiles = prefers_wide_tiles();
  e.tall_tiles = prefers_tall_tiles();
  e.windows.fetches_results = fetches_results();
  e.input = input.const_data_ptr<float>();
  e.packed = expansion.const_data_ptr<float>();
  e.steps = depth;
  e.epilogue = epilogue_of({}, expansion_activation, expansion_low, expansion_high);
  e.windows.packed = weight.const_data_ptr<float>();
  e.windows.output = out.mutable_data_ptr<float>();
  e.windows.channels = e.windows.last_channel = c.outputs;
  e.windows.epilogue = epilogue_of({}, activation, low, high);
  e.windows.geometry = geometry_of(input, c.window, c.out[0], c.out[1]);
  e.windows.last_row = input.size(0) * c.out[0];
  if (is_by_image(e)) {
    run_by_images(ctx, e);
  } else if (const size_t scratch = panels_scratch(e)) {
    run_by_panels(ctx, e, scratch);
  } else {
    run_by_bands(ctx, e);
  }
  return out;
}

}  // namespace penlight::optimized
