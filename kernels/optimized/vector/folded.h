// Strips of few columns, as the layers of mobile networks have that take channels away.
//
// A vector of a row's neighbouring columns would be half empty, or need one load of the input for each
// product, of which memory gives no more than there are products. A vector of weights is folded here: it has
// two steps of the sum for each of eight columns, or four for each of four, so that as many elements of a
// row, loaded once, are multiplied with it. The sums of a column are added to each other at the end.
#pragma once

#include "indirect.h"
#include "spread_rows.h"
#include "strip.h"
#include "transpose.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kFoldedColumns = 24;  // at most, of a strip
// From how many rows on the weights are worth laying out once more.
constexpr ptrdiff_t kFoldedRows = 48;

constexpr ptrdiff_t kMostFold = 4;      // steps of a vector
constexpr ptrdiff_t kFoldedByFour = 4;  // columns at most
constexpr int fold_of(ptrdiff_t columns) { return columns <= kFoldedByFour ? 4 : 2; }
// Those of adjacent rows are, for some cores. Weights of 16 bits have other tiles, and sums in the same
// order.
inline bool has_tiles_of_few(const Product& p) { return p.few_sums && has_adjacent_rows(p); }
// From which depth on the sums of a column are worth adding up: sooner where a vector of columns would be
// half empty, and where tiles are of few sums.
inline ptrdiff_t least_folded_depth(ptrdiff_t columns, bool few_sums) {
  return few_sums || columns <= 8 ? 16 : columns <= 16 ? 96 : 24;
}

// Vectors of each turn of so many steps.
constexpr ptrdiff_t folded_vectors(ptrdiff_t columns) {
  return (columns * fold_of(columns) + kLanes - 1) / kLanes;
}

// Columns of the last strip of a product, if it has few: else 0. The same whatever part of the rows is
// multiplied. For cores that prefer no wide tiles, of those alone whose last vector would be half empty.
inline ptrdiff_t folded_columns_of(const Product& p) {
  const ptrdiff_t rest = p.outputs % kStripColumns, last = rest % kLanes;
  const bool is_worth_it = p.has_room && p.rows >= kFoldedRows &&
                           runs_of(p) * p.channels >= least_folded_depth(rest, has_tiles_of_few(p));
  const bool gains = p.wide_tiles || (last > 0 && last <= kLanes / 2);
  return !kFewTiles && kLanes == 16 && is_worth_it && gains && rest <= kFoldedColumns ? rest : 0;
}

// Elements of the weights of these columns, laid out for one run of `channels`.
inline ptrdiff_t folded_size(ptrdiff_t columns, ptrdiff_t channels) {
  if (columns == 0) return 0;
  const ptrdiff_t fold = fold_of(columns);
  return round_up(channels, fold) / fold * folded_vectors(columns) * kLanes;
}

// Rows that lie one after the other, fetched two tiles before they are read: those of a tile, by its turns.
template <int fold, int rows>
struct FetchRows {
  const float* ahead;  // null: none

  __attribute__((always_inline)) void operator()() {
    if (!ahead) return;
    constexpr int elements = fold * rows;
    repeat<(elements + kLine - 1) / kLine>(
        [&](auto line) __attribute__((always_inline)) { __builtin_prefetch(ahead + line * kLine); });
    ahead += elements;
  }
};

#if defined(__AVX512F__) && !defined(PENLIGHT_FEW_TILES)

// Two steps of eight columns, of which each 128 bits have two: so that those of two vectors become four, in
// their order, when the steps are added up.
PENLIGHT_INLINE Floats eight_columns(Floats first, Floats second) {
  const auto spread = [](Floats x) __attribute__((always_inline)) {
    return PENLIGHT_SHUFFLE(x, x, 0, 1, 0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7);
  };
  return first_in_turns(spread(first), spread(second));
}
// Steps added up: of each 128 bits, two columns of a, then two of b.
PENLIGHT_INLINE Floats add_pairs(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 0, 2, 16, 18, 4, 6, 20, 22, 8, 10, 24, 26, 12, 14, 28, 30) +
         PENLIGHT_SHUFFLE(a, b, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
}

