// Depthwise windows of any size, stride and dilation.
//
// A tile holds a few channels of the lines that some rows of outputs read, of the whole width or
// of a segment of it, with zeros around them. Lines are copied once, when the first row that
// reads them is computed; where there is no more room, those that are still read move to the
// front. Taps that lie outside of the image for all outputs computed at once are left out: a
// window may be much larger than the image.
#include "depthwise.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void depthwise_in_place(const Depthwise& convolution);

namespace {

constexpr int kTogether = 2;     // rows at once, of kColumns each or, of seven taps, more
constexpr int kMostColumns = 8;  // of one row alone
// Elements of a tile in the nearest cache, or the second one; and columns of the result in a
// segment, below which too many of the image are copied twice.
constexpr ptrdiff_t kSizes[] = {7168, 32768}, kFewestColumns[] = {16, kMostColumns};
constexpr ptrdiff_t kMostTaps = 4096;
constexpr int kSeven = 7;  // taps of a line that have code of their own

struct Plan {
  ptrdiff_t columns;  // of the result in a segment; 0: no tile is large enough
  ptrdiff_t width, lines;
};

ptrdiff_t reach_of(ptrdiff_t taps, ptrdiff_t dilation) { return (taps - 1) * dilation + 1; }

// Pixels under `count` neighbouring windows, without those outside of the image that no window
// reads together with others inside, `together` windows at once.
ptrdiff_t span_of(ptrdiff_t count, ptrdiff_t stride, ptrdiff_t reach, ptrdiff_t size, ptrdiff_t together) {
  return min_of((count - 1) * stride + reach, size + 2 * (together - 1) * stride);
}

Plan plan_of(const Depthwise& p) {
  const Geometry& g = p.geometry;
  Plan plan{};
  if (!kUnrolled || g.out_width < kColumns || g.taps_h > kMostTaps / g.taps_w) return plan;
  const ptrdiff_t reach_h = reach_of(g.taps_h, g.dilation_h), reach_w = reach_of(g.taps_w, g.dilation_w);
  const auto lines_of = [&](ptrdiff_t rows) {
    return span_of(rows, g.stride_h, reach_h, g.height, kTogether);
  };
  const auto width_of = [&](ptrdiff_t columns) {
    return span_of(columns, g.stride_w, reach_w, g.width, kMostColumns);
  };
  const ptrdiff_t fewest = lines_of(min_of(g.out_height, kTogether));
  for (int i = 0; i < 2 && plan.columns == 0; ++i) {
    const ptrdiff_t pixels = kSizes[i] / kBlock, width = pixels / fewest;
    if (width_of(g.out_width) <= width) {
      plan.columns = g.out_width;
    } else if (width >= reach_w) {
      const ptrdiff_t most = ((width - reach_w) / g.stride_w + 1) / kColumns * kColumns;
      if (most < kFewestColumns[i]) continue;
      const ptrdiff_t segments = (g.out_width + most - 1) / most;
      plan.columns = round_up((g.out_width + segments - 1) / segments, kColumns);
    } else {
      continue;
    }
    plan.width = width_of(plan.columns);
    plan.lines = min_of(pixels / plan.width, lines_of(g.out_height));
  }
  return plan;
}

// The first tap that reaches 0 from `from`, and the first that reaches `size`.
PENLIGHT_INLINE ptrdiff_t tap_at(ptrdiff_t size, ptrdiff_t from, ptrdiff_t dilation, ptrdiff_t taps) {
  if (from >= size) return 0;
  return from + (taps - 1) * dilation < size ? taps : (size - from + dilation - 1) / dilation;
}

struct Tile {
  Plan plan;
  float* weights;             // bias, then taps
  float* pixels;              // plan.lines of plan.width, kBlock channels each
  ptrdiff_t channel;          // the first of them
  ptrdiff_t column, columns;  // of the result
  ptrdiff_t left, width;      // the first column of the image, which may be negative, and how many
  bool whole;                 // all that its windows span, in width, is there
  const float* image;         // of the input
  ptrdiff_t top, end;         // lines of the image: the first, and that after the last so far
};

// Row `y` of the image, zeros if it is not inside.
void copy_line(const Depthwise& p, const Tile& tile, ptrdiff_t y) {
  const Geometry& g = p.geometry;
  float* to = tile.pixels + (y - tile.top) * tile.plan.width * kBlock;
  const ptrdiff_t right = tile.left + tile.width, pixel = pixel_of(p);
  const ptrdiff_t first = max_of(tile.left, 0), last = min_of(right, g.width);
  if (y < 0 || y >= g.height || last <= first) return clear(to, tile.width);
  clear(to, first - tile.left);
  copy_block(p, tile.image + (y * g.width + first) * pixel, last - first, tile.channel,
             to + (first - tile.left) * kBlock);
  clear(to + (last - tile.left) * kBlock, right - last);
}

// Rows of the result from `row` of all images on, which read the image from line `top` on, by the
// taps [first_h, last_h) of each column. `stride` and `taps` are those of a line, or 0 for any. A
// function of its own: there are registers for all that its loops need, but no more.
template <int rows, int columns, int stride, int taps>
__attribute__((noinline)) void some_rows(const Depthwise& p, const Tile& tile, ptrdiff_t row, ptrdiff_t top,
                                         ptrdiff_t first_h, ptrdiff_t last_h) {
  const Geometry& g = p.geometry;
  const ptrdiff_t out_size = g.out_width * p.channels, line = tile.plan.width * kBlock;
  const ptrdiff_t below = g.stride_h * line, down = g.dilation_h * line;
  const ptrdiff_t step = (stride ? stride : g.stride_w) * kBlock, apart = g.dilation_w * kBlock;
  const Epilogue& epilogue = p.epilogue;
  const float* first = tile.pixels + (top + first_h * g.dilation_h - tile.top) * line;
  for (ptrdiff_t group = 0; group < tile.columns; group += columns) {
    // The last few columns are computed with some before them once more, to the same values.
    const ptrdiff_t column = tile.column + min_of(group, tile.columns - columns);
    const ptrdiff_t left = column * g.stride_w - g.pad_w;
    const ptrdiff_t first_w = taps ? 0 : tap_at(0, left + (columns - 1) * g.stride_w, g.dilation_w, g.taps_w);
    const ptrdiff_t last_w = taps ? taps : tap_at(g.width, left, g.dilation_w, g.taps_w);
    const ptrdiff_t corner = (left + first_w * g.dilation_w - tile.left) * kBlock;
    for (ptrdiff_t c = 0; c < kBlock && tile.channel + c < p.last_channel; c += kLanes) {
      Floats sums[rows][columns];
      const Floats bias = load(tile.weights + c);
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        repeat<columns>([&](auto j) __attribute__((always_inline)) { sums[r][j] = bias; });
      });
      const float* weights = tile.weights + (1 + first_h * g.taps_w + first_w) * kBlock + c;
      const float* from = first + corner + c;
      for (ptrdiff_t th = last_h - first_h; th > 0; --th) {
        const float *at = weights, *x[rows];
        repeat<rows>([&](auto r) __attribute__((always_inline)) { x[r] = from + r * below; });
        for (ptrdiff_t tw = last_w - first_w; taps == 0 && tw > 0; --tw) {
          const Floats weight = load(at);
          repeat<rows>([&](auto r) __attribute__((always_inline)) {
            repeat<columns>(
                [&](auto j) __attribute__((always_inline)) { sums[r][j] += load(x[r] + j * step) * weight; });
            x[r] += apart;
          });
          at += kBlock;
        }
        if constexpr (taps > 0) add_line<rows, columns, stride, taps>(x, weights, sums);
        from += down;
        weights += g.taps_w * kBlock;
      }
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        // How many zeros were added makes no difference, but for the sign of a zero.
        repeat<columns>([&](auto j) __attribute__((always_inline)) { sums[r][j] += splat(0.0f); });
        const ptrdiff_t to = (row + r) * out_size + column * p.channels + tile.channel + c;
        finish<columns>(epilogue, epilogue.residual ? epilogue.residual + to : nullptr, p.output + to,
                        p.channels, p.last_channel - tile.channel - c, sums[r]);
      });
    }
  }
}

