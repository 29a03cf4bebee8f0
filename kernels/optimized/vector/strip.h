// The piece of a matrix product that product.cpp computes at once.
#pragma once

#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

constexpr ptrdiff_t kStripColumns = kTileVectors * kLanes;
constexpr ptrdiff_t kStripPanels = kStripColumns > kPanel ? kStripColumns / kPanel : 1;

// How weights lie in memory, and how a vector of them is read.
struct Singles {
  using Element = float;
  PENLIGHT_INLINE Floats load(const float* from) { return PENLIGHT_ISA::load(from); }
};

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
  const Element* ahead;     // weights that are read after these
  ptrdiff_t ahead_panel;    // elements from panel to panel of them
  ptrdiff_t ahead_step;     // bytes of them to have closer at each step of the sum
  bool last;                // the sums are complete
  bool single = false;      // of a product of one row
  Finish finish;
};
using Strip = StripOf<Singles>;

// Bytes of `ahead` to fetch at each step, so that the tiles of so many rows fetch as much as they
// read. One tile fetches the first panel alone.
template <class Element = float>
PENLIGHT_INLINE ptrdiff_t ahead_step(ptrdiff_t rows) {
  constexpr ptrdiff_t kBytes = kPanel * sizeof(Element);
  const ptrdiff_t tiles = max_of((rows + kTileRows - 1) / kTileRows / kStripPanels, 1);
  return (kBytes + tiles - 1) / tiles;
}

// What is done with the sums of rows [row, row + stored).
template <class Weights, int rows, int vectors>
PENLIGHT_INLINE void complete_tile(const StripOf<Weights>& s, ptrdiff_t row, ptrdiff_t stored,
                                   Floats (&sums)[rows][vectors]) {
  const Finish& f = s.finish;
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

// Every row and column of it. Of one row, it may be as wide as several tiles.
void multiply_strip(const Strip& strip);

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
