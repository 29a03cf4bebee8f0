// Matrix products over packed weights: linear layers and convolutions alike.
//
// One register tile is a few rows by one or two panels. Weights are read in the
// order in which they were packed, the input where it lies: a row of the tile is a
// pointer for each tap (Dukhan, "The indirect convolution algorithm", 2019), so a
// convolution builds no matrix of patches.
//
// Rows, taps and channels are walked in blocks, so that a block of a panel stays in
// a near cache while a block of rows, in the second, passes over it, and the block
// after it is fetched. Sums run over k in the same order for every split of rows and
// panels between threads. Weights of 16 bits are made float32 where they are loaded.
#pragma once

#include "adjacent_rows.h"
#include "epilogue.h"
#include "few_outputs.h"
#include "folded.h"
#include "indirect.h"
#include "line_product.h"
#include "narrow_groups.h"
#include "spread_rows.h"
#include "strip.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kVectors = kTileVectors;
// k of one block. Its weights stay in the first cache, 24 KB; with AVX-512 in the second, 96 KB,
// which gives the two lines of a step in less than the time of its 24 products.
constexpr ptrdiff_t kDepth = kLanes == 16 ? 768 : 384;
// What few rows, or few columns, are left for.
constexpr int kHalfVectors = kVectors / 2;
// Strips that one row is multiplied with at once: memory gives more to several streams, most to
// those of four panels.
#ifdef PENLIGHT_FEW_TILES
constexpr int kWide = 0;  // of a binary that is to be small: each tile is code of its own
#else
constexpr int kWide = 4 / kStripPanels;
#endif
// Elements of a block of rows that stay in the second cache: their sums are made strip by
// strip. Larger ones are read a part of k at a time, and their sums wait in the output.
constexpr ptrdiff_t kResident = 1 << 18;

// A sum waits for the one before it: a small tile has several for each element.
constexpr int sums_of_tile(int rows, int vectors) {
  return rows * vectors >= 8 ? 1 : rows * vectors >= 4 ? 2 : 4;
}

// Rows [row, row + stored) of a strip; a tile may have more rows than are stored.
template <class Weights, int rows, int vectors>
PENLIGHT_INLINE void multiply(const StripOf<Weights>& s, ptrdiff_t row, ptrdiff_t stored) {
  constexpr int kSums = sums_of_tile(rows, vectors);
  Floats sums[kSums][rows][vectors];
  using Element = typename Weights::Element;
  const auto weight = [&](const Element* base, int v) { return base + place_of_vector(v, s.weights_panel); };
  constexpr bool wide = kHasWideTiles && rows > 1 && vectors == kWideVectors;
  const float* const* const pointers = s.rows + row / kRows * s.tile_step + row % kRows;
  repeat<kSums>([&](auto k) __attribute__((always_inline)) {
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      repeat<vectors>([&](auto v) __attribute__((always_inline)) { sums[k][i][v] = Floats{}; });
    });
  });
  if (s.start) {
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      const Floats bias = Weights::load(weight(s.start, v));
      repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[0][i][v] = bias; });
    });
  }
  if constexpr (rows == kRows || rows == kWideRows) fetch_residual<Weights, rows, vectors>(s, row);
  constexpr int high = wide ? kWideRows : kRows;
  const char* ahead = s.ahead.of_tile((row + high - 1) / high, wide ? kWidePanels : kStripPanels);
  for (ptrdiff_t t = 0; t < s.taps; ++t) {
    if (!pointers[t * kRows]) {
      ahead += s.channels * s.ahead.step;
      continue;
    }
    const float* a[rows];
    repeat<rows>([&](auto i)
                     __attribute__((always_inline)) { a[i] = pointers[t * kRows + i] + s.first_channel; });
    const Element* b = s.weights + t * s.weights_tap;
    ptrdiff_t c = 0;
    const auto step = [&](auto to, auto k) __attribute__((always_inline)) {
      Floats columns[vectors];
      repeat<vectors>([&](auto v) __attribute__((always_inline)) {
        columns[v] = Weights::load(weight(b + k * kPanel, v));
      });
      repeat<rows>([&](auto i) __attribute__((always_inline)) {
        const Floats value = splat(a[i][c + k]);
        repeat<vectors>(
            [&](auto v) __attribute__((always_inline)) { multiply_add(sums[to][i][v], value, columns[v]); });
      });
    };
    const auto add = [&](auto to) __attribute__((always_inline)) {
      __builtin_prefetch(ahead, 0, 2);
      ahead += s.ahead.step;
      step(to, Index<0>());
      b += kPanel;
      ++c;
    };
    if constexpr (wide || (kUnrollsSteps && rows > 1)) {
      // So many fetches for the steps: as many as they have lines.
      const auto add_steps = [&](auto lines) __attribute__((always_inline)) {
        for (; c + kStepsAtOnce <= s.channels; c += kStepsAtOnce, b += kStepsAtOnce * kPanel) {
          repeat<lines>([&](auto k) __attribute__((always_inline)) {
            __builtin_prefetch(ahead + k * (kStepsAtOnce / lines) * s.ahead.step, 0, 2);
          });
          ahead += kStepsAtOnce * s.ahead.step;
          repeat<kStepsAtOnce>([&](auto k) __attribute__((always_inline)) { step(Index<k % kSums>(), k); });
        }
      };
      constexpr ptrdiff_t kLineSize = kLine * sizeof(float);
      if constexpr (wide) {
        add_steps(Index<kStepsAtOnce / 2>());
      } else if (kStepsAtOnce * s.ahead.step <= kLineSize) {
        add_steps(Index<1>());
      } else {
        add_steps(Index<kStepsAtOnce>());
      }
    }
    while (kSums > 1 && c + kSums <= s.channels) repeat<kSums>(add);
    while (c < s.channels) add(Index<0>());
  }
  repeat<kSums - 1>([&](auto k) __attribute__((always_inline)) {
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      repeat<vectors>([&](auto v) __attribute__((always_inline)) { sums[0][i][v] += sums[k + 1][i][v]; });
    });
  });
  complete_tile(s, row, stored, sums[0]);
}

