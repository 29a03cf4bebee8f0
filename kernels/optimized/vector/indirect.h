// Where the input of a product lies, row by row: a pointer for each tap of a window.
#pragma once

#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kRows = kTileRows;
constexpr ptrdiff_t kRowBlock = 216;
constexpr ptrdiff_t kPointers = 4096;  // most row pointers of a block

// Where the runs of a block of rows begin.
class Rows {
 public:
  Rows(const Product& product, const float** pointers) : product_(product), pointers_(pointers) {}

  // Fills [tile][tap][row in tile] for `count` rows from `first`. The rows that the last
  // tile has too many are the last once more: what they give is not stored.
  void locate(ptrdiff_t first, ptrdiff_t count) {
    const Product& p = product_;
    const Geometry& g = p.geometry;
    if (is_matrix(g)) {
      for (ptrdiff_t r = 0; r < count; ++r) pointers_[r] = p.input + (first + r) * p.pixel;
      for (ptrdiff_t r = count; r % kRows != 0; ++r) pointers_[r] = pointers_[r - 1];
      return;
    }
    const ptrdiff_t positions = g.out_height * g.out_width;
    ptrdiff_t image = first / positions, rest = first % positions;
    ptrdiff_t oh = rest / g.out_width, ow = rest % g.out_width;
    const ptrdiff_t taps = g.taps_h * g.taps_w;
    for (ptrdiff_t r = 0; r < count; ++r) {
      const float** to = pointers_ + (r / kRows) * kRows * taps + r % kRows;
      const float* base = p.input + image * g.height * g.width * p.pixel;
      const ptrdiff_t left = ow * g.stride_w - g.pad_w;
      for (ptrdiff_t th = 0; th < g.taps_h; ++th) {
        const ptrdiff_t ih = oh * g.stride_h - g.pad_h + th * g.dilation_h;
        const float* line = ih >= 0 && ih < g.height ? base + ih * g.width * p.pixel : nullptr;
        for (ptrdiff_t tw = 0; tw < g.taps_w; ++tw) {
          const ptrdiff_t iw = left + tw * g.dilation_w;
          *to = line && iw >= 0 && iw < g.width ? line + iw * p.pixel : p.zeros;
          to += kRows;
        }
      }
      if (++ow == g.out_width) {
        ow = 0;
        if (++oh == g.out_height) {
          oh = 0;
          ++image;
        }
      }
    }
    for (ptrdiff_t r = count; r % kRows != 0; ++r) {
      const float** to = pointers_ + (r / kRows) * kRows * taps + r % kRows;
      for (ptrdiff_t t = 0; t < taps; ++t) to[t * kRows] = to[t * kRows - 1];
    }
    leave_padding((count + kRows - 1) / kRows * taps);
  }

 private:
  // Nothing is multiplied where all of a tile's rows have zeros, as most have of windows that are
  // dilated nearly as far as the image reaches: their first pointer is null.
  void leave_padding(ptrdiff_t runs) {
    for (ptrdiff_t run = 0; run < runs; ++run) {
      const float** const first = pointers_ + run * kRows;
      ptrdiff_t i = kRows - 1;  // the ends first: most runs have a pixel there
      while (i > 0 && first[i] == product_.zeros) --i;
      if (i == 0 && first[0] == product_.zeros) first[0] = nullptr;
    }
  }

  // One tap at every pixel: row after row, from image to image too.
  static bool is_matrix(const Geometry& g) {
    return g.taps_h == 1 && g.taps_w == 1 && g.stride_h == 1 && g.stride_w == 1 && g.pad_h == 0 &&
           g.pad_w == 0 && g.out_height == g.height && g.out_width == g.width;
  }

  const Product& product_;
  const float** pointers_;
};

ptrdiff_t rows_of_block(const Product& p) {
  const ptrdiff_t taps = p.geometry.taps_h * p.geometry.taps_w;
  const ptrdiff_t most = min_of(kRowBlock, kPointers / taps / kRows * kRows);
  return most < kRows ? kRows : most;
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