// Windows of lines of seven taps: with many registers as many at once that no sum waits for its last product.
using SomeRows = void (*)(const Depthwise&, const Tile&, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t);
SomeRows rows_of_sevens(ptrdiff_t out_width) {
  const auto of = [](auto columns) -> SomeRows {
    constexpr int count = decltype(columns)();
    return some_rows<kTogether, count, 1, kSeven>;
  };
  if constexpr (kLanes == 16) return with_columns<8, 7, kColumns>(out_width, of);
  return of(Index<kColumns>());
}

// Has lines [first, last) of the image in the tile; those before them may go.
void have_lines(const Depthwise& p, Tile& tile, ptrdiff_t first, ptrdiff_t last) {
  if (tile.end < first) tile.top = tile.end = first;
  if (last > tile.top + tile.plan.lines) {
    const ptrdiff_t line = tile.plan.width * kBlock;
    memmove(tile.pixels, tile.pixels + (first - tile.top) * line,
            static_cast<size_t>((tile.end - first) * line) * sizeof(float));
    tile.top = first;
  }
  for (; tile.end < last; ++tile.end) copy_line(p, tile, tile.end);
}

// `count` rows of one image, the first of them `row` of all images.
void segment(const Depthwise& p, Tile& tile, ptrdiff_t row, ptrdiff_t count) {
  const Geometry& g = p.geometry;
  const ptrdiff_t first = row % g.out_height, together = min_of(count, kTogether);
  tile.end = INTPTR_MIN;
  for (ptrdiff_t at = 0; at < count; at += together) {
    at = min_of(at, count - together);
    const ptrdiff_t top = (first + at) * g.stride_h - g.pad_h, below = (together - 1) * g.stride_h;
    const ptrdiff_t first_h = tap_at(0, top + below, g.dilation_h, g.taps_h);
    const ptrdiff_t last_h = tap_at(g.height, top, g.dilation_h, g.taps_h);
    if (first_h < last_h) {
      have_lines(p, tile, max_of(top, -below), top + below + (last_h - 1) * g.dilation_h + 1);
    }
    const bool seven = tile.whole && g.taps_w == kSeven && g.stride_w == 1 && g.dilation_w == 1;
    const auto compute = together < kTogether ? tile.columns < kMostColumns ? some_rows<1, kColumns, 0, 0>
                                                                            : some_rows<1, kMostColumns, 0, 0>
                         : seven              ? rows_of_sevens(tile.columns)
                         : g.stride_w == 1    ? some_rows<kTogether, kColumns, 1, 0>
                                              : some_rows<kTogether, kColumns, 0, 0>;
    compute(p, tile, row + at, top, first_h, last_h);
  }
}

}  // namespace

