// Products of little depth whose rows lie one after the other, as a convolution's of one pixel.
//
// The tiles of such a product begin and end so often that what they do beside multiplying takes a good part
// of their time. They have no pointers of their rows here, are walked by a loop that has little else in it,
// and are low or high enough for as many sums as registers hold, whatever their width.
#pragma once

#include "epilogue.h"
#include "folded.h"
#include "indirect.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Of weights of 16 bits, vectors with sixteen lanes have other tiles, which sum in the same order.
template <class Weights>
constexpr bool kHasAdjacentRows =
    !kFewTiles && (kLanes == 8 || (kLanes == 16 && sizeof(typename Weights::Element) == sizeof(float)));
// Steps that are unrolled: of tiles with few sums the ends of a shorter loop take a good part of the time.
constexpr int kAdjacentSteps = kLanes == 16 ? kStepsAtOnce : 2 * kStepsAtOnce;
// Elements that a block of rows reads and gives, which stay in the first cache from strip to strip; by tiles
// of few sums, in the second, as beginning a block takes 80 cycles.
constexpr ptrdiff_t kAdjacentBlock = 1 << 13, kAdjacentBlockOfFew = 1 << 16;
constexpr ptrdiff_t kTileHeights = 24;          // each tile's height divides it
constexpr ptrdiff_t kHalfColumns = kLanes / 2;  // half a vector
// Elements of a result that near caches hold, and of rows so short that processors fetch the next ones
// themselves.
constexpr ptrdiff_t kNearResult = 1 << 16, kNearColumns = 4 * kPanel;

// Some columns of a block of rows.
template <class Weights>
struct AdjacentRows {
  const float* input;
  ptrdiff_t pitch, count, depth;
  const typename Weights::Element* weights;  // biases first
  ptrdiff_t panel;                           // elements from panel to panel
  const float* folded;                       // of the last few columns: their weights once more
  bool fetches;                              // rows are read for the first time
  bool few_sums;                             // as of Product
  Finish finish;
};

// Rows of a tile: of each three, where the first one is, as an address has room for twice a distance.
template <int rows>
struct TileRows {
  const float* threes[(rows + 2) / 3];
  ptrdiff_t pitch;

  __attribute__((always_inline)) TileRows(const float* first, ptrdiff_t pitch) : pitch(pitch) {
    for (int i = 0; i < (rows + 2) / 3; ++i) threes[i] = first + 3 * i * pitch;
  }
  __attribute__((always_inline)) const float* operator[](int i) const {
    return threes[i / 3] + i % 3 * pitch;
  }
  __attribute__((always_inline)) void advance(ptrdiff_t steps) {
    for (int i = 0; i < (rows + 2) / 3; ++i) threes[i] += steps;
  }
};

// The biases of some columns, for each row of a tile.
template <int rows, int vectors, class Weights>
PENLIGHT_INLINE void begin_sums(const AdjacentRows<Weights>& s, Floats (&sums)[rows][vectors]) {
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    const Floats bias = Weights::load(s.weights + place_of_vector(v, s.panel));
    repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][v] = bias; });
  });
}

// A step of these sums, with the weights that begin there.
template <class Weights, int rows, int vectors, class Step>
PENLIGHT_INLINE void add_step(const TileRows<rows>& x, Step k, const typename Weights::Element* weights,
                              ptrdiff_t panel, Floats (&sums)[rows][vectors]) {
  Floats columns[vectors];
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    columns[v] = Weights::load(weights + place_of_vector(v, panel) + k * kPanel);
    // Of fewer products with a vector of weights, GCC reads it once more for each.
    if constexpr (kLanes == 16 && rows < 5) keep_in_register(columns[v]);
  });
  repeat<rows>([&](auto i) __attribute__((always_inline)) {
    const Floats value = splat(x[i][k]);
    repeat<vectors>([&](auto v)
                        __attribute__((always_inline)) { multiply_add(sums[i][v], value, columns[v]); });
  });
}

