// The piece of a matrix product that product.cpp computes at once.
#pragma once

#include "ahead.h"
#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

constexpr ptrdiff_t kWideColumns = kWideVectors * kLanes;
static_assert(!kHasWideTiles || kWideColumns == kWidePanels * kPanel);

// Elements from the first to another vector of a tile's columns, in panels so far apart: some are narrower
// than a tile.
PENLIGHT_INLINE ptrdiff_t place_of_vector(int v, ptrdiff_t panel) {
  constexpr int per_panel = kPanel / kLanes;
  return v / per_panel * panel + v % per_panel * kLanes;
}

PENLIGHT_INLINE bool has_wide_tiles(const Product& p) {
  return kHasWideTiles && p.wide_tiles && p.rows > kTileRows;
}

// Steps of the sum, and weights, at most: those of more are read from afar, and fetched ahead elsewhere.
constexpr ptrdiff_t kMostAdjacentSteps = 256, kMostAdjacentWeights = kLanes == 16 ? 10 << 10 : 26 << 10;
// Is it a product for adjacent_rows.h? Of vectors with sixteen lanes, for the cores that prefer wide tiles.
PENLIGHT_INLINE bool has_adjacent_rows(const Product& p) {
  const bool is_meant = kLanes == 16 ? has_wide_tiles(p) : p.rows > kTileRows;
  return is_meant && p.has_room && is_matrix(p.geometry) && !p.parts && p.channels > 0 &&
         p.channels <= kMostAdjacentSteps && p.channels * p.outputs <= kMostAdjacentWeights;
}

// A block of rows, by the columns of one tile, for one block of k.
template <class Weights>
struct StripOf {
  using Element = typename Weights::Element;
  const float* const* rows;  // [tile][tap][row in tile], of the first tap of the block
  ptrdiff_t tile_step;       // pointers from tile to tile
  ptrdiff_t count;           // rows
  ptrdiff_t taps;
  ptrdiff_t first_channel, channels;
  const Element* weights;   // of the first tap and channel of the block
  ptrdiff_t weights_tap;    // elements from tap to tap
  ptrdiff_t weights_panel;  // elements from panel to panel, where a tile spans two
  const Element* start;     // biases, or null: the sums so far lie in the output
  Ahead ahead;
  bool last;            // the sums are complete
  bool single = false;  // of a product of one row
  // Where rows begin depends on what several threads are given: the last ones are summed as those before.
  bool alike = false;
  const uint16_t* places = nullptr;  // of rows of the output; null: in their order
  // Of a strip of few columns: its weights once more, as folded.h has them; else null.
  const float* folded = nullptr;
  ptrdiff_t next_row = 0;        // elements from row to row, where they are fetched ahead
  const float* asked = nullptr;  // as of Product, of the first row and column
  ptrdiff_t asked_pitch = 0;
  Finish finish;
};
using Strip = StripOf<Singles>;

// The sums of `stored` rows from `row` on, as complete_tile() has them, of rows that do not follow each other
// in the output.
template <class Weights, int vectors>
__attribute__((noinline)) void complete_rows(const StripOf<Weights>& s, ptrdiff_t row, ptrdiff_t stored,
                                             const Floats* sums) {
  for (ptrdiff_t i = 0; i < stored; ++i, sums += vectors) {
    Finish f = s.finish;
    const ptrdiff_t offset = s.places[row + i] * f.pitch;
    f.output += offset;
    if (f.epilogue.residual) f.epilogue.residual += offset;
    Floats own[1][vectors];
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      own[0][v] = s.start ? sums[v] : sums[v] + load_part(f.output + v * kLanes, f.columns - v * kLanes);
    });
    if (s.last) {
      finish_tile(f, 0, 1, own);
    } else {
      store_tile(f, 0, 1, own);
    }
  }
}

// What is done with the sums of rows [row, row + stored).
template <class Weights, int rows, int vectors>
PENLIGHT_INLINE void complete_tile(const StripOf<Weights>& s, ptrdiff_t row, ptrdiff_t stored,
                                   Floats (&sums)[rows][vectors]) {
  const Finish& f = s.finish;
  if (!kFewTiles && s.places) {
    Floats values[rows * vectors];  // not the sums: an address of theirs would keep them in memory always
    repeat<rows * vectors>(
        [&](auto k) __attribute__((always_inline)) { values[k] = sums[k / vectors][k % vectors]; });
    return complete_rows<Weights, vectors>(s, row, stored, values);
  }
  if (!s.start) {  // added last: of many small sums less is lost than of one long one
    const float* before = f.output + row * f.pitch;
    each_stored<rows, vectors>(stored, [&](auto i, auto v) __attribute__((always_inline)) {
      sums[i][v] += load_part(before + i * f.pitch + v * kLanes, f.columns - v * kLanes);
    });
  }
  if (s.last) {
    finish_tile(f, row, stored, sums);
  } else {
    store_tile(f, row, stored, sums);
  }
}

// Has the residual closer that the tile after the next one adds, while there is time to fetch it: sums are
// finished all at once.
template <class Weights, int rows, int vectors>
PENLIGHT_INLINE void fetch_residual(const StripOf<Weights>& s, ptrdiff_t row) {
  const Finish& f = s.finish;
  if (kFewTiles || !f.epilogue.residual || !s.last || s.places || row + 3 * rows > s.count) return;
  const float* const residual = f.epilogue.residual + (row + 2 * rows) * f.pitch;
  repeat<rows>([&](auto i) __attribute__((always_inline)) {
    repeat<(vectors * kLanes + kPanel - 1) / kPanel>([&](auto line) __attribute__((always_inline)) {
      __builtin_prefetch(residual + i * f.pitch + line * kPanel, 0, 2);
    });
  });
}

// Of what is asked for, that beside the tile after the next one.
template <int rows, int vectors, class Weights>
PENLIGHT_INLINE void fetch_asked(const StripOf<Weights>& s, ptrdiff_t row) {
  if (row + 3 * rows > s.count) return;
  fetch_rows<rows, vectors * kLanes>(s.asked + (row + 2 * rows) * s.asked_pitch, s.asked_pitch);
}

// Calls body(Index<n>()) with a height that has so many rows: a tile's, two thirds or a third of it.
template <int rows, class Body>
PENLIGHT_INLINE void with_height(ptrdiff_t count, Body&& body) {
  if (count > rows * 2 / 3) return body(Index<rows>());
  if (count > rows / 3) return body(Index<rows * 2 / 3>());
  body(Index<rows / 3>());
}

// Every row and column of it. Of one row, it may be as wide as several tiles.
void multiply_strip(const Strip& strip);

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
