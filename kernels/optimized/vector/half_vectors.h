// Strips whose last vector is half empty, as where a small network has 24 or 40 outputs.
//
// Its lanes hold two steps of the sum for each of its columns, side by side, so that none is multiplied
// for nothing; they are added to each other at the end.
#pragma once

#include "indirect.h"
#include "strip.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Is there no more than half a vector behind the whole ones? Of the widest vectors alone.
inline bool is_half_empty(ptrdiff_t columns) {
  const ptrdiff_t rest = columns % kLanes;
  return kLanes == 16 && columns < kStripColumns && rest > 0 && rest <= kLanes / 2;
}

#if defined(__AVX512F__)

// Rows [row, row + stored) of a strip of `whole` vectors and the one that is half empty.
template <class Weights, int rows, int whole>
PENLIGHT_INLINE void multiply_pairs(const StripOf<Weights>& s, ptrdiff_t row, ptrdiff_t stored) {
  using Element = typename Weights::Element;
  const auto weight = [&](const Element* step, int v) __attribute__((always_inline)) {
    return Weights::load(step + v * s.weights_panel);
  };
  const float* const* pointers = s.rows + row / kRows * s.tile_step + row % kRows;
  Floats sums[rows][whole + 1];
  repeat<whole + 1>([&](auto v) __attribute__((always_inline)) {
    Floats bias = s.start ? weight(s.start, v) : Floats{};
    if constexpr (v == whole) bias = in_turns(bias, Floats{});
    repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][v] = bias; });
  });
  const char* ahead = s.ahead.of_tile(row / kRows, kStripPanels);
  for (ptrdiff_t t = 0; t < s.taps; ++t, pointers += kRows) {
    const char* fetched = ahead;
    ahead += s.channels * s.ahead.step;
    if (!s.rows[row / kRows * s.tile_step + t * kRows]) continue;
    const float* a[rows];
    repeat<rows>([&](auto i) __attribute__((always_inline)) { a[i] = pointers[i] + s.first_channel; });
    const Element* b = s.weights + t * s.weights_tap;
    ptrdiff_t c = 0;
    for (; c + 2 <= s.channels; c += 2, b += 2 * kPanel) {
      __builtin_prefetch(fetched, 0, 2);
      __builtin_prefetch(fetched + s.ahead.step, 0, 2);
      fetched += 2 * s.ahead.step;
      Floats columns[2][whole + 1];
      repeat<whole + 1>([&](auto v) __attribute__((always_inline)) {
        columns[0][v] = weight(b, v);
        columns[1][v] = weight(b + kPanel, v);
      });
      const Floats both = in_turns(columns[0][whole], columns[1][whole]);
      repeat<rows>([&](auto i) __attribute__((always_inline)) {
        repeat<whole>([&](auto v)
                          __attribute__((always_inline)) { sums[i][v] += splat(a[i][c]) * columns[0][v]; });
        sums[i][whole] += splat_two(a[i] + c) * both;
        repeat<whole>(
            [&](auto v) __attribute__((always_inline)) { sums[i][v] += splat(a[i][c + 1]) * columns[1][v]; });
      });
    }
    if (c < s.channels) {
      repeat<rows>([&](auto i) __attribute__((always_inline)) {
        const Floats value = splat(a[i][c]);
        repeat<whole>([&](auto v) __attribute__((always_inline)) { sums[i][v] += value * weight(b, v); });
        // No element may be multiplied by a zero: it may be infinite.
        sums[i][whole] += in_turns(value, Floats{}) * in_turns(weight(b, whole), Floats{});
      });
    }
  }
  repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][whole] = sum_pairs(sums[i][whole]); });
  complete_tile(s, row, stored, sums);
}

template <int rows, int whole, class Weights>
void multiply_rows_by_pairs(const StripOf<Weights>& s) {
  ptrdiff_t row = 0;
  for (; s.count - row > 1; row += rows) {
    multiply_pairs<Weights, rows, whole>(s, row, min_of(rows, s.count - row));
  }
  if (row < s.count) multiply_pairs<Weights, 1, whole>(s, row, 1);
}

// Tiles of half the rows: their ends, where sums wait for each other, overlap with what follows.
template <class Weights>
void multiply_by_pairs(const StripOf<Weights>& s) {
  if (s.finish.columns > kLanes) return multiply_rows_by_pairs<kRows / 2, 1>(s);
  multiply_rows_by_pairs<kRows, 0>(s);
}

#else

template <class Weights>
void multiply_by_pairs(const StripOf<Weights>&) {}

#endif

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
