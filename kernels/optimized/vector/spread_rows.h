// Rows of a product that would push each other out of the first cache, laid elsewhere.
//
// Where a line of memory goes in the first cache is the rest of its address by 4 KB, and 8 lines, or 12,
// fit each such place. Rows 1024 elements apart, or a multiple, all go to one: a tile of more rows than
// that would fetch each of its lines anew for each element.
#pragma once

#include "strip.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kLine = 64 / sizeof(float), kPlaces = 64, kWays = 8;

// Are rows so far apart in one place, and those of a tile too many for it?
inline bool crowds(ptrdiff_t distance) {
  return kTileRows > kWays && distance > 0 && distance % (kLine * kPlaces) == 0;
}

// Are those of a product, and will they be read often enough to be worth a copy? Wide tiles have few rows.
inline bool are_crowded(const Product& p) {
  return p.has_room && !has_wide_tiles(p) && crowds(p.geometry.stride_w * p.pixel) && p.pixel == p.channels &&
         !p.parts && p.rows > kTileRows && p.outputs >= 4 * kStripColumns;
}

// Of rows of so many runs, each of whole lines: an odd number of lines, so that those that follow each other
// go to different places.
inline ptrdiff_t spread_pitch(ptrdiff_t runs, ptrdiff_t length) {
  return (runs * (round_up(length, kLine) / kLine) | 1) * kLine;
}

// A part of the k of a product: so many taps, of each so many channels.
struct Part {
  ptrdiff_t tap, taps, channel, channels;
};

// Copies a part of some rows, of `taps` taps in all, and has their pointers, with those that fill the last
// tile, lead there; but not where a tile has nothing but padding.
inline void spread_rows(const float** pointers, ptrdiff_t rows, ptrdiff_t taps, const Part& part, float* to) {
  const ptrdiff_t pitch = spread_pitch(part.taps, part.channels), run = round_up(part.channels, kLine);
  for (ptrdiff_t t = 0; t < part.taps; ++t) {
    for (ptrdiff_t r = 0; r < round_up(rows, kTileRows); ++r) {
      const float** const tile = pointers + (r / kTileRows * taps + part.tap + t) * kTileRows;
      const ptrdiff_t i = r % kTileRows;
      if (!tile[0]) continue;
      if (r >= rows) {
        tile[i] = tile[i - 1];
        continue;
      }
      float* const row = to + r * pitch + t * run;
      __builtin_memcpy(row, tile[i] + part.channel, static_cast<size_t>(part.channels) * sizeof(float));
      tile[i] = row - part.channel;
    }
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
