// Convolution where each channel has its own window, over channels-last images.
//
// A few neighbouring outputs are computed at once, channel vector by channel
// vector, so that a column of the input is loaded once for all windows that share
// it. Windows that reach over an edge are computed one by one, their taps clipped.
#include "depthwise.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// The taps of one row of outputs that lie inside the image, and where they read.
struct Row {
  const float* input;  // of the image
  float* output;       // of the row
  const float* residual;
  ptrdiff_t top;  // row of the input under the first tap; may be negative
  ptrdiff_t first_tap, last_tap;
};

// Stores the sums of `count` columns that begin `offset` elements into the row.
template <int count>
PENLIGHT_INLINE void finish(const Depthwise& p, const Row& row, ptrdiff_t offset, ptrdiff_t left,
                            Floats (&sums)[count]) {
  finish<count>(p.epilogue, row.residual ? row.residual + offset : nullptr, row.output + offset, p.channels,
                left, sums);
}

// One output column, any window; `spread`: each channel of the input has several.
template <bool spread>
void one_column(const Depthwise& p, const Row& row, ptrdiff_t column) {
  const Geometry& g = p.geometry;
  const ptrdiff_t padded = round_up(p.channels, kPanel), pixel = pixel_of(p);
  const ptrdiff_t left = column * g.stride_w - g.pad_w;
  for (ptrdiff_t c = p.first_channel; c < p.last_channel; c += kLanes) {
    const ptrdiff_t some = p.last_channel - c;
    Source source;
    if constexpr (spread) source = source_of(p, c);
    Floats sums[1] = {load(p.packed + c)};
    for (ptrdiff_t th = row.first_tap; th < row.last_tap; ++th) {
      const float* line = row.input + (row.top + th * g.dilation_h) * g.width * pixel;
      for (ptrdiff_t tw = 0; tw < g.taps_w; ++tw) {
        const ptrdiff_t at = left + tw * g.dilation_w;
        if (at < 0 || at >= g.width) continue;
        const float* from = line + at * pixel;
        Floats x;
        if constexpr (spread) {
          x = load_spread(from, source);
        } else {
          x = load_part(from + c, some);
        }
        sums[0] += x * load(p.packed + (1 + th * g.taps_w + tw) * padded + c);
      }
    }
    finish<1>(p, row, column * p.channels + c, some, sums);
  }
}

// kColumns outputs from `column` on, windows within the image's width.
template <int taps, int stride>
void some_columns(const Depthwise& p, const Row& row, ptrdiff_t column) {
  constexpr int inputs = (kColumns - 1) * stride + taps;
  const ptrdiff_t padded = round_up(p.channels, kPanel), pixel = pixel_of(p);
  const ptrdiff_t line_size = p.geometry.width * pixel;
  const float* corner = row.input + (column * stride - p.geometry.pad_w) * pixel + row.top * line_size;
  for (ptrdiff_t c = p.first_channel; c < p.last_channel; c += kLanes) {
    const ptrdiff_t some = p.last_channel - c;
    Floats sums[kColumns];
    const Floats bias = load(p.packed + c);
    repeat<kColumns>([&](auto j) __attribute__((always_inline)) { sums[j] = bias; });
    for (ptrdiff_t th = row.first_tap; th < row.last_tap; ++th) {
      const float* line = corner + th * line_size + c;
      const float* weights = p.packed + (1 + th * taps) * padded + c;
      Floats x[inputs];
      repeat<inputs>([&](auto i)
                         __attribute__((always_inline)) { x[i] = load_part(line + i * pixel, some); });
      repeat<taps>([&](auto tw) __attribute__((always_inline)) {
        const Floats weight = load(weights + tw * padded);
        repeat<kColumns>([&](auto j)
                             __attribute__((always_inline)) { sums[j] += x[j * stride + tw] * weight; });
      });
    }
    finish<kColumns>(p, row, column * p.channels + c, some, sums);
  }
}

Row row_of(const Depthwise& p, ptrdiff_t r) {
  const Geometry& g = p.geometry;
  const ptrdiff_t image = r / g.out_height, oh = r % g.out_height, out_row = g.out_width * p.channels;
  Row row;
  row.input = p.input + image * g.height * g.width * pixel_of(p);
  row.output = p.output + r * out_row;
  row.residual = p.epilogue.residual ? p.epilogue.residual + r * out_row : nullptr;
  row.top = oh * g.stride_h - g.pad_h;
  row.first_tap = row.top >= 0 ? 0 : min_of((-row.top + g.dilation_h - 1) / g.dilation_h, g.taps_h);
  row.last_tap =
      g.height <= row.top
          ? row.first_tap
          : max_of(row.first_tap, min_of((g.height - row.top + g.dilation_h - 1) / g.dilation_h, g.taps_h));
  return row;
}

template <int taps, int stride, bool spread = false>
void rows_of(const Depthwise& p) {
  const Geometry& g = p.geometry;
  // Columns whose windows lie within the image.
  ptrdiff_t inside = g.out_width, outside = g.out_width;
  if (taps > 0) {
    const ptrdiff_t most = g.width - taps + g.pad_w;
    inside = min_of((g.pad_w + g.stride_w - 1) / g.stride_w, g.out_width);
    outside = most < 0 ? inside : max_of(inside, min_of(most / g.stride_w + 1, g.out_width));
  }
  // The last few columns are computed with some before them once more, to the same values.
  const ptrdiff_t groups = kColumns <= outside - inside ? (outside - inside + kColumns - 1) / kColumns : 0;
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const Row row = row_of(p, r);
    if constexpr (taps > 0) {
      for (ptrdiff_t group = 0; group < groups; ++group) {
        some_columns<taps, stride>(p, row, min_of(inside + group * kColumns, outside - kColumns));
      }
    }
    for (ptrdiff_t column = 0; column < inside; ++column) one_column<spread>(p, row, column);
    for (ptrdiff_t column = groups ? outside : inside; column < g.out_width; ++column) {
      one_column<spread>(p, row, column);
    }
  }
}

}  // namespace

void depthwise_in_place(const Depthwise& p) {
  const Geometry& g = p.geometry;
  const bool plain = g.dilation_h == 1 && g.dilation_w == 1;
  if (p.multiplier > 1) return rows_of<0, 0, true>(p);
  if (!plain || !has_code(g.taps_w, g.stride_w)) return rows_of<0, 0>(p);
  const bool is_3 = p.geometry.taps_w == 3, is_1 = p.geometry.stride_w == 1;
  if (is_3) return is_1 ? rows_of<3, 1>(p) : rows_of<3, 2>(p);
  return is_1 ? rows_of<5, 1>(p) : rows_of<5, 2>(p);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
