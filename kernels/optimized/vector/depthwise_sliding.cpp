// The usual depthwise windows over images: 3x3 and 5x5, with strides of one and two.
//
// They are computed over the image where it is: two rows of the result at a time, vector of channels after
// vector, in blocks or sliding. Where a channel has several windows, its pixels are copied into a tile first,
// once for each of them.
#include "depthwise_blocks.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void depthwise_in_place(const Depthwise& convolution);
size_t windows_scratch(const Depthwise& convolution);
void depthwise_windows(const Depthwise& convolution);

namespace {

constexpr int kTogether = 2;          // rows
constexpr ptrdiff_t kFewestRows = 3;  // that are worth a tile
constexpr ptrdiff_t kMostRound = kRound<5, 2>;
constexpr ptrdiff_t kTile = 6144;        // elements: half of the nearest cache
constexpr ptrdiff_t kNear = 4 * kLanes;  // channels whose lines stay in it until the next rows read them

// Some channels of an image, or of what a tile holds of it.
struct Channels {
  ptrdiff_t first, last;  // channels of the result
  const float* pixels;    // of channel `first`, line 0
  ptrdiff_t pixel;        // elements from column to column
  const float* zeros;     // a round of pixels
  bool is_far;            // more than the second cache has room for
};

// Is an activation applied when some rows are done? It would be in the way of sums.
bool is_late(const Epilogue& epilogue) {
  return !is_bounded(epilogue) && epilogue.activation != Activation::HardSwish;
}

// What computes a vector of channels of `rows` rows.
template <int taps, int stride, int rows, bool whole>
auto slide_or_blocks(const Geometry& g) {
  auto compute = slide<taps, stride, rows, whole>;
  if constexpr (kHasBlocks) {
    const int columns = block_columns(g);
    if (columns == 7) compute = blocks<taps, stride, rows, 7, whole>;
    if constexpr (kManyRegisters) {
      if (columns == 8) compute = blocks<taps, stride, rows, 8, whole>;
    }
  }
  return compute;
}

// `rows` rows from `row` of all images on.
template <int taps, int stride, int rows, bool whole>
void some_rows(const Depthwise& p, const Channels& part, ptrdiff_t row) {
  constexpr int lines = kLinesUnder<taps, stride, rows>;
  const Geometry& g = p.geometry;
  const Epilogue& epilogue = p.epilogue;
  const ptrdiff_t top = row % g.out_height * stride - g.pad_h, line = g.width * part.pixel;
  Slide<lines> s;
  ptrdiff_t next[lines];
  for (int i = 0; i < lines; ++i) {
    const ptrdiff_t y = top + i;
    const bool inside = y >= 0 && y < g.height;
    s.line[i] = inside ? part.pixels + y * line - g.pad_w * part.pixel : part.zeros;
    s.step[i] = inside ? kRound<taps, stride> * part.pixel : 0;
    next[i] = inside ? kLanes : 0;
  }
  s.pixel = part.pixel;
  s.width = g.width;
  s.pad = g.pad_w;
  s.out_width = g.out_width;
  s.rounds = plain_rounds<taps, stride>(g);
  s.weights = p.packed + part.first;
  s.tap = round_up(p.channels, kPanel);
  s.out_pixel = p.channels;
  s.out_row = g.out_width * p.channels;
  const ptrdiff_t to = row * s.out_row + part.first;
  s.output = p.output + to;
  s.residual = epilogue.residual ? epilogue.residual + to : nullptr;
  const bool is_relu = epilogue.activation == Activation::Relu;
  s.activation = is_relu ? Activation::Clamp : is_late(epilogue) ? Activation::None : epilogue.activation;
  s.low = is_relu ? 0.0f : epilogue.low;
  s.high = is_relu ? __builtin_inff() : epilogue.high;
  s.ahead = part.is_far ? part.pixels - part.first + (top + lines) * line : nullptr;
  s.out_ahead = p.fetches_results ? p.output + (row + rows) * s.out_row : nullptr;
  const auto compute = slide_or_blocks<taps, stride, rows, whole>(g);
  for (ptrdiff_t c = part.first; c < part.last; c += kLanes) {
    compute(s, part.last - c);
    for (int i = 0; i < lines; ++i) s.line[i] += next[i];
    s.weights += kLanes;
    s.output += kLanes;
    if (s.residual) s.residual += kLanes;
    if (s.ahead) s.ahead += rows * stride * g.width * kLanes;
    if (s.out_ahead) s.out_ahead += rows * g.out_width * kLanes;
  }
}

// The activation of some rows, which have been written.
__attribute__((noinline)) void activate_rows(const Depthwise& p, const Channels& part, ptrdiff_t row,
                                             ptrdiff_t rows) {
  const Bounds bounds = {splat(p.epilogue.low), splat(p.epilogue.high)};
  const ptrdiff_t pixels = rows * p.geometry.out_width;
  float* const output = p.output + row * p.geometry.out_width * p.channels;
  with_activation(p.epilogue.activation, [&](auto which) __attribute__((always_inline)) {
    constexpr Activation chosen = static_cast<Activation>(static_cast<int>(decltype(which)()));
    const auto of = [&](auto x) __attribute__((always_inline)) { return activated<chosen>(x, bounds); };
    for (ptrdiff_t i = 0; i < pixels; ++i) {
      float* const at = output + i * p.channels + part.first;
      apply_to_run(at, at, part.last - part.first, of);
    }
  });
}

// Rows [first, last) of one image, numbered over all images.
template <int taps, int stride>
void all_rows(const Depthwise& p, const Channels& part, ptrdiff_t first, ptrdiff_t last) {
  Channels whole = part, rest = part;
  whole.last = rest.first = part.first + (part.last - part.first) / kLanes * kLanes;
  rest.pixels += rest.first - part.first;
  for (ptrdiff_t row = first, rows; row < last; row += rows) {
    rows = min_of(last - row, kTogether);
    const bool pair = rows == kTogether;
    if (!pair) {
      some_rows<taps, stride, 1, false>(p, part, row);
    } else {
      if (whole.first < whole.last) some_rows<taps, stride, kTogether, true>(p, whole, row);
      if (rest.first < rest.last) some_rows<taps, stride, kTogether, false>(p, rest, row);
    }
    if (is_late(p.epilogue)) activate_rows(p, part, row, rows);
  }
}

// Calls body(image, first, last) with the rows of each image.
template <class Body>
PENLIGHT_INLINE void each_image(const Depthwise& p, Body&& body) {
  const ptrdiff_t height = p.geometry.out_height;
  for (ptrdiff_t first = p.first_row, last; first < p.last_row; first = last) {
    last = min_of(first - first % height + height, p.last_row);
    body(first / height, first, last);
  }
}

// Images where they are.
template <int taps, int stride>
void in_place(const Depthwise& p) {
  const Geometry& g = p.geometry;
  const ptrdiff_t pixel = pixel_of(p), size = g.height * g.width * pixel;
  Channels part{};
  part.pixel = pixel;
  part.zeros = p.tile;
  part.is_far = size + g.out_height * g.out_width * p.channels > kSecondCache;
  for (int i = 0; i < kRound<taps, stride>; ++i) store(p.tile + i * pixel, splat(0.0f));
  each_image(p, [&](ptrdiff_t image, ptrdiff_t first, ptrdiff_t last) {
    for (part.first = p.first_channel; part.first < p.last_channel; part.first = part.last) {
      part.last = part.is_far ? p.last_channel : min_of(part.first + kNear, p.last_channel);
      part.pixels = p.input + image * size + part.first;
      all_rows<taps, stride>(p, part, first, last);
    }
  });
}

// Rows of the result for whose input a tile has room; 0 where those are too few.
ptrdiff_t rows_in_tile(const Depthwise& p) {
  const Geometry& g = p.geometry;
  if (g.width > kTile / kBlock / g.taps_h) return 0;
  const ptrdiff_t most = (kTile / kBlock / max_of(g.width, 1) - g.taps_h) / g.stride_h + 1;
  return most >= g.out_height ? g.out_height : most >= kFewestRows ? most : 0;
}

// Images of which each channel has several windows, a tile for a panel of windows and some rows.
template <int taps, int stride>
void by_tiles(const Depthwise& p, ptrdiff_t most) {
  const Geometry& g = p.geometry;
  float *const zeros = p.tile, *const tile = zeros + kRound<taps, stride> * kBlock;
  const ptrdiff_t pixel = pixel_of(p), line = g.width * kBlock;
  Channels part{};
  part.pixel = kBlock;
  part.zeros = zeros;
  clear(zeros, kRound<taps, stride>);
  for (part.first = p.first_channel; part.first < p.last_channel; part.first = part.last) {
    part.last = min_of(part.first + kBlock, p.last_channel);
    each_image(p, [&](ptrdiff_t image, ptrdiff_t first, ptrdiff_t last) {
      for (ptrdiff_t row = first, end; row < last; row = end) {
        end = min_of(row + most, last);
        const ptrdiff_t top = row % g.out_height * stride - g.pad_h, begin = max_of(top, 0);
        const ptrdiff_t lines = min_of(top + (end - 1 - row) * stride + taps, g.height) - begin;
        const float* const from = p.input + (image * g.height + begin) * g.width * pixel;
        if (lines > 0) copy_block(p, from, lines * g.width, part.first, tile);
        part.pixels = tile - begin * line;
        all_rows<taps, stride>(p, part, row, end);
      }
    });
  }
}

template <int taps, int stride>
void by_sliding(const Depthwise& p) {
  p.multiplier == 1 ? in_place<taps, stride>(p) : by_tiles<taps, stride>(p, rows_in_tile(p));
}

// Is there code for these windows here? Not in small builds.
bool slides(const Depthwise& p) {
  return kUnrolled && is_usual(p.geometry) && (p.multiplier == 1 || rows_in_tile(p) > 0);
}

}  // namespace

size_t depthwise_scratch(const Depthwise& p) {
  if (!kUnrolled) return 0;
  if (!slides(p)) return windows_scratch(p);
  if (p.multiplier > 1) return static_cast<size_t>(kMostRound * kBlock + kTile) * sizeof(float);
  return static_cast<size_t>(round_up((kMostRound - 1) * pixel_of(p) + kLanes, kPanel)) * sizeof(float);
}

void depthwise(const Depthwise& p) {
  if constexpr (kUnrolled) {
    if (p.tile && !slides(p)) return depthwise_windows(p);
    if (p.tile && are_finite(p)) {
      const bool is_3 = p.geometry.taps_w == 3, is_1 = p.geometry.stride_w == 1;
      if (is_3) return is_1 ? by_sliding<3, 1>(p) : by_sliding<3, 2>(p);
      return is_1 ? by_sliding<5, 1>(p) : by_sliding<5, 2>(p);
    }
  }
  depthwise_in_place(p);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