// Rows from `row` on.
template <int rows, int vectors, class Weights>
PENLIGHT_INLINE void multiply_adjacent(const AdjacentRows<Weights>& s, ptrdiff_t row) {
  Floats sums[rows][vectors];
  begin_sums(s, sums);
  const typename Weights::Element* weights = s.weights + kPanel;
  const ptrdiff_t panel = s.panel;
  TileRows<rows> x(s.input + row * s.pitch, s.pitch);
  FetchRows<kStepsAtOnce, rows> fetch{s.fetches ? s.input + (row + 2 * rows) * s.pitch : nullptr};
  const auto step = [&](auto k)
                        __attribute__((always_inline)) { add_step<Weights>(x, k, weights, panel, sums); };
  ptrdiff_t k = 0;
  if constexpr (kAdjacentSteps > kStepsAtOnce) {
    for (; k + kAdjacentSteps <= s.depth; k += kAdjacentSteps, weights += kAdjacentSteps * kPanel) {
      fetch();
      fetch();
      repeat<kAdjacentSteps>(step);
      x.advance(kAdjacentSteps);
    }
  }
  for (; k + kStepsAtOnce <= s.depth; k += kStepsAtOnce, weights += kStepsAtOnce * kPanel) {
    fetch();
    repeat<kStepsAtOnce>(step);
    x.advance(kStepsAtOnce);
  }
  for (; k < s.depth; ++k, weights += kPanel) {
    step(Index<0>());
    x.advance(1);
  }
  finish_tile(s.finish, row, rows, sums);
}

// All rows, by tiles of the first height, then of lower ones.
template <int vectors, int rows, int... lower, class Weights>
void multiply_by_heights(const AdjacentRows<Weights>& s, ptrdiff_t row) {
  for (; row + rows <= s.count; row += rows) multiply_adjacent<rows, vectors>(s, row);
  if constexpr (sizeof...(lower) > 0) {
    if (row < s.count) multiply_by_heights<vectors, lower...>(s, row);
  }
}

#if defined(__AVX512F__) && !defined(PENLIGHT_FEW_TILES)

// What two rows have of half a vector, of which they share one.
template <int half>
PENLIGHT_INLINE void store_half(float* to, Floats shared) {
  // GCC 12 warns of the plain one, whose header leaves what masked lanes would have undefined.
  _mm256_storeu_ps(to, _mm512_maskz_extractf32x8_ps(0xff, (__m512)shared, half));
}
PENLIGHT_INLINE Floats load_halves(const float* first, const float* second) {
  return PENLIGHT_SHUFFLE(load_part(first, kHalfColumns), load_part(second, kHalfColumns), 0, 1, 2, 3, 4, 5,
                          6, 7, 16, 17, 18, 19, 20, 21, 22, 23);
}
// Sums of two rows at once: of columns that fill half of a last vector, both rows have a half. Not where
// something is added to them.
template <int rows, int vectors>
PENLIGHT_INLINE void finish_pairs(const AdjacentRows<Singles>& s, ptrdiff_t row,
                                  const Floats (&sums)[rows][vectors]) {
  constexpr int whole = vectors / 2, last = vectors - 1;
  const ptrdiff_t pitch = s.finish.pitch;
  float* to = s.finish.output + row * pitch;
  const float* const rest = s.weights + whole * s.panel;
  const Floats rests = load_halves(rest, rest);
  repeat<rows / 2>([&](auto pair) __attribute__((always_inline)) {
    constexpr int i = 2 * pair;
    Floats found[2 * whole + 1];
    repeat<2 * whole>([&](auto k) __attribute__((always_inline)) {
      constexpr int r = i + k / whole, v = k % whole;
      found[k] = add_pairs(sums[r][2 * v], sums[r][2 * v + 1]) + load(s.weights + v * s.panel);
    });
    found[2 * whole] = unfold_halves(sums[i][last], sums[i + 1][last]) + rests;
    activate<2 * whole + 1>(s.finish.epilogue,
                            [&](auto k) __attribute__((always_inline)) -> Floats& { return found[k]; });
    repeat<2 * whole>([&](auto k) __attribute__((always_inline)) {
      store(to + k / whole * pitch + k % whole * kLanes, found[k]);
    });
    store_half<0>(to + whole * kLanes, found[2 * whole]);
    store_half<1>(to + pitch + whole * kLanes, found[2 * whole]);
    to += 2 * pitch;
  });
}