#ifndef PENLIGHT_FEW_TILES
// The last rows, by the lowest of some tiles that has them all, and sums as the highest if need be.
template <class Weights, int vectors, int highest, int rows, int... higher>
void multiply_rest(const StripOf<Weights>& s, ptrdiff_t row) {
  if constexpr (sizeof...(higher) > 0) {
    const bool sums_alike = sums_of_tile(rows, vectors) == sums_of_tile(highest, vectors);
    if (s.count - row > rows || (s.alike && !sums_alike)) {
      return multiply_rest<Weights, vectors, highest, higher...>(s, row);
    }
  }
  multiply<Weights, rows, vectors>(s, row, s.count - row);
}

// Multiplies rows by tiles of this height, as far as they go; gives the row at which a rest for lower tiles
// begins. `lowest` is the height of the lowest tile that such a rest may have.
template <class Weights, int rows, int lowest, int vectors, bool asks>
PENLIGHT_INLINE ptrdiff_t multiply_high(const StripOf<Weights>& s) {
  const auto add = [&](auto height, ptrdiff_t row, ptrdiff_t stored) __attribute__((always_inline)) {
    if constexpr (asks) fetch_asked<height, vectors>(s, row);
    multiply<Weights, height, vectors>(s, row, stored);
  };
  ptrdiff_t row = 0, whole = s.count / rows * rows;
  constexpr int third = rows / 3;
  if constexpr (sums_of_tile(rows, vectors) == sums_of_tile(third, vectors)) {
    // Two tiles of two thirds of the height, rather than a high one and one of a third, in which sums wait
    // for those before, and which fetches as much in a third of the time. Where pointers of rows follow each
    // other; and not a single row, if that has other sums.
    const ptrdiff_t rest = s.count - whole;
    const bool sums_alike = rest > 1 || lowest > 1 || s.alike;
    if (whole > 0 && rest > 0 && rest <= third && sums_alike && s.taps == 1 && s.tile_step == kRows) {
      whole -= rows;
    }
  }
  for (; row < whole; row += rows) add(Index<rows>(), row, rows);
  if (s.count - row <= rows) return row;
  for (; row < s.count; row += 2 * third) add(Index<2 * third>(), row, min_of(2 * third, s.count - row));
  return s.count;
}
#endif

