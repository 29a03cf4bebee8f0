// Convolution where each channel has its own window, over channels-last images.
//
// A few neighbouring outputs are computed at once, channel vector by channel
// vector, so that a column of the input is loaded once for all windows that share
// it. Windows that reach over an edge are computed one by one, their taps clipped.
#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kColumns = 4;

PENLIGHT_INLINE ptrdiff_t min_of(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
PENLIGHT_INLINE ptrdiff_t max_of(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }

// The taps of one row of outputs that lie inside the image, and where they read.
struct Row {
  const float* input;  // of the image
  float* output;       // of the row
  const float* residual;
  ptrdiff_t top;  // row of the input under the first tap; may be negative
  ptrdiff_t first_tap, last_tap;
};

template <Activation activation>
PENLIGHT_INLINE void finish(const Depthwise& p, const Row& row, ptrdiff_t offset, ptrdiff_t left, Floats sum,
                            const Bounds& bounds) {
  if (row.residual) {
    sum += left >= kLanes ? load(row.residual + offset) : load_some(row.residual + offset, left);
  }
  sum = activated<activation>(sum, bounds);
  if (left >= kLanes) {
    store(row.output + offset, sum);
  } else {
    store_some(row.output + offset, sum, left);
  }
  (void)p;
}

// One output column, any window.
template <Activation activation>
void one_column(const Depthwise& p, const Row& row, ptrdiff_t column, const Bounds& bounds) {
  const ptrdiff_t padded = (p.channels + kPanel - 1) / kPanel * kPanel;
  const ptrdiff_t left = column * p.stride_w - p.pad_w;
  for (ptrdiff_t c = 0; c < p.channels; c += kLanes) {
    const ptrdiff_t some = p.channels - c;
    Floats sum = load(p.packed + c);
    for (ptrdiff_t th = row.first_tap; th < row.last_tap; ++th) {
      const float* line = row.input + (row.top + th * p.dilation_h) * p.width * p.channels + c;
      for (ptrdiff_t tw = 0; tw < p.taps_w; ++tw) {
        const ptrdiff_t at = left + tw * p.dilation_w;
        if (at < 0 || at >= p.width) continue;
        const float* from = line + at * p.channels;
        const Floats value = some >= kLanes ? load(from) : load_some(from, some);
        sum += value * load(p.packed + (1 + th * p.taps_w + tw) * padded + c);
      }
    }
    finish<activation>(p, row, column * p.channels + c, some, sum, bounds);
  }
}

// kColumns outputs from `column`, whose windows lie within the row.
template <Activation activation, int taps, int stride>
void some_columns(const Depthwise& p, const Row& row, ptrdiff_t column, const Bounds& bounds) {
  constexpr int inputs = (kColumns - 1) * stride + taps;
  const ptrdiff_t padded = (p.channels + kPanel - 1) / kPanel * kPanel;
  const float* corner = row.input + (column * stride - p.pad_w) * p.channels;
  for (ptrdiff_t c = 0; c < p.channels; c += kLanes) {
    const ptrdiff_t some = p.channels - c;
    Floats sums[kColumns];
    const Floats bias = load(p.packed + c);
    repeat<kColumns>([&](auto j) __attribute__((always_inline)) { sums[j] = bias; });
    for (ptrdiff_t th = row.first_tap; th < row.last_tap; ++th) {
      const float* line = corner + (row.top + th) * p.width * p.channels + c;
      const float* weights = p.packed + (1 + th * taps) * padded + c;
      Floats x[inputs];
      if (some >= kLanes) {
        repeat<inputs>([&](auto i) __attribute__((always_inline)) { x[i] = load(line + i * p.channels); });
      } else {
        for (int i = 0; i < inputs; ++i) x[i] = load_some(line + i * p.channels, some);
      }
      repeat<taps>([&](auto tw) __attribute__((always_inline)) {
        const Floats weight = load(weights + tw * padded);
        repeat<kColumns>([&](auto j)
                             __attribute__((always_inline)) { sums[j] += x[j * stride + tw] * weight; });
      });
    }
    repeat<kColumns>([&](auto j) __attribute__((always_inline)) {
      finish<activation>(p, row, (column + j) * p.channels + c, some, sums[j], bounds);
    });
  }
}

template <Activation activation, int taps, int stride>
void rows_of(const Depthwise& p) {
  const Bounds bounds = {splat(p.low), splat(p.high)};
  // Columns whose windows lie within the image.
  ptrdiff_t inside = p.out_width, outside = p.out_width;
  if (taps > 0) {
    const ptrdiff_t most = p.width - taps + p.pad_w;
    inside = min_of((p.pad_w + p.stride_w - 1) / p.stride_w, p.out_width);
    outside = most < 0 ? inside : max_of(inside, min_of(most / p.stride_w + 1, p.out_width));
  }
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const ptrdiff_t image = r / p.out_height, oh = r % p.out_height;
    Row row;
    row.input = p.input + image * p.height * p.width * p.channels;
    row.output = p.output + r * p.out_width * p.channels;
    row.residual = p.residual ? p.residual + r * p.out_width * p.channels : nullptr;
    row.top = oh * p.stride_h - p.pad_h;
    row.first_tap = row.top >= 0 ? 0 : min_of((-row.top + p.dilation_h - 1) / p.dilation_h, p.taps_h);
    row.last_tap =
        p.height <= row.top
            ? row.first_tap
            : max_of(row.first_tap, min_of((p.height - row.top + p.dilation_h - 1) / p.dilation_h, p.taps_h));
    ptrdiff_t column = 0;
    if constexpr (taps > 0) {
      for (; column < inside; ++column) one_column<activation>(p, row, column, bounds);
      for (; column + kColumns <= outside; column += kColumns) {
        some_columns<activation, taps, stride>(p, row, column, bounds);
      }
    }
    for (; column < p.out_width; ++column) one_column<activation>(p, row, column, bounds);
  }
}

template <Activation activation>
void with_window(const Depthwise& p) {
  const bool plain = p.dilation_h == 1 && p.dilation_w == 1;
  if (plain && p.taps_w == 3 && p.stride_w == 1) return rows_of<activation, 3, 1>(p);
  if (plain && p.taps_w == 3 && p.stride_w == 2) return rows_of<activation, 3, 2>(p);
  if (plain && p.taps_w == 5 && p.stride_w == 1) return rows_of<activation, 5, 1>(p);
  if (plain && p.taps_w == 5 && p.stride_w == 2) return rows_of<activation, 5, 2>(p);
  rows_of<activation, 0, 0>(p);
}

}  // namespace

void depthwise(const Depthwise& p) {
  switch (p.activation) {
#define PENLIGHT_ACTIVATION(name)                                                         \
  case Activation::name:                                                                  \
    if constexpr (is_compiled(Activation::name)) return with_window<Activation::name>(p); \
    break;
    PENLIGHT_ACTIVATION(Clamp)
    PENLIGHT_ACTIVATION(Relu)
    PENLIGHT_ACTIVATION(HardSwish)
    PENLIGHT_ACTIVATION(Silu)
    PENLIGHT_ACTIVATION(Gelu)
#undef PENLIGHT_ACTIVATION
    default:
      break;
  }
  with_window<Activation::None>(p);  // the caller fuses no other
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
