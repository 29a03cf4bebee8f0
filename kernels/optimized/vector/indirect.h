// Where the input of a product lies, row by row: a pointer for each tap of a window.
#pragma once

#include "routines.h"
#include "simd.h"
#include "strip.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kRows = kTileRows;
constexpr ptrdiff_t kRowBlock = 216;
constexpr ptrdiff_t kPointers = 4096;  // most row pointers of a block

// Places of a window for which a tap that begins at pixel `first` is inside of the image.
PENLIGHT_INLINE bool is_inside(ptrdiff_t first, ptrdiff_t size) { return first >= 0 && first < size; }

// Of one row.
PENLIGHT_INLINE ptrdiff_t runs_of(const Product& p) {
  return p.geometry.taps_h * p.geometry.taps_w * p.part_count;
}

// Where the runs of a block of rows begin.
class Rows {
 public:
  Rows(const Product& product, const float** pointers)
      : product_(product),
        pointers_(pointers),
        positions_(product.geometry.out_height * product.geometry.out_width),
        whole_{product.input, product.pixel},
        parts_(product.parts ? product.parts : &whole_),
        has_halves_(has_wide_tiles(product) && product.outputs % kWideColumns == 0),
        is_halved_(has_halves_ && (product.last_panel - product.first_panel) % kWidePanels == 0) {}
  Rows(const Rows&) = delete;
  Rows& operator=(const Rows&) = delete;

  // Has the rows of a block that read the same taps follow each other, where many of a window's are
  // outside of the image to its left or right: tiles of such rows have nothing to multiply for those.
  void sort_where_padded() {
    const Product& p = product_;
    const Geometry& g = p.geometry;
    if (kFewTiles || g.taps_w == 1 || p.rows <= kRows || g.taps_h > kMostTaps || g.taps_w > kMostTaps) return;
    ptrdiff_t outside = 0;
    for (ptrdiff_t ow = 0; ow < g.out_width; ++ow) outside += g.taps_w - __builtin_popcount(columns_of(ow));
    is_sorted_ = outside * (has_halves_ ? kPaddedHalves : kPadded) > g.out_width * g.taps_w;
  }

  // Fills [tile][tap][row in tile] for `count` rows from `first`. The rows that the last
  // tile has too many are the last once more: what they give is not stored.
  void locate(ptrdiff_t first, ptrdiff_t count) {
    const Product& p = product_;
    const Geometry& g = p.geometry;
    if (is_matrix(g)) {
      for (ptrdiff_t i = 0; i < p.part_count; ++i) {
        const InputPart& part = parts_[i];
        const float** to = pointers_ + i * kRows;
        for (ptrdiff_t r = 0; r < count; r += kRows, to += p.part_count * kRows) {
          const float* const from = part.input + (first + r) * part.pixel;
          for (ptrdiff_t j = 0; j < kRows; ++j) to[j] = from + min_of(j, count - r - 1) * part.pixel;
        }
      }
      return;
    }
    const ptrdiff_t runs = runs_of(p);
    const bool sorted = !kFewTiles && is_sorted_;
    if (sorted) sort(first, count);
    for (ptrdiff_t r = 0, next; r < count; r = next) {
      const ptrdiff_t row = sorted ? order_[r] : r, line = g.out_width - (first + row) % g.out_width;
      const ptrdiff_t last = min_of(r + line, count);  // of those that may follow in one line of the result
      next = sorted ? r + 1 : last;
      while (next < last && order_[next] == order_[next - 1] + 1) ++next;
      locate_columns(first + row, r, next - r);
    }
    for (ptrdiff_t r = count; r % kRows != 0; ++r) {
      for (ptrdiff_t run = 0; run < runs; ++run) *at(r, run) = *at(r - 1, run);
    }
    // Of a single run, tiles may begin at any row (product_of.h): what they find first is no mark.
    if (runs > 1) leave_padding((count + kRows - 1) / kRows * runs);
  }

  // Of each row of a block, in the order in which they are multiplied, which of the result's it is; null: in
  // its order.
  const uint16_t* places() const { return is_sorted_ ? order_ : nullptr; }

 private:
  static constexpr ptrdiff_t kMostTaps = 16;  // in one direction
  // Rows are sorted if more than one in so many taps is outside.
  static constexpr ptrdiff_t kPadded = 5, kPaddedHalves = 12;

  // Of a row of the block, and one of its runs.
  const float** at(ptrdiff_t row, ptrdiff_t run) const {
    return pointers_ + (row / kRows * runs_of(product_) + run) * kRows + row % kRows;
  }

  // Rows [to, to + count) of the block, which are rows of one line of the result, from `row` on.
  void locate_columns(ptrdiff_t row, ptrdiff_t to, ptrdiff_t count) {
    const Product& p = product_;
    const Geometry& g = p.geometry;
    const ptrdiff_t image = row / positions_, rest = row % positions_;
    const ptrdiff_t top = rest / g.out_width * g.stride_h - g.pad_h;
    const ptrdiff_t left = rest % g.out_width * g.stride_w - g.pad_w;
    ptrdiff_t run = 0;
    for (ptrdiff_t th = 0; th < g.taps_h; ++th) {
      const ptrdiff_t ih = top + th * g.dilation_h;
      const ptrdiff_t width = is_inside(ih, g.height) ? g.width : 0;
      for (ptrdiff_t tw = 0; tw < g.taps_w; ++tw) {
        // Those of the rows that read a pixel at this tap are [before, until).
        const ptrdiff_t column = left + tw * g.dilation_w, last = column + (count - 1) * g.stride_w;
        const ptrdiff_t before = column >= 0 ? 0 : min_of((g.stride_w - 1 - column) / g.stride_w, count);
        const ptrdiff_t reached = last < width     ? count
                                  : column < width ? (width - 1 - column) / g.stride_w + 1
                                                   : 0;
        const ptrdiff_t until = max_of(reached, before);
        const ptrdiff_t pixel = (image * g.height + ih) * g.width + column + before * g.stride_w;
        for (ptrdiff_t i = 0; i < p.part_count; ++i, ++run) {
          const InputPart& part = parts_[i];
          point(run, to, before, p.zeros, 0);
          if (until > before) {
            point(run, to + before, until - before, part.input + pixel * part.pixel, g.stride_w * part.pixel);
          }
          point(run, to + until, count - until, p.zeros, 0);
        }
      }
    }
  }