template <int vectors, class Weights>
void multiply_rows(const StripOf<Weights>& s) {
#ifdef PENLIGHT_FEW_TILES
  if (s.single) return multiply<Weights, 1, vectors>(s, 0, 1);
  for (ptrdiff_t row = 0; row < s.count; row += kRows) {
    multiply<Weights, kRows, vectors>(s, row, min_of(kRows, s.count - row));
  }
#else
  const ptrdiff_t row = multiply_high<Weights, kRows, 1, vectors, false>(s);
  if (row < s.count) {
    multiply_rest<Weights, vectors, kRows, 1, kRows / 3, kRows / 2, kRows * 2 / 3, kRows>(s, row);
  }
#endif
}

#ifndef PENLIGHT_FEW_TILES
// Those that ask for nothing have code of their own.
template <class Weights, bool asks>
void multiply_wide(const StripOf<Weights>& s) {
  if constexpr (kHasWideTiles) {
    const ptrdiff_t row = multiply_high<Weights, kWideRows, kWideRows / 3, kWideVectors, asks>(s);
    if (row < s.count) {
      multiply_rest<Weights, kWideVectors, kWideRows, kWideRows / 3, kWideRows * 2 / 3, kWideRows>(s, row);
    }
  }
}
#endif

// How the k of a product are walked: whole taps when several fit a block, else parts of one.
struct Steps {
  ptrdiff_t taps, channels;
};

Steps steps_of(const Product& p) {
  const ptrdiff_t taps = runs_of(p);  // each part of a tap is one
  // Weights that are read once are read in the order in which they lie.
  if (p.rows <= kRows) return {taps, max_of(p.channels, 1)};
  if (p.channels < kDepth) return {min_of(taps, kDepth / max_of(p.channels, 1)), max_of(p.channels, 1)};
  const ptrdiff_t parts = (p.channels + kDepth - 1) / kDepth;
  return {1, round_up((p.channels + parts - 1) / parts, kMostFold)};
}

// Most elements of a copy of a block of rows: of all of k where they stay in the second cache, else of a
// step.
inline ptrdiff_t spread_size(const Product& p) {
  const ptrdiff_t rows = min_of(rows_of_block(p), round_up(p.rows, kRows));
  const ptrdiff_t taps = runs_of(p);
  const Steps steps = steps_of(p);
  return min_of(
      rows * spread_pitch(taps, p.channels),
      max_of(kResident + rows * (taps + 1) * kLine, rows * spread_pitch(steps.taps, steps.channels)));
}

// Where the walk is: which part of k, and which columns.
struct Place {
  ptrdiff_t step, column;
};

// Every row and column of it. Of one row, it may be as wide as several tiles.
template <class Weights>
void multiply_columns(const StripOf<Weights>& s) {
#ifndef PENLIGHT_FEW_TILES
  if (s.single && s.finish.columns > kStripColumns) return multiply<Weights, 1, kWide * kVectors>(s, 0, 1);
  if (s.finish.columns > kStripColumns) {
    return s.asked ? multiply_wide<Weights, true>(s) : multiply_wide<Weights, false>(s);
  }
  if (s.folded) return multiply_folded(s);
#endif
  if (s.finish.columns > kHalfVectors * kLanes) {
    multiply_rows<kVectors>(s);
  } else {
    multiply_rows<kHalfVectors>(s);
  }
}

#ifndef PENLIGHT_FEW_TILES
// One row of a matrix needs no pointers, and weights that are read once no blocks: preparing those takes
// longer than a small product.
inline bool is_row(const Product& p) {
  return p.rows == 1 && is_matrix(p.geometry) && !p.parts && p.last_group == 1;
}

template <class Weights>
void multiply_row(const Product& p) {
  using Element = typename Weights::Element;
  constexpr ptrdiff_t kWideStrip = kWide * kStripColumns;
  const ptrdiff_t panel_size = (1 + p.channels) * kPanel;
  const ptrdiff_t last = min_of(p.last_panel * kPanel, p.outputs);
  const auto start_of = [&](ptrdiff_t column) {
    return static_cast<const Element*>(p.packed) + column / kPanel * panel_size + column % kPanel;
  };
  const float* const input = p.input + p.first_row * p.pixel;
  StripOf<Weights> strip;
  strip.rows = &input;
  strip.tile_step = 0;
  strip.count = strip.taps = 1;
  strip.first_channel = 0;
  strip.channels = p.channels;
  strip.weights_tap = 0;
  strip.weights_panel = panel_size;
  strip.last = strip.single = true;
  strip.finish.pitch = p.output_pitch;
  strip.finish.epilogue = p.epilogue;
  for (ptrdiff_t column = p.first_panel * kPanel, next; column < last; column = next) {
    next = column + (kWide && last - column >= kWideStrip ? kWideStrip : kStripColumns);
    strip.start = start_of(column);
    strip.weights = strip.start + kPanel;
    strip.ahead = {reinterpret_cast<const char*>(start_of(next) + kPanel), 0, 0, 0};
    strip.finish.columns = min_of(next, last) - column;
    const ptrdiff_t offset = p.first_row * p.output_pitch + column;
    strip.finish.output = p.output + offset;
    strip.finish.epilogue.residual = p.epilogue.residual ? p.epilogue.residual + offset : nullptr;
    multiply_columns(strip);
  }
}
#endif