// The same of few columns. The rows after the last of `count` are as that.
template <int fold, int rows, int vectors, bool whole>
PENLIGHT_INLINE void multiply_adjacent_folded(const AdjacentRows<Singles>& s, ptrdiff_t row,
                                              ptrdiff_t count) {
  Floats sums[rows][vectors] = {};
  const float* a[rows];
  const float* const first = s.input + row * s.pitch;
  repeat<rows>([&](auto i) __attribute__((always_inline)) {
    a[i] = first + (whole ? static_cast<ptrdiff_t>(i) : min_of(i, count - 1)) * s.pitch;
  });
  const FetchRows<fold, rows> fetch{s.fetches ? first + 2 * rows * s.pitch : nullptr};
  add_folded(a, s.folded, s.depth, sums, fetch);
  if constexpr (whole && vectors % 2 != 0 && fold == 2) {
    if (s.finish.columns == vectors * kLanes / 2 && !s.finish.epilogue.residual) {
      return finish_pairs(s, row, sums);
    }
  }
  Floats found[rows][unfolded(vectors)];
  unfold<fold>(sums, found);
  repeat<unfolded(vectors)>([&](auto v) __attribute__((always_inline)) {
    const Floats bias = load(s.weights + v * s.panel);
    repeat<rows>([&](auto i) __attribute__((always_inline)) { found[i][v] += bias; });
  });
  finish_tile(s.finish, row, whole ? rows : count, found);
}

template <int fold, int vectors, int rows, int few>
void multiply_by_heights_folded(const AdjacentRows<Singles>& s) {
  ptrdiff_t row = 0;
  for (; row + rows <= s.count; row += rows) {
    multiply_adjacent_folded<fold, rows, vectors, true>(s, row, rows);
  }
  for (; row < s.count; row += few) {
    multiply_adjacent_folded<fold, few, vectors, false>(s, row, min_of(few, s.count - row));
  }
}

// Whole vectors of columns, as above, and half a one, folded: the former leave time for what the latter load.
template <int whole, int rows>
PENLIGHT_INLINE void multiply_adjacent_mixed(const AdjacentRows<Singles>& s, ptrdiff_t row) {
  static_assert(rows % 2 == 0 && kStepsAtOnce % 2 == 0);
  constexpr int pairs = rows / 2;
  Floats sums[rows][whole], folded[rows] = {};
  begin_sums(s, sums);
  const ptrdiff_t panel = s.panel;
  const float *weights = s.weights + kPanel, *folds = s.folded;
  TileRows<rows> x(s.input + row * s.pitch, s.pitch);
  FetchRows<kStepsAtOnce, rows> fetch{s.fetches ? s.input + (row + 2 * rows) * s.pitch : nullptr};
  const auto step = [&](auto k)
                        __attribute__((always_inline)) { add_step<Singles>(x, k, weights, panel, sums); };
  ptrdiff_t k = 0;
  for (; k + kStepsAtOnce <= s.depth; k += kStepsAtOnce, weights += kStepsAtOnce * kPanel) {
    fetch();
    repeat<kStepsAtOnce / 2>([&](auto turn) __attribute__((always_inline)) {
      step(Index<2 * turn>());
      step(Index<2 * turn + 1>());
      const Floats two = load(folds + turn * kLanes);
      repeat<rows>(
          [&](auto i) __attribute__((always_inline)) { folded[i] += splat_steps<2>(x[i] + 2 * turn) * two; });
    });
    x.advance(kStepsAtOnce);
    folds += kStepsAtOnce / 2 * kLanes;
  }
  for (; k < s.depth; k += 2, folds += kLanes) {
    const ptrdiff_t left = min_of(s.depth - k, 2);
    const Floats two = load(folds);
    repeat<rows>([&](auto i)
                     __attribute__((always_inline)) { folded[i] += splat_some<2>(x[i], left) * two; });
    for (ptrdiff_t j = 0; j < left; ++j, weights += kPanel) {
      step(Index<0>());
      x.advance(1);
    }
  }
  const float *const rest = s.weights + whole * panel, *const residual = s.finish.epilogue.residual;
  const Floats rests = load_halves(rest, rest);
  const ptrdiff_t pitch = s.finish.pitch;
  Floats halves[pairs];
  repeat<pairs>([&](auto p) __attribute__((always_inline)) {
    halves[p] = unfold_halves(folded[2 * p], folded[2 * p + 1]) + rests;
  });
  if (residual) {
    const float* const first = residual + row * pitch;
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      repeat<whole>(
          [&](auto v) __attribute__((always_inline)) { sums[i][v] += load(first + i * pitch + v * kLanes); });
    });
    repeat<pairs>([&](auto p) __attribute__((always_inline)) {
      const float* const upper = first + 2 * p * pitch + whole * kLanes;
      halves[p] += load_halves(upper, upper + pitch);
    });
  }
  activate<rows * whole + pairs>(s.finish.epilogue, [&](auto n) __attribute__((always_inline)) -> Floats& {
    if constexpr (n < rows * whole) {
      return sums[n / whole][n % whole];
    } else {
      return halves[n - rows * whole];
    }
  });
  float* const to = s.finish.output + row * pitch;
  repeat<rows>([&](auto i) __attribute__((always_inline)) {
    repeat<whole>([&](auto v)
                      __attribute__((always_inline)) { store(to + i * pitch + v * kLanes, sums[i][v]); });
    store_half<i % 2>(to + i * pitch + whole * kLanes, halves[i / 2]);
  });
}

