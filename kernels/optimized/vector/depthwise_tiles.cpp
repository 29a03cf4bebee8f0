// Depthwise windows over small images: a few channels of some rows are copied into a tile with
// zeros around them, so that no window has an edge, and what lies far apart in the image lies
// side by side in the nearest cache.
#include "depthwise.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void depthwise_in_place(const Depthwise& convolution);
size_t windows_scratch(const Depthwise& convolution);
void depthwise_windows(const Depthwise& convolution);

namespace {

constexpr ptrdiff_t kMostWeights = (1 + 25) * kBlock;
constexpr ptrdiff_t kTile = 6144;  // elements: most of the nearest cache
constexpr ptrdiff_t kFewestRows = 3;

struct Tile {
  float* weights;  // bias, then taps
  float* pixels;
  ptrdiff_t width;               // pixels of a row
  ptrdiff_t top = 0, lines = 0;  // lines of an image that are in it
};

ptrdiff_t width_of(const Depthwise& p, ptrdiff_t taps) {
  return (round_up(p.geometry.out_width, kColumns) - 1) * p.geometry.stride_w + taps;
}

// Rows of the result for which a tile has room; 0 where another way is better.
ptrdiff_t rows_in_tile(const Depthwise& p) {
  const Geometry& g = p.geometry;
  const ptrdiff_t taps = g.taps_w, stride = g.stride_w;
  if (!kUnrolled || p.in_cache || !is_usual(g) || g.out_width < kColumns) return 0;
  const ptrdiff_t lines = kTile / kBlock / width_of(p, taps), most = (lines - taps) / stride + 1;
  if (lines < taps) return 0;
  return most >= g.out_height ? g.out_height : most >= kFewestRows ? most : 0;
}

bool is_in_place(const Depthwise& p) { return p.multiplier == 1 && is_usual(p.geometry); }

// The input of the rows from `row` of an image on. What is not of the image is zero already, beside it
// always, and above and below it where the same lines, or more, were in the tile before.
void copy_pixels(const Depthwise& p, ptrdiff_t image, ptrdiff_t row, ptrdiff_t lines, ptrdiff_t channel,
                 Tile& tile) {
  const Geometry& g = p.geometry;
  const ptrdiff_t top = row * g.stride_h - g.pad_h, pixel = pixel_of(p);
  const ptrdiff_t inside = min_of(g.width, tile.width - g.pad_w);
  const bool is_clear = top == tile.top && lines <= tile.lines;
  tile.top = top;
  tile.lines = lines;
  for (ptrdiff_t i = 0; i < lines; ++i) {
    float* to = tile.pixels + i * tile.width * kBlock;
    const ptrdiff_t y = top + i;
    if (y < 0 || y >= g.height) {
      if (!is_clear) clear(to, tile.width);
      continue;
    }
    const float* from = p.input + (image * g.height + y) * g.width * pixel;
    copy_block(p, from, inside, channel, to + g.pad_w * kBlock);
  }
}

// `rows` rows of the result, the first of them `row` of all images, which is `at` in the tile.
template <int taps, int stride, int rows>
void some_rows(const Depthwise& p, const Tile& tile, ptrdiff_t row, ptrdiff_t at, ptrdiff_t channel) {
  const ptrdiff_t width = p.geometry.out_width, out_size = width * p.channels;
  const ptrdiff_t line = tile.width * kBlock, last = min_of(p.last_channel, channel + kBlock);
  const Epilogue& epilogue = p.epilogue;
  for (ptrdiff_t group = 0; group < width; group += kColumns) {
    // The last few columns are computed with some before them once more, to the same values.
    const ptrdiff_t column = min_of(group, width - kColumns);
    const ptrdiff_t place = row * out_size + column * p.channels;
    for (ptrdiff_t c = 0; channel + c < last; c += kLanes) {
      const float* corner = tile.pixels + at * stride * line + column * stride * kBlock + c;
      Floats sums[rows][kColumns];
      const Floats bias = load(tile.weights + c);
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        repeat<kColumns>([&](auto j) __attribute__((always_inline)) { sums[r][j] = bias; });
      });
      add_windows<taps, stride, rows>(corner, kBlock, line, tile.weights + kBlock + c, kBlock, sums);
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        const ptrdiff_t to = place + r * out_size + channel + c;
        finish<kColumns>(epilogue, epilogue.residual ? epilogue.residual + to : nullptr, p.output + to,
                         p.channels, last - channel - c, sums[r]);
      });
    }
  }
}

template <int taps, int stride>
void by_tiles(const Depthwise& p, ptrdiff_t most) {
  const Geometry& g = p.geometry;
  Tile tile = {p.tile, p.tile + kMostWeights, width_of(p, taps)};
  constexpr int together = rows_at_once<taps>();
  clear(tile.pixels, tile.width * ((most - 1) * stride + taps));
  for (ptrdiff_t channel = p.first_channel; channel < p.last_channel; channel += kBlock) {
    if (!copy_weights(p, channel, taps * taps, tile.weights)) {
      Depthwise own = p;
      own.first_channel = channel;
      own.last_channel = min_of(p.last_channel, channel + kBlock);
      depthwise_in_place(own);
      continue;
    }
    for (ptrdiff_t row = p.first_row; row < p.last_row;) {
      const ptrdiff_t image = row / g.out_height, first = row % g.out_height;
      const ptrdiff_t rows = min_of(min_of(most, g.out_height - first), p.last_row - row);
      copy_pixels(p, image, first, (rows - 1) * stride + taps, channel, tile);
      ptrdiff_t at = 0;
      for (; at + together <= rows; at += together) {
        some_rows<taps, stride, together>(p, tile, row + at, at, channel);
      }
      for (; at < rows; ++at) some_rows<taps, stride, 1>(p, tile, row + at, at, channel);
      row += rows;
    }
  }
}

}  // namespace

size_t depthwise_scratch(const Depthwise& p) {
  if (rows_in_tile(p)) return static_cast<size_t>(kMostWeights + kTile) * sizeof(float);
  return !kUnrolled || is_in_place(p) ? 0 : windows_scratch(p);
}

void depthwise(const Depthwise& p) {
  if constexpr (kUnrolled) {
    const ptrdiff_t rows = p.tile ? rows_in_tile(p) : 0;
    const bool is_3 = p.geometry.taps_w == 3, is_1 = p.geometry.stride_w == 1;
    if (rows && is_3) return is_1 ? by_tiles<3, 1>(p, rows) : by_tiles<3, 2>(p, rows);
    if (rows) return is_1 ? by_tiles<5, 1>(p, rows) : by_tiles<5, 2>(p, rows);
    if (p.tile && !is_in_place(p) && windows_scratch(p)) return depthwise_windows(p);
  }
  depthwise_in_place(p);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