template <class Weights>
void multiply_all(const Product& p) {
#ifndef PENLIGHT_FEW_TILES
  if (is_row(p)) return multiply_row<Weights>(p);
  if (is_line_product(p)) return multiply_line_product(p);
  if (has_few_outputs(p)) return multiply_few<Weights>(p);
  if (has_narrow_groups(p)) return multiply_narrow_groups<Weights>(p);
  if constexpr (kHasAdjacentRows<Weights>) {
    if (has_adjacent_rows(p)) return multiply_adjacent_rows<Weights>(p);
  }
#endif
  using Element = typename Weights::Element;
  const ptrdiff_t taps = runs_of(p);
  const ptrdiff_t panel_size = (1 + taps * p.channels) * kPanel;
  const ptrdiff_t most = rows_of_block(p);
  const float** pointers = static_cast<const float**>(p.scratch);
  float* const copies = reinterpret_cast<float*>(pointers + round_up(most * taps, kLine));
  float* const spread = are_crowded(p) ? copies : nullptr;
  const ptrdiff_t folded_columns = folded_columns_of(p);
  float* const folded = copies + (spread ? round_up(spread_size(p), kLine) : 0);
  const Element* laid_out = nullptr;  // weights of a group that are there
  Rows rows(p, pointers);
  rows.sort_where_padded();

  // Blocks of rows of about one size.
  const ptrdiff_t total = p.last_row - p.first_row;
  const ptrdiff_t blocks = (total + most - 1) / most;
  const ptrdiff_t block = blocks ? round_up((total + blocks - 1) / blocks, kRows) : kRows;
  const Steps steps = steps_of(p);
  const ptrdiff_t last_column = min_of(p.last_panel * kPanel, p.outputs);

  StripOf<Weights> strip{};
  strip.tile_step = kRows * taps;
  strip.single = p.rows == 1;
  strip.places = rows.places();
  // Rows that were sorted are others in each part. Which columns have a wide tile depends on where a part
  // begins, and its last rows have the sums of those before.
  strip.alike = strip.places || has_wide_tiles(p);
  strip.weights_tap = p.channels * kPanel;
  strip.weights_panel = panel_size;
  strip.finish = {nullptr, p.output_pitch, 0, p.epilogue};
  const ptrdiff_t channel_steps = max_of((p.channels + steps.channels - 1) / steps.channels, 1);
  const ptrdiff_t all_steps = (taps + steps.taps - 1) / steps.taps * channel_steps;
  const bool by_strips = block * taps * p.channels <= kResident;
  // Rows that lie one after the other are fetched before the first strip reads them: processors do not see
  // that they do, where it reads those of a tile side by side.
  const bool rows_follow =
      by_strips && all_steps == 1 && !spread && !p.parts && p.pixel == p.channels && is_matrix(p.geometry);
  const bool wide_tiles = has_wide_tiles(p);
  const auto after = [&](ptrdiff_t column) {
    const ptrdiff_t wide = p.rows == 1 ? kWide * kStripColumns : wide_tiles ? kWideColumns : 0;
    return column + (wide && last_column - column >= wide ? wide : kStripColumns);
  };
  const auto following = [&](Place at) -> Place {
    const ptrdiff_t column = after(at.column);
    if (by_strips) return at.step + 1 < all_steps ? Place{at.step + 1, at.column} : Place{0, column};
    return column < last_column ? Place{at.step, column} : Place{at.step + 1, p.first_panel * kPanel};
  };
  const auto is_last = [&](Place at) { return at.step == all_steps || at.column >= last_column; };

  const ptrdiff_t group_size = round_up(p.outputs, kPanel) / kPanel * panel_size;
  const Element* const weights = static_cast<const Element*>(p.packed);
  const auto multiply_block = [&](ptrdiff_t row, ptrdiff_t group, const Element* following_block) {
    const Element* packed = weights + group * group_size;
    const auto start_of = [&](Place at) {
      return packed + at.column / kPanel * panel_size + at.column % kPanel;
    };
    const auto weights_of = [&](Place at) {
      const ptrdiff_t taps_before = at.step / channel_steps * steps.taps;
      return start_of(at) +
             (1 + taps_before * p.channels + at.step % channel_steps * steps.channels) * kPanel;
    };
    for (Place at{0, p.first_panel * kPanel}, next; !is_last(at); at = next) {
      next = following(at);
      const ptrdiff_t tap = at.step / channel_steps * steps.taps;
      const ptrdiff_t channel = at.step % channel_steps * steps.channels;
      strip.rows = pointers + tap * kRows;
      strip.taps = min_of(steps.taps, taps - tap);
      strip.first_channel = group * p.channels + channel;
      strip.channels = min_of(steps.channels, p.channels - channel);
      if (spread && !by_strips && at.column == p.first_panel * kPanel) {
        rows.locate(row, strip.count);
        spread_rows(pointers, strip.count, taps, {tap, strip.taps, channel, strip.channels}, spread);
      }
      strip.last = at.step + 1 == all_steps;
      strip.weights = weights_of(at);
      strip.finish.columns = min_of(after(at.column), last_column) - at.column;
      const bool is_wide = wide_tiles && strip.finish.columns > kStripColumns;
      const ptrdiff_t tile_rows = is_wide ? kWideRows : kRows,
                      tile_panels = is_wide ? kWidePanels : kStripPanels;
      // Having closer what is read next, while a block is multiplied, hides how far away it is. What
      // one tile reads once, one panel after the other, the machine fetches ahead itself.
      const Element* const following_weights = is_last(next) ? following_block : weights_of(next);
      if (strip.count <= kRows) {
        strip.ahead = {reinterpret_cast<const char*>(following_weights), 0, 0, 0};
      } else if (rows_follow && at.column == p.first_panel * kPanel) {
        strip.ahead = rows_ahead(p.input + (row + kRows) * p.pixel, p.channels, tile_rows, tile_panels);
      } else {
        strip.ahead =
            weights_ahead(following_weights, panel_size, turns_of(strip.count, tile_rows, tile_panels),
                          strip.taps * strip.channels);
      }
      strip.start = at.step == 0 ? start_of(at) : nullptr;
      strip.folded = nullptr;
      if (folded_columns && at.column + folded_columns == p.outputs) {
        if (laid_out != packed) lay_out_folded(strip, start_of(at) + kPanel, taps, folded);
        laid_out = packed;
        strip.folded =
            folded + tap * folded_size(folded_columns, p.channels) + folded_size(folded_columns, channel);
        strip.next_row = rows_follow && at.column == p.first_panel * kPanel ? p.channels : 0;
      }
      if constexpr (!kFewTiles) {
        strip.asked =
            p.asked && strip.last && !strip.places ? p.asked + row * p.asked_pitch + at.column : nullptr;
        strip.asked_pitch = p.asked_pitch;
      }
      const ptrdiff_t offset = row * p.output_pitch + group * p.outputs + at.column;
      strip.finish.output = p.output + offset;
      strip.finish.epilogue.residual = p.epilogue.residual ? p.epilogue.residual + offset : nullptr;
      multiply_columns(strip);
    }
  };
  for (ptrdiff_t row = p.first_row; row < p.last_row; row += block) {
    strip.count = min_of(block, p.last_row - row);
    rows.locate(row, strip.count);
    if (spread && by_strips) spread_rows(pointers, strip.count, taps, {0, taps, 0, p.channels}, spread);
    for (ptrdiff_t group = p.first_group; group < p.last_group; ++group) {
      // After the last one of this layer lie, in most files, the weights of the next.
      const ptrdiff_t next = group + 1 < p.last_group   ? group + 1
                             : row + block < p.last_row ? p.first_group
                                                        : p.last_group;
      multiply_block(row, group, weights + next * group_size + kPanel);
    }
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