// Rows by pairs; an odd one at the end by itself.
template <int whole, int rows>
void multiply_by_heights_mixed(AdjacentRows<Singles> s) {
  ptrdiff_t row = 0;
  for (; row + rows <= s.count; row += rows) multiply_adjacent_mixed<whole, rows>(s, row);
  for (; row + 2 <= s.count; row += 2) multiply_adjacent_mixed<whole, 2>(s, row);
  if (row == s.count) return;
  s.finish.columns = whole * kLanes;
  multiply_adjacent<1, whole>(s, row);
  s.weights += whole * s.panel;
  s.finish.output += whole * kLanes;
  if (s.finish.epilogue.residual) s.finish.epilogue.residual += whole * kLanes;
  s.finish.columns = kHalfColumns;
  multiply_adjacent_folded<2, 2, 1, false>(s, row, 1);
}

#endif

template <class Weights>
void multiply_strip(const AdjacentRows<Weights>& s) {
  const ptrdiff_t columns = s.finish.columns;
#if defined(__AVX512F__) && !defined(PENLIGHT_FEW_TILES)
  if (s.folded && columns > kFoldedColumns) {
    if (columns > 4 * kLanes) return multiply_by_heights_mixed<4, 4>(s);
    return multiply_by_heights_mixed<2, 6>(s);
  }
  if (s.folded) {
    return with_fold(columns, [&](auto fold, auto vectors) __attribute__((always_inline)) {
      if (vectors > 1 && s.few_sums) return multiply_by_heights_folded<fold, vectors, 12 / vectors, 4>(s);
      multiply_by_heights_folded<fold, vectors, vectors <= 2 ? 12 : 8, 4>(s);
    });
  }
  if (s.few_sums && columns > kLanes) {
    if (columns > 2 * kLanes) return multiply_by_heights<3, 4, 2, 1>(s, 0);
    return multiply_by_heights<2, 6, 2, 1>(s, 0);
  }
  if (columns > 3 * kLanes) return multiply_by_heights<4, 6, 2, 1>(s, 0);
  if (columns > 2 * kLanes) return multiply_by_heights<3, 8, 2, 1>(s, 0);
  if (columns > kLanes) return multiply_by_heights<2, 12, 4, 1>(s, 0);
  multiply_by_heights<1, 24, 6, 1>(s, 0);
#else
  if (columns > 2 * kLanes) return multiply_by_heights<3, 4, 2, 1>(s, 0);
  if (columns > kLanes) return multiply_by_heights<2, 6, 2, 1>(s, 0);
  multiply_by_heights<1, 12, 4, 1>(s, 0);
#endif
}