  // Pointers of `count` rows from `row` on, of one run: each `step` elements after the one before.
  void point(ptrdiff_t run, ptrdiff_t row, ptrdiff_t count, const float* from, ptrdiff_t step) {
    for (ptrdiff_t i = 0, some; i < count; i += some) {
      some = min_of(kRows - (row + i) % kRows, count - i);
      const float** const to = at(row + i, run);
      for (ptrdiff_t j = 0; j < some; ++j) to[j] = from + (i + j) * step;
    }
  }

  bool are_zeros(const float* const* first, ptrdiff_t count) const {
    ptrdiff_t i = count - 1;  // the ends first: most runs have a pixel there
    while (i > 0 && first[i] == product_.zeros) --i;
    return i == 0 && first[0] == product_.zeros;
  }

  // Nothing is multiplied where all of a tile's rows have zeros, as most have of windows that are
  // dilated nearly as far as the image reaches: the first pointer of each half of them is null. Where tiles
  // have half the rows, each half is for itself.
  void leave_padding(ptrdiff_t runs) {
    constexpr ptrdiff_t kHalf = kRows / 2;
    for (ptrdiff_t run = 0; run < runs; ++run) {
      const float** const first = pointers_ + run * kRows;
      bool upper = are_zeros(first, kHalf), lower = are_zeros(first + kHalf, kRows - kHalf);
      if (!is_halved_) upper = lower = upper && lower;
      if (upper) first[0] = nullptr;
      if (lower) first[kHalf] = nullptr;
    }
  }

  // A bit for each tap, from `first` on, that is inside of the image.
  static unsigned taps_inside(ptrdiff_t first, ptrdiff_t dilation, ptrdiff_t taps, ptrdiff_t size) {
    unsigned inside = 0;
    for (ptrdiff_t t = 0; t < taps; ++t) {
      inside |= static_cast<unsigned>(is_inside(first + t * dilation, size)) << t;
    }
    return inside;
  }
  unsigned columns_of(ptrdiff_t ow) const {
    const Geometry& g = product_.geometry;
    return taps_inside(ow * g.stride_w - g.pad_w, g.dilation_w, g.taps_w, g.width);
  }
  unsigned lines_of(ptrdiff_t oh) const {
    const Geometry& g = product_.geometry;
    return taps_inside(oh * g.stride_h - g.pad_h, g.dilation_h, g.taps_h, g.height);
  }

  // How many taps two kinds of rows read, those that both read once.
  static int taps_of_both(unsigned a, unsigned b) {
    const auto count = [](unsigned taps) {
      return __builtin_popcount(taps >> kMostTaps) * __builtin_popcount(taps & ((1u << kMostTaps) - 1));
    };
    return count(a) + count(b) - count(a & b);
  }

  // Rows that read the same taps, and after each kind the one that reads the fewest others, as rows along an
  // edge of the image do that follow its corner.
  void sort(ptrdiff_t first, ptrdiff_t count) {
    unsigned taps[kRowBlock];
    bool is_placed[kRowBlock] = {};
    for (ptrdiff_t r = 0; r < count; ++r) {
      const ptrdiff_t rest = (first + r) % positions_, width = product_.geometry.out_width;
      taps[r] = lines_of(rest / width) << kMostTaps | columns_of(rest % width);
    }
    ptrdiff_t placed = 0;
    for (ptrdiff_t next = 0; placed < count;) {
      const unsigned kind = taps[next];
      int fewest = INT32_MAX, own = 0;
      for (ptrdiff_t r = 0; r < count; ++r) {
        if (is_placed[r]) continue;
        if (taps[r] == kind) {
          order_[placed++] = static_cast<uint16_t>(r);
          is_placed[r] = true;
          continue;
        }
        const int both = taps_of_both(kind, taps[r]), alone = taps_of_both(taps[r], taps[r]);
        if (both > fewest || (both == fewest && alone <= own)) continue;
        fewest = both;
        own = alone;
        next = r;
      }
    }
  }

  const Product& product_;
  const float** pointers_;
  const ptrdiff_t positions_;  // of an image
  const InputPart whole_;
  const InputPart* const parts_;
  const bool has_halves_;  // tiles of half the rows, where no part has some of the panels
  const bool is_halved_;   // into such tiles, all those of this part
  bool is_sorted_ = false;
  uint16_t order_[kRowBlock];  // which row of a block is in the place of each
};

inline ptrdiff_t rows_of_block(const Product& p) {
  const ptrdiff_t most = min_of(kRowBlock, kPointers / runs_of(p) / kRows * kRows);
  return most < kRows ? kRows : most;
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