// All runs of a strip's columns, from its first weights on.
template <class Weights, int fold, int vectors>
void lay_out_folded(const StripOf<Weights>& s, const typename Weights::Element* first, ptrdiff_t runs,
                    float* to) {
  const ptrdiff_t channels = s.weights_tap / kPanel;
  for (ptrdiff_t t = 0; t < runs; ++t) {
    const typename Weights::Element* from = first + t * s.weights_tap;
    for (ptrdiff_t c = 0; c < channels; c += fold, from += fold * kPanel, to += vectors * kLanes) {
      const auto step = [&](auto k, auto panel) __attribute__((always_inline)) {
        return c + k < channels ? Weights::load(from + k * kPanel + panel * s.weights_panel) : Floats{};
      };
      if constexpr (fold == 4) {
        Floats steps[4];
        repeat<4>([&](auto k) __attribute__((always_inline)) {
          const Floats x = step(k, Index<0>());
          steps[k] = PENLIGHT_SHUFFLE(x, x, 0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6);
        });
        transpose_quads(steps[0], steps[1], steps[2], steps[3]);
        store(to, steps[0]);
      } else {
        repeat<(vectors + 1) / 2>([&](auto panel) __attribute__((always_inline)) {
          const Floats even = step(Index<0>(), panel), odd = step(Index<1>(), panel);
          if constexpr (2 * panel + 1 < vectors) {
            store(to + 2 * panel * kLanes, first_in_turns(even, odd));
            store(to + (2 * panel + 1) * kLanes, last_in_turns(even, odd));
          } else {
            store(to + 2 * panel * kLanes, eight_columns(even, odd));
          }
        });
      }
    }
  }
}

// The next steps of a row, for each column of a vector; or the first `left` of them and zeros.
template <int fold>
PENLIGHT_INLINE Floats splat_steps(const float* from) {
  // GCC 12 warns of the plain ones, whose header leaves what masked lanes would have undefined.
  if constexpr (fold == 4) return (Floats)_mm512_maskz_broadcast_f32x4(0xffff, _mm_loadu_ps(from));
  double pair;
  memcpy(&pair, from, sizeof pair);
  return (Floats)_mm512_set1_pd(pair);
}
template <int fold>
PENLIGHT_INLINE Floats splat_some(const float* from, ptrdiff_t left) {
  const __m128 some = _mm_maskz_loadu_ps(static_cast<__mmask8>(mask_of(left)), from);
  if constexpr (fold == 4) return (Floats)_mm512_maskz_broadcast_f32x4(0xffff, some);
  return (Floats)_mm512_maskz_broadcastsd_pd(0xff, _mm_castps_pd(some));
}

// Adds a run of some rows, that begin at a[i], to their sums.
template <int fold, int rows, int vectors>
PENLIGHT_INLINE void add_folded(const float* const (&a)[rows], const float* weights, ptrdiff_t channels,
                                Floats (&sums)[rows][vectors], FetchRows<fold, rows> fetch) {
  const auto add = [&](auto value) __attribute__((always_inline)) {
    Floats columns[vectors];
    repeat<vectors>([&](auto v) __attribute__((always_inline)) { columns[v] = load(weights + v * kLanes); });
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      const Floats x = value(a[i]);
      repeat<vectors>([&](auto v) __attribute__((always_inline)) { sums[i][v] += x * columns[v]; });
    });
  };
  ptrdiff_t c = 0;
  for (; c + fold <= channels; c += fold, weights += vectors * kLanes) {
    fetch();
    add([&](const float* x) __attribute__((always_inline)) { return splat_steps<fold>(x + c); });
  }
  if (c < channels) {
    const ptrdiff_t left = channels - c;
    add([&](const float* x) __attribute__((always_inline)) { return splat_some<fold>(x + c, left); });
  }
}

// Vectors of columns that so many folded ones are.
constexpr int unfolded(int vectors) { return (vectors + 1) / 2; }

// Of eight columns, those of one row and then of another, from the folded sums of either.
PENLIGHT_INLINE Floats unfold_halves(Floats first, Floats second) {
  const Floats both = add_pairs(first, second);
  return PENLIGHT_SHUFFLE(both, both, 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15);
}