// Columns of the next strip, of so many that are left.
inline ptrdiff_t adjacent_columns(ptrdiff_t rest, bool few_sums) {
  if (kHasWideTiles && !few_sums) return min_of(kWideColumns, rest);
  return rest <= 3 * kLanes ? rest : kStripColumns;
}

// Has the lines closer that rows of some columns begin with, in the result and in what is added to it: of the
// next columns, and of the first ones. Stores that wait for their lines hold up all others. Inline, or
// compilers leave calls that only fetch away.
template <class Weights>
PENLIGHT_INLINE void fetch_outputs(const AdjacentRows<Weights>& s, bool is_first, bool is_last) {
  const float* const from[] = {s.finish.output, s.finish.epilogue.residual};
  for (const float* lines : from) {
    if (!lines) continue;
    for (ptrdiff_t i = 0; i < s.count; ++i, lines += s.finish.pitch) {
      if (is_first) __builtin_prefetch(lines, 1, 3);
      if (!is_last) __builtin_prefetch(lines + s.finish.columns, 1, 3);
    }
  }
}

template <class Weights>
void multiply_adjacent_rows(const Product& p) {
  using Element = typename Weights::Element;
  const ptrdiff_t panel = (1 + p.channels) * kPanel, panels = (p.outputs + kPanel - 1) / kPanel;
  const ptrdiff_t last_column = min_of(p.last_panel * kPanel, p.outputs);
  const ptrdiff_t few = folded_columns_of(p), last_plain = min_of(p.outputs - few, last_column);
  const ptrdiff_t most = p.few_sums ? kAdjacentBlockOfFew : kAdjacentBlock;
  const ptrdiff_t block = max_of(most / (p.channels + p.outputs) / kTileHeights, 1) * kTileHeights;
  float* const folded = static_cast<float*>(p.scratch);
  const bool is_far = kLanes == 8 && p.output_pitch >= kNearColumns && p.rows * p.output_pitch > kNearResult;
  for (ptrdiff_t group = p.first_group; group < p.last_group; ++group) {
    const Element* const packed = static_cast<const Element*>(p.packed) + group * panels * panel;
    if (last_plain < last_column) {
      StripOf<Weights> strip{};
      strip.weights_tap = p.channels * kPanel;
      strip.weights_panel = panel;
      strip.finish.columns = few;
      lay_out_folded(strip, packed + last_plain / kPanel * panel + kPanel, 1, folded);
    }
    for (ptrdiff_t row = p.first_row; row < p.last_row; row += block) {
      AdjacentRows<Weights> s{};
      s.input = p.input + row * p.pixel + group * p.channels;
      s.pitch = p.pixel;
      s.count = min_of(block, p.last_row - row);
      s.depth = p.channels;
      s.panel = panel;
      s.few_sums = p.few_sums;
      s.finish = {nullptr, p.output_pitch, 0, p.epilogue};
      const ptrdiff_t first = p.first_panel * kPanel;
      for (ptrdiff_t column = first; column < last_column; column += s.finish.columns) {
        s.weights = packed + column / kPanel * panel;
        s.fetches = column == first && p.pixel == p.channels;
        const ptrdiff_t plain = last_plain - column;
        s.finish.columns = adjacent_columns(plain > 0 ? plain : last_column - column, p.few_sums);
        // 32 or 64 columns together with those that are folded: lines that both write are written once.
        const bool is_mixed = p.few_sums && few == kHalfColumns && last_plain < last_column &&
                              (plain == 2 * kLanes || plain == 4 * kLanes);
        if (is_mixed) s.finish.columns = plain + few;
        s.folded = few && (is_mixed || column == last_plain) ? folded : nullptr;
        const ptrdiff_t offset = row * p.output_pitch + group * p.outputs + column;
        s.finish.output = p.output + offset;
        s.finish.epilogue.residual = p.epilogue.residual ? p.epilogue.residual + offset : nullptr;
        if (is_far) fetch_outputs(s, column == first, column + s.finish.columns >= last_column);
        multiply_strip(s);
      }
    }
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
