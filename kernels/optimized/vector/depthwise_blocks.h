// Depthwise windows in blocks: neighbouring outputs of a few rows at once, in registers.
//
// With registers for so many sums none has to wait for its last product, as those of windows that slide do,
// and nothing is asked along a line but at its ends. Lines and columns beside the image are left out.
#pragma once

#include "depthwise_sliding.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr bool kHasBlocks = kUnrolled && kLanes >= 8;
constexpr bool kManyRegisters = kLanes == 16;  // 32 of them

// Columns of a block: 7, or 8 where those compute fewer twice and there are registers for them; 0: blocks
// compute more than they gain, or some window does not reach the image. With 16 registers they gain where
// windows are large, or rows a block.
PENLIGHT_INLINE int block_columns(const Geometry& g) {
  constexpr int kFew = 7, kMany = 8;
  const ptrdiff_t few = round_up(g.out_width, kFew), many = round_up(g.out_width, kMany);
  const bool is_many = kManyRegisters && many < few, is_small = g.taps_w == 3;
  const ptrdiff_t columns = is_many ? kMany : kFew, computed = is_many ? many : few;
  if (!kManyRegisters && is_small && g.out_width != columns) return 0;
  if (g.out_width < columns || computed > g.out_width + g.out_width / (is_small ? 8 : 3)) return 0;
  const bool all_reach = g.pad_w < g.taps_w && (g.out_width - 1) * g.stride_w < g.width + g.pad_w;
  return all_reach ? static_cast<int>(columns) : 0;
}

// A vector of channels of some rows: `left` channels, or where `whole` as many as a vector has.
template <int taps, int stride, int rows, int columns, bool whole>
__attribute__((noinline)) void blocks(const Slide<kLinesUnder<taps, stride, rows>>& s, ptrdiff_t left) {
  constexpr int lines = kLinesUnder<taps, stride, rows>, inputs = (columns - 1) * stride + taps;
  // Lines of memory to be fetched with each line of the windows.
  constexpr int outputs = rows * columns * kLanes / kPanel;
  constexpr int fetched = (outputs * stride * stride + lines - 1) / lines;
  constexpr int out_fetched = (outputs + lines - 1) / lines;
  constexpr int reached = taps == 3 && stride == 1 ? 1 : 3;  // columns, by a pointer before it moves
  const auto load_vector = [&](const float* from) __attribute__((always_inline)) {
    return whole ? load(from) : load_part(from, left);
  };
  const Floats bias = load(s.weights);
  Floats weights[taps * taps];
  repeat<taps * taps>([&](auto i)
                          __attribute__((always_inline)) { weights[i] = load(s.weights + (1 + i) * s.tap); });
  const ptrdiff_t pixel = s.pixel, out_pixel = s.out_pixel, out_width = s.out_width;
  const float *ahead = s.ahead, *out_ahead = s.out_ahead;
  for (ptrdiff_t group = 0; group < out_width; group += columns) {
    // The last few columns are computed with some before them once more, to the same values.
    const ptrdiff_t column = min_of(group, out_width - columns);
    const ptrdiff_t first = s.pad - column * stride, end = s.width + first;
    Floats sums[rows][columns];
    repeat<rows * columns>([&](auto i)
                               __attribute__((always_inline)) { sums[i / columns][i % columns] = bias; });
    repeat<lines>([&](auto i) __attribute__((always_inline)) {
      if (ahead) {
        repeat<fetched>([&](auto k)
                            __attribute__((always_inline)) { __builtin_prefetch(ahead + k * kPanel, 0, 2); });
        ahead += fetched * kPanel;
        if (out_ahead) {
          repeat<out_fetched>([&](auto k) __attribute__((always_inline)) {
            __builtin_prefetch(out_ahead + k * kPanel, 1, 2);
          });
          out_ahead += out_fetched * kPanel;
        }
      }
      if (s.step[i] == 0) return;
      const float* x = s.line[i] + column * stride * pixel;
      repeat<inputs>([&](auto at) __attribute__((always_inline)) {
        constexpr int u = decltype(at)();
        if ((u >= taps - 1 || u >= first) && (u <= inputs - taps || u < end)) {
          Floats value = load_vector(x + u % reached * pixel);
          keep_in_register(value);
          repeat<rows>([&](auto r) __attribute__((always_inline)) {
            constexpr int th = decltype(i)() - decltype(r)() * stride;
            if constexpr (th >= 0 && th < taps) {
              repeat<columns>([&](auto j) __attribute__((always_inline)) {
                constexpr int tw = u - decltype(j)() * stride;
                if constexpr (tw >= 0 && tw < taps) {
                  sums[r][j] += value * weights[th * taps + tw];
                }
              });
            }
          });
        }
        if constexpr (u % reached == reached - 1) x += reached * pixel;
      });
    });
    // Not finish(): that has every activation, for which sums have to be in memory.
    const Bounds bounds = {splat(s.low), splat(s.high)};
    repeat<rows>([&](auto r) __attribute__((always_inline)) {
      const ptrdiff_t to = r * s.out_row + column * out_pixel;
      Floats(&row)[columns] = sums[r];
      if (s.residual) {
        const float* residual = s.residual + to;
        repeat<columns>([&](auto j) __attribute__((always_inline)) {
          row[j] += load_vector(residual);
          residual += out_pixel;
        });
      }
      activate<columns>(s.activation, bounds, row);
      float* output = s.output + to;
      repeat<columns>([&](auto j) __attribute__((always_inline)) {
        whole ? store(output, row[j]) : store_part(output, row[j], left);
        output += out_pixel;
      });
    });
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
