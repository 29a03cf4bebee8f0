// Strips of few columns, as the layers of mobile networks have that take channels away.
//
// A vector of a row's neighbouring columns would need one load of the input for each product, of which memory
// gives no more than there are products. A vector of weights has four steps of the sum here for each of four
// columns, so that four elements of a row, loaded once, are multiplied with the weights of all columns. The
// four sums of a column are added to each other at the end.
#pragma once

#include "indirect.h"
#include "strip.h"
#include "transpose.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kQuad = 4;                 // steps, and columns, of a vector
constexpr ptrdiff_t kQuadColumns = 6 * kQuad;  // at most, of a strip
// From how many rows on the weights are worth laying out once more.
constexpr ptrdiff_t kQuadRows = 48;

// From which depth on the four sums of a column are worth adding up: sooner where a vector of them would be
// half empty.
inline ptrdiff_t least_quad_depth(ptrdiff_t columns) { return columns <= 8 ? 16 : 32; }

inline ptrdiff_t groups_of(ptrdiff_t columns) { return (columns + kQuad - 1) / kQuad; }

// Columns of the last strip of a product, if it has few: else 0. The same whatever part of the rows is
// multiplied. For cores that prefer no wide tiles, of those alone whose last vector would be half empty.
inline ptrdiff_t quad_columns_of(const Product& p) {
  const ptrdiff_t rest = p.outputs % kStripColumns, last = rest % kLanes;
  const bool is_worth_it =
      p.has_room && p.rows >= kQuadRows && runs_of(p) * p.channels >= least_quad_depth(rest);
  const bool gains = p.wide_tiles || (last > 0 && last <= kLanes / 2);
  return !kFewTiles && kLanes == 16 && is_worth_it && gains && rest <= kQuadColumns ? rest : 0;
}

// Elements of the weights of these columns, laid out for one run of `channels`.
inline ptrdiff_t size_of_quads(ptrdiff_t columns, ptrdiff_t channels) {
  return round_up(channels, kQuad) / kQuad * groups_of(columns) * kLanes;
}

// Of each run of a strip.
template <class Weights>
ptrdiff_t quads_of_run(const StripOf<Weights>& s) {
  return size_of_quads(s.finish.columns, s.weights_tap / kPanel);
}

#if defined(__AVX512F__) && !defined(PENLIGHT_FEW_TILES)

// Lanes 4 q + g of a vector are columns groups * q + g, g < groups: there, and back from
// lanes 4 q + first + g.
template <int groups>
PENLIGHT_INLINE Floats spread_columns(Floats x) {
  if constexpr (groups == 4) return x;
  return PENLIGHT_SHUFFLE(x, x, 0, 1, 2, 3, groups, groups + 1, groups + 2, groups + 3, 2 * groups,
                          2 * groups + 1, 2 * groups + 2, 2 * groups + 3, 3 * groups, 3 * groups + 1,
                          3 * groups + 2, 3 * groups + 3);
}
template <int groups, int first>
PENLIGHT_INLINE Floats gather_columns(Floats x) {
  if constexpr (groups == 4) return x;
  constexpr auto lane = [](int column) {
    return column < 4 * groups ? column / groups * 4 + first + column % groups : 0;
  };
  return PENLIGHT_SHUFFLE(x, x, lane(0), lane(1), lane(2), lane(3), lane(4), lane(5), lane(6), lane(7),
                          lane(8), lane(9), lane(10), lane(11), lane(12), lane(13), lane(14), lane(15));
}

// Groups of columns in vector `v` of a strip that has `groups` of them.
constexpr int groups_in(int groups, int v) { return groups - 4 * v < 4 ? groups - 4 * v : 4; }

// All runs of a strip of `groups` groups of columns, from its first weights on.
template <class Weights, int groups>
void lay_out_columns(const StripOf<Weights>& s, const typename Weights::Element* first, ptrdiff_t runs,
                     float* to) {
  const ptrdiff_t channels = s.weights_tap / kPanel;
  for (ptrdiff_t t = 0; t < runs; ++t) {
    const typename Weights::Element* from = first + t * s.weights_tap;
    for (ptrdiff_t c = 0; c < channels; c += kQuad, from += kQuad * kPanel) {
      repeat<(groups + 3) / 4>([&](auto v) __attribute__((always_inline)) {
        constexpr int own = groups_in(groups, v);
        Floats steps[4];
        repeat<4>([&](auto k) __attribute__((always_inline)) {
          steps[k] = c + k < channels ? Weights::load(from + k * kPanel + v * s.weights_panel) : Floats{};
          steps[k] = spread_columns<own>(steps[k]);
        });
        transpose_quads(steps[0], steps[1], steps[2], steps[3]);
        repeat<own>([&](auto g) __attribute__((always_inline)) { store(to + g * kLanes, steps[g]); });
        to += own * kLanes;
      });
    }
  }
}