size_t windows_scratch(const Depthwise& p) {
  const Plan plan = plan_of(p);
  const ptrdiff_t weights = (1 + p.geometry.taps_h * p.geometry.taps_w) * kBlock;
  return plan.columns ? static_cast<size_t>(weights + plan.width * plan.lines * kBlock) * sizeof(float) : 0;
}

void depthwise_windows(const Depthwise& p) {
  if (!kUnrolled) return;  // there is no plan
  const Geometry& g = p.geometry;
  const ptrdiff_t taps = g.taps_h * g.taps_w, pixel = pixel_of(p);
  const ptrdiff_t outside = (kMostColumns - 1) * g.stride_w;
  Tile tile{};
  tile.plan = plan_of(p);
  tile.weights = p.tile;
  tile.pixels = p.tile + (1 + taps) * kBlock;
  for (tile.channel = p.first_channel; tile.channel < p.last_channel; tile.channel += kBlock) {
    if (!copy_weights(p, tile.channel, taps, tile.weights)) {
      Depthwise own = p;
      own.first_channel = tile.channel;
      own.last_channel = min_of(p.last_channel, tile.channel + kBlock);
      depthwise_in_place(own);
      continue;
    }
    for (ptrdiff_t column = 0; column < g.out_width; column += tile.plan.columns) {
      tile.column = min_of(column, g.out_width - kColumns);
      tile.columns = min_of(tile.plan.columns, g.out_width - tile.column);
      tile.left = max_of(tile.column * g.stride_w - g.pad_w, -outside);
      const ptrdiff_t right =
          (tile.column + tile.columns - 1) * g.stride_w - g.pad_w + reach_of(g.taps_w, g.dilation_w);
      tile.width = max_of(min_of(right, g.width + outside) - tile.left, 0);
      tile.whole = tile.left + tile.width == right && tile.left == tile.column * g.stride_w - g.pad_w;
      for (ptrdiff_t row = p.first_row; row < p.last_row;) {
        const ptrdiff_t rows = min_of(g.out_height - row % g.out_height, p.last_row - row);
        tile.image = p.input + row / g.out_height * g.height * g.width * pixel;
        segment(p, tile, row, rows);
        row += rows;
      }
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
