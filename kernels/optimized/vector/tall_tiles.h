// Tiles of one vector of columns and many rows, for cores that prefers_tall_tiles() names: a product that
// reads its element of the input by itself is one operation where that lies a constant distance from the
// tile's first, and two where a register says how far. On machines that others share too, cores have fewer
// operations left for a thread than for one that runs alone.
#pragma once

#include "dots.h"
#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Do such cores run this code? Not what is compiled for narrower vectors.
constexpr bool kHasTallTiles = kHasWideTiles;
constexpr int kTallSteps = 4;  // at once

// The height of tiles that `count` rows take the least time by: each costs as much as a row more.
template <int kinds>
inline int best_height(ptrdiff_t count, const int (&heights)[kinds]) {
  const auto cost = [&](int rows) { return (count + rows - 1) / rows * (rows + 1); };
  int best = heights[0];
  for (const int rows : heights) {
    if (cost(rows) < cost(best)) best = rows;
  }
  return best;
}

// Rows whose elements of a step lie side by side, step after step: what a tile reads.
constexpr int kTallHeights[] = {16, 14, 12, 10, 8};
constexpr int kTallKinds = sizeof kTallHeights / sizeof *kTallHeights;
constexpr ptrdiff_t kFewestTallRows = kTallHeights[kTallKinds - 1];

// Adds products to `rows` sums. Step k of row i reads input[k * pitch + i], or where there are offsets,
// input[offsets[k] + i * next].
template <int rows, int next = 0, int pitch = rows>
PENLIGHT_INLINE void add_tall(const float* input, const ptrdiff_t* offsets, const float* weights,
                              ptrdiff_t steps, Floats (&sums)[rows][1]) {
  const auto step = [&](const float* x, const float* from) __attribute__((always_inline)) {
    const Floats columns = load(from);
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      sums[i][0] += splat(x[i * (next ? next : 1)]) * columns;
    });
  };
  const auto some = [&](ptrdiff_t k, auto at) __attribute__((always_inline)) {
    if constexpr (next) {
      const float* x = input + offsets[k + at];
      keep_in_register(x);  // else its two parts are added up by each load
      step(x, weights + at * kPanel);
    } else {
      step(input + at * pitch, weights + at * kPanel);
    }
  };
  ptrdiff_t k = 0;
  const auto advance = [&](int by) __attribute__((always_inline)) {
    k += by;
    weights += by * kPanel;
    if constexpr (!next) input += by * pitch;
  };
  while (k + kTallSteps <= steps) {
    repeat<kTallSteps>([&](auto at) __attribute__((always_inline)) { some(k, at); });
    advance(kTallSteps);
  }
  while (k < steps) {
    some(k, Index<0>());
    advance(1);
  }
}

// The first row of a tile: the last one has rows of the one before once more.
inline ptrdiff_t tall_begin(ptrdiff_t tile, int height, ptrdiff_t count) {
  return max_of(min_of(tile * height, count - height), 0);
}

// Elements of so many rows laid out, and of what is written behind them.
inline ptrdiff_t tall_size(ptrdiff_t count, int height, ptrdiff_t depth) {
  return round_up(count, height) * depth;
}
constexpr ptrdiff_t kTallRest = kLanes;

// Rows of a matrix, `pitch` elements apart, laid out for tiles of a height.
inline void lay_out_tall(const float* matrix, ptrdiff_t pitch, ptrdiff_t count, int height, ptrdiff_t depth,
                         float* to) {
  const ptrdiff_t tiles = (count + height - 1) / height;
  for (ptrdiff_t tile = 0; tile < tiles; ++tile, to += height * depth) {
    const ptrdiff_t first = tall_begin(tile, height, count);
    lay_out(matrix + first * pitch, pitch, count - first, depth, to, height);
  }
}

template <int height>
void multiply_tall(const float* panel, const float* rows, ptrdiff_t count, ptrdiff_t depth,
                   const Finish& finish) {
  const Floats bias = load(panel);
  const ptrdiff_t tiles = (count + height - 1) / height, stored = min_of(count, height);
  for (ptrdiff_t tile = 0; tile < tiles; ++tile, rows += height * depth) {
    Floats sums[height][1];
    repeat<height>([&](auto i) __attribute__((always_inline)) { sums[i][0] = bias; });
    add_tall<height>(rows, nullptr, panel + kPanel, depth, sums);
    finish_tile(finish, tall_begin(tile, height, count), stored, sums);
  }
}

// Rows that were laid out, times a panel.
template <int kind = 0>
inline void multiply_tall(const float* panel, const float* rows, ptrdiff_t count, int height, ptrdiff_t depth,
                          const Finish& finish) {
  if constexpr (kHasTallTiles) {
    if constexpr (kind + 1 < kTallKinds) {
      if (height != kTallHeights[kind]) {
        return multiply_tall<kind + 1>(panel, rows, count, height, depth, finish);
      }
    }
    multiply_tall<kTallHeights[kind]>(panel, rows, count, depth, finish);
  }
}

// The height of tiles for lines of an image of few channels, of which what neighbours read is `next` apart; 0
// where there is no code for that, or a line is shorter.
constexpr int kLineHeights[] = {28, 16}, kFewestInLine = kLineHeights[1];
inline int line_height(ptrdiff_t next, ptrdiff_t width) {
  const bool has_code = kHasTallTiles && (next == 1 || next == 2 || next == 3 || next == 6);
  if (!has_code || width < kFewestInLine) return 0;
  return width < kLineHeights[0] ? kFewestInLine : best_height(width, kLineHeights);
}

// A line of `width` outputs times a panel. The last tile has some of the outputs before it once more if it
// may, else reads what lies behind the line.
template <int height, int next>
void multiply_line_tall(const float* panel, const float* line, const ptrdiff_t* offsets, ptrdiff_t steps,
                        ptrdiff_t width, bool again, const Finish& finish) {
  for (ptrdiff_t tile = 0; tile < width; tile += height) {
    const ptrdiff_t column = again ? min_of(tile, width - height) : tile;
    Floats sums[height][1];
    const Floats bias = load(panel);
    repeat<height>([&](auto i) __attribute__((always_inline)) { sums[i][0] = bias; });
    add_tall<height, next>(line + column * next, offsets, panel + kPanel, steps, sums);
    finish_tile(finish, column, min_of(height, width - column), sums);
  }
}
template <int height>
void multiply_line_tall(const float* panel, const float* line, const ptrdiff_t* offsets, ptrdiff_t next,
                        ptrdiff_t steps, ptrdiff_t width, bool again, const Finish& finish) {
  const auto multiply = [&](auto apart) {
    multiply_line_tall<height, apart>(panel, line, offsets, steps, width, again, finish);
  };
  if (next == 1) return multiply(Index<1>());
  if (next == 2) return multiply(Index<2>());
  if (next == 3) return multiply(Index<3>());
  multiply(Index<6>());
}
inline void multiply_line_tall(const float* panel, const float* line, const ptrdiff_t* offsets,
                               ptrdiff_t next, ptrdiff_t steps, ptrdiff_t width, int height, bool again,
                               const Finish& finish) {
  if constexpr (kHasTallTiles) {
    if (height == kLineHeights[0]) {
      return multiply_line_tall<kLineHeights[0]>(panel, line, offsets, next, steps, width, again, finish);
    }
    multiply_line_tall<kLineHeights[1]>(panel, line, offsets, next, steps, width, again, finish);
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