// Four elements, or the first `left` of them and zeros, in each 128 bits.
PENLIGHT_INLINE Floats splat_four(const float* from) {
  // GCC 12 warns of the plain one, whose header leaves what masked lanes would have undefined.
  return (Floats)_mm512_maskz_broadcast_f32x4(0xffff, _mm_loadu_ps(from));
}
PENLIGHT_INLINE Floats splat_some(const float* from, ptrdiff_t left) {
  const __m128 some = _mm_maskz_loadu_ps(static_cast<__mmask8>(mask_of(left)), from);
  return (Floats)_mm512_maskz_broadcast_f32x4(0xffff, some);
}

// Rows [row, row + stored) of a strip.
template <class Weights, int rows, int groups>
PENLIGHT_INLINE void multiply_quads(const StripOf<Weights>& s, ptrdiff_t row, ptrdiff_t stored) {
  constexpr int vectors = (groups + 3) / 4;
  Floats sums[rows][groups];
  repeat<rows>([&](auto i) __attribute__((always_inline)) {
    repeat<groups>([&](auto g) __attribute__((always_inline)) { sums[i][g] = Floats{}; });
  });
  const float* const* const tile = s.rows + row / kRows * s.tile_step;
  const ptrdiff_t run = quads_of_run(s);
  for (ptrdiff_t t = 0; t < s.taps; ++t) {
    if (!tile[t * kRows]) continue;  // all of it is outside of the image
    const float* a[rows];
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      a[i] = tile[t * kRows + row % kRows + i] + s.first_channel;
    });
    const float* weights = s.quads + t * run;
    const float* ahead = a[0] + 2 * rows * s.next_row;
    const auto add = [&](auto value) __attribute__((always_inline)) {
      Floats values[rows];
      repeat<rows>([&](auto i) __attribute__((always_inline)) { values[i] = value(a[i]); });
      repeat<groups>([&](auto g) __attribute__((always_inline)) {
        const Floats columns = load(weights + g * kLanes);
        repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][g] += values[i] * columns; });
      });
    };
    ptrdiff_t c = 0;
    for (; c + kQuad <= s.channels; c += kQuad, weights += groups * kLanes, ahead += kQuad * rows) {
      __builtin_prefetch(ahead, 0, 2);
      add([&](const float* x) __attribute__((always_inline)) { return splat_four(x + c); });
    }
    if (c < s.channels) {
      const ptrdiff_t left = s.channels - c;
      add([&](const float* x) __attribute__((always_inline)) { return splat_some(x + c, left); });
    }
  }
  Floats found[rows][vectors];
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    constexpr int own = groups_in(groups, v);
    const Floats bias = s.start ? Weights::load(s.start + v * s.weights_panel) : Floats{};
    constexpr int at_once = 4 / own;  // rows whose sums are added up
    repeat<(rows + at_once - 1) / at_once>([&](auto some) __attribute__((always_inline)) {
      constexpr int begin = some * at_once, count = begin + at_once < rows ? at_once : rows - begin;
      Floats parts[4] = {};
      repeat<count * own>(
          [&](auto k) __attribute__((always_inline)) { parts[k] = sums[begin + k / own][4 * v + k % own]; });
      transpose_quads(parts[0], parts[1], parts[2], parts[3]);
      const Floats all = (parts[0] + parts[1]) + (parts[2] + parts[3]);
      repeat<count>([&](auto i) __attribute__((always_inline)) {
        found[begin + i][v] = gather_columns<own, i * own>(all) + bias;
      });
    });
  });
  complete_tile(s, row, stored, found);
}

template <class Weights, int groups>
void multiply_rows_by_quads(const StripOf<Weights>& s) {
  // As many sums as registers hold, of rows that one tile of pointers has.
  constexpr int rows = groups > 4 ? 4 : 6;
  for (ptrdiff_t row = 0; row < s.count; row += rows) {
    multiply_quads<Weights, rows, groups>(s, row, min_of(rows, s.count - row));
  }
}

// Calls body(Index<groups>()) for as many groups as these columns are.
template <int groups = 6, class Body>
PENLIGHT_INLINE void with_groups(ptrdiff_t columns, Body&& body) {
  if constexpr (groups > 1) {
    if (groups_of(columns) < groups) return with_groups<groups - 1>(columns, body);
  }
  body(Index<groups>());
}

template <class Weights>
void lay_out_quads(const StripOf<Weights>& s, const typename Weights::Element* first, ptrdiff_t runs,
                   float* to) {
  with_groups(s.finish.columns, [&](auto groups) __attribute__((always_inline)) {
    lay_out_columns<Weights, groups>(s, first, runs, to);
  });
}

template <class Weights>
void multiply_by_quads(const StripOf<Weights>& s) {
  with_groups(s.finish.columns, [&](auto groups) __attribute__((always_inline)) {
    multiply_rows_by_quads<Weights, groups>(s);
  });
}

#else

template <class Weights>
void lay_out_quads(const StripOf<Weights>&, const typename Weights::Element*, ptrdiff_t, float*) {}
template <class Weights>
void multiply_by_quads(const StripOf<Weights>&) {}

#endif

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