// The sums of each row as columns, without biases.
template <int fold, int rows, int vectors>
PENLIGHT_INLINE void unfold(const Floats (&sums)[rows][vectors], Floats (&found)[rows][unfolded(vectors)]) {
  if constexpr (fold == 4) {
    static_assert(rows % 4 == 0 && vectors == 1);
    repeat<rows / 4>([&](auto some) __attribute__((always_inline)) {
      constexpr int first = 4 * some;
      Floats parts[4];
      repeat<4>([&](auto k) __attribute__((always_inline)) { parts[k] = sums[first + k][0]; });
      transpose_quads(parts[0], parts[1], parts[2], parts[3]);
      const Floats all = (parts[0] + parts[1]) + (parts[2] + parts[3]);
      repeat<4>([&](auto k) __attribute__((always_inline)) {
        found[first + k][0] =
            PENLIGHT_SHUFFLE(all, all, k, 4 + k, 8 + k, 12 + k, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
      });
    });
  } else {
    repeat<vectors / 2>([&](auto v) __attribute__((always_inline)) {
      repeat<rows>([&](auto i) __attribute__((always_inline)) {
        found[i][v] = add_pairs(sums[i][2 * v], sums[i][2 * v + 1]);
      });
    });
    if constexpr (vectors % 2 != 0) {
      static_assert(rows % 2 == 0);
      constexpr int last = vectors - 1;
      repeat<rows / 2>([&](auto some) __attribute__((always_inline)) {
        constexpr int i = 2 * some;
        const Floats both = unfold_halves(sums[i][last], sums[i + 1][last]);
        found[i][last / 2] = both;
        found[i + 1][last / 2] =
            PENLIGHT_SHUFFLE(both, both, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
      });
    }
  }
}

// Rows [row, row + stored) of a strip.
template <class Weights, int fold, int rows, int vectors>
PENLIGHT_INLINE void multiply_folded(const StripOf<Weights>& s, ptrdiff_t row, ptrdiff_t stored) {
  Floats sums[rows][vectors] = {};
  const float* const* const tile = s.rows + row / kRows * s.tile_step;
  const ptrdiff_t run = folded_size(s.finish.columns, s.weights_tap / kPanel);
  for (ptrdiff_t t = 0; t < s.taps; ++t) {
    if (!tile[t * kRows]) continue;  // all of it is outside of the image
    const float* a[rows];
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      a[i] = tile[t * kRows + row % kRows + i] + s.first_channel;
    });
    const FetchRows<fold, rows> fetch{s.next_row ? a[0] + 2 * rows * s.next_row : nullptr};
    add_folded(a, s.folded + t * run, s.channels, sums, fetch);
  }
  Floats found[rows][unfolded(vectors)];
  unfold<fold>(sums, found);
  if (s.start) {
    repeat<unfolded(vectors)>([&](auto v) __attribute__((always_inline)) {
      const Floats bias = Weights::load(s.start + v * s.weights_panel);
      repeat<rows>([&](auto i) __attribute__((always_inline)) { found[i][v] += bias; });
    });
  }
  complete_tile(s, row, stored, found);
}

// Rows of a tile, of which one tile of pointers has a multiple: as many as registers hold the sums of.
constexpr int folded_rows(int vectors) { return vectors > 2 ? kRows / 2 : kRows; }

// Calls body(fold, vectors), as constants, with those for so many columns.
template <class Body>
PENLIGHT_INLINE void with_fold(ptrdiff_t columns, Body&& body) {
  if (columns <= kFoldedByFour) return body(Index<4>(), Index<1>());
  if (columns <= 8) return body(Index<2>(), Index<1>());
  if (columns <= 16) return body(Index<2>(), Index<2>());
  body(Index<2>(), Index<3>());
}

template <class Weights>
void lay_out_folded(const StripOf<Weights>& s, const typename Weights::Element* first, ptrdiff_t runs,
                    float* to) {
  with_fold(s.finish.columns, [&](auto fold, auto vectors) __attribute__((always_inline)) {
    lay_out_folded<Weights, fold, vectors>(s, first, runs, to);
  });
}

template <class Weights, int fold, int vectors>
void multiply_rows_folded(const StripOf<Weights>& s) {
  constexpr int rows = folded_rows(vectors), few = rows / 3;
  ptrdiff_t row = 0;
  for (; row + rows <= s.count; row += rows) multiply_folded<Weights, fold, rows, vectors>(s, row, rows);
  for (; row < s.count; row += few) {
    multiply_folded<Weights, fold, few, vectors>(s, row, min_of(few, s.count - row));
  }
}

template <class Weights>
void multiply_folded(const StripOf<Weights>& s) {
  with_fold(s.finish.columns, [&](auto fold, auto vectors) __attribute__((always_inline)) {
    multiply_rows_folded<Weights, fold, vectors>(s);
  });
}

#else

template <class Weights>
void lay_out_folded(const StripOf<Weights>&, const typename Weights::Element*, ptrdiff_t, float*) {}
template <class Weights>
void multiply_folded(const StripOf<Weights>&) {}

#endif

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
