// What the tiles of a strip of a product fetch while they multiply.
#pragma once

#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

constexpr ptrdiff_t kStripColumns = kTileVectors * kLanes;
constexpr ptrdiff_t kStripPanels = kStripColumns > kPanel ? kStripColumns / kPanel : 1;

// What is read after a strip, to have it closer: some bytes at each step of a sum. Tiles take parts of it in
// turns of as many as they have panels.
struct Ahead {
  const char* first;
  ptrdiff_t part;  // bytes from what one tile of a turn fetches to what the next one does
  ptrdiff_t turn;  // from turn to turn
  ptrdiff_t step;  // at each step of the sum

  __attribute__((always_inline)) const char* of_tile(ptrdiff_t tile, ptrdiff_t panels) const {
    return first + tile % panels * part + tile / panels * turn;
  }
};

// Weights of the next strip, of which the tiles of so many turns fetch all.
template <class Element>
PENLIGHT_INLINE Ahead weights_ahead(const Element* weights, ptrdiff_t panel, ptrdiff_t turns,
                                    ptrdiff_t steps) {
  constexpr ptrdiff_t kSize = sizeof(Element);
  const ptrdiff_t step = (kPanel * kSize + turns - 1) / turns;
  return {reinterpret_cast<const char*>(weights), panel * kSize, steps * step, step};
}

// Rows that lie one after the other, from the second tile on: the tile before each fetches it.
PENLIGHT_INLINE Ahead rows_ahead(const float* rows, ptrdiff_t channels, ptrdiff_t tile_rows,
                                 ptrdiff_t tile_panels) {
  const ptrdiff_t step = tile_rows * static_cast<ptrdiff_t>(sizeof(float));
  return {reinterpret_cast<const char*>(rows), channels * step, tile_panels * channels * step, step};
}

// Turns that a strip of so many rows has: one tile fetches the first panel alone.
PENLIGHT_INLINE ptrdiff_t turns_of(ptrdiff_t rows, ptrdiff_t tile_rows, ptrdiff_t tile_panels) {
  return max_of((rows + tile_rows - 1) / tile_rows / tile_panels, 1);
}

// Asks for the lines of some rows and columns that are written next: what another processor has read is slow
// to write, and few lines are on their way at once.
template <int rows, int columns>
PENLIGHT_INLINE void fetch_rows(const float* line, ptrdiff_t pitch) {
  repeat<rows>([&](auto) __attribute__((always_inline)) {
    repeat<(columns + kPanel - 1) / kPanel>(
        [&](auto v) __attribute__((always_inline)) { __builtin_prefetch(line + v * kPanel, 1, 3); });
    line += pitch;
  });
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
