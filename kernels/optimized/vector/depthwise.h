// What the ways of computing depthwise windows share: a few neighbouring outputs of one vector
// of channels, in registers, and tiles that hold a few channels of an image.
#pragma once

#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kColumns = 4;
constexpr ptrdiff_t kBlock = kPanel;  // channels of a tile: a line of the cache

// Small builds do without what needs a copy of the code for each window.
#if defined(__OPTIMIZE_SIZE__)
constexpr bool kUnrolled = false;
#else
constexpr bool kUnrolled = true;
#endif

// Of which windows are there copies?
PENLIGHT_INLINE bool has_code(ptrdiff_t taps, ptrdiff_t stride) {
  return (taps == 3 || taps == 5) && (stride == 1 || stride == 2);
}

// A square window for which there is code?
PENLIGHT_INLINE bool is_usual(const Geometry& g) {
  return has_code(g.taps_w, g.stride_w) && g.taps_h == g.taps_w && g.stride_h == g.stride_w &&
         g.dilation_h == 1 && g.dilation_w == 1;
}

// Calls body(Index<columns>()) with as many columns at once as make the fewest of a row, of those the most:
// `columns`, or one of those that are `fewer`.
template <int columns, int... fewer, class Body>
auto with_columns(ptrdiff_t width, const Body& body) {
  if constexpr (sizeof...(fewer) > 0) {
    const ptrdiff_t computed = round_up(width, columns);
    const bool are_fewest = width >= columns && ((computed <= round_up(width, fewer)) && ...);
    if (!are_fewest) return with_columns<fewer...>(width, body);
  }
  return body(Index<columns>());
}

template <int taps>
PENLIGHT_INLINE void load_taps(const float* weights, Floats (&weight)[taps]) {
  repeat<taps>([&](auto t) __attribute__((always_inline)) { weight[t] = load(weights + t * kBlock); });
}

// One line of windows of `taps` neighbouring pixels: each pixel is loaded once.
template <int rows, int columns, int stride, int taps>
PENLIGHT_INLINE void add_line(const float* (&x)[rows], const Floats (&weight)[taps],
                              Floats (&sums)[rows][columns]) {
  repeat<rows>([&](auto r) __attribute__((always_inline)) {
    repeat<(columns - 1) * stride + taps>([&](auto u) __attribute__((always_inline)) {
      Floats pixel = load(x[r] + u * kBlock);
      keep_in_register(pixel);
      repeat<columns>([&](auto j) __attribute__((always_inline)) {
        constexpr int t = decltype(u)() - decltype(j)() * stride;
        if constexpr (t >= 0 && t < taps) sums[r][j] += pixel * weight[t];
      });
    });
  });
}
// The same, with weights that are loaded for this line.
template <int rows, int columns, int stride, int taps>
PENLIGHT_INLINE void add_line(const float* (&x)[rows], const float* weights, Floats (&sums)[rows][columns]) {
  Floats weight[taps];
  load_taps(weights, weight);
  add_line<rows, columns, stride, taps>(x, weight, sums);
}

// Elements from one column of the input to the next.
PENLIGHT_INLINE ptrdiff_t pixel_of(const Depthwise& p) {
  return p.pixel ? p.pixel : p.multiplier == 1 ? p.channels : p.channels / p.multiplier;
}

// From which channels of the input a vector of outputs is computed, where each has several.
struct Source {
  ptrdiff_t first, left;  // the first of them; how many channels there are from it on
  Ints at;                // of each lane, from the first on
};

PENLIGHT_INLINE Source source_of(const Depthwise& p, ptrdiff_t output) {
  Source source = {output / p.multiplier, 0, {}};
  source.left = pixel_of(p) - source.first;
  int32_t at = 0;
  ptrdiff_t same = output % p.multiplier;
  for (int i = 0; i < kLanes; ++i) {
    source.at[i] = at;
    if (++same < p.multiplier) continue;
    same = 0;
    ++at;
  }
  return source;
}

PENLIGHT_INLINE Floats load_spread(const float* pixel, const Source& source) {
  return pick_lanes(load_part(pixel + source.first, source.left), source.at);
}

// What the outputs from `channel` on read of `count` neighbouring pixels, as kBlock elements each.
static inline void copy_block(const Depthwise& p, const float* from, ptrdiff_t count, ptrdiff_t channel,
                              float* to) {
  const ptrdiff_t pixel = pixel_of(p);
  if (p.multiplier == 1) {
    const ptrdiff_t left = p.channels - channel;
    for (from += channel; count > 0; --count, to += kBlock, from += pixel) {
      repeat<kBlock / kLanes>([&](auto v) __attribute__((always_inline)) {
        store(to + v * kLanes, load_part(from + v * kLanes, max_of(left - v * kLanes, 0)));
      });
    }
    return;
  }
  for (ptrdiff_t v = 0; v < kBlock && channel + v < p.channels; v += kLanes) {
    const Source source = source_of(p, channel + v);
    for (ptrdiff_t i = 0; i < count; ++i) {
      store(to + i * kBlock + v, load_spread(from + i * pixel, source));
    }
  }
}

PENLIGHT_INLINE void clear(float* to, ptrdiff_t pixels) {
  memset(to, 0, static_cast<size_t>(pixels * kBlock) * sizeof(float));
}

// Weights of the channels from `channel` on, of `taps` taps. False where one is not finite: it
// would make a number of the zeros around the image.
static inline bool copy_weights(const Depthwise& p, ptrdiff_t channel, ptrdiff_t taps, float* to) {
  const ptrdiff_t padded = round_up(p.channels, kPanel);
  Floats probe = {};
  for (ptrdiff_t t = 0; t < 1 + taps; ++t) {
    for (ptrdiff_t c = 0; c < kBlock; c += kLanes) {
      const Floats weight = load(p.packed + t * padded + channel + c);
      store(to + t * kBlock + c, weight);
      if (t > 0) probe += weight * splat(0.0f);
    }
  }
  return sum_lanes(probe) == 0.0f;
}

// Are all weights finite? Others would make numbers of the zeros around the image.
static inline bool are_finite(const Depthwise& p) {
  constexpr int sums = 8;  // at once: each waits for the product before
  const ptrdiff_t padded = round_up(p.channels, kPanel), taps = p.geometry.taps_h * p.geometry.taps_w;
  const ptrdiff_t own = round_up(p.last_channel, kPanel) - p.first_channel;
  // Those of all channels lie one after the other.
  const ptrdiff_t runs = own == padded ? 1 : taps, count = own == padded ? taps * padded : own;
  Floats probes[sums] = {};
  for (ptrdiff_t run = 1; run <= runs; ++run) {
    const float* const weights = p.packed + run * padded + p.first_channel;
    for (ptrdiff_t c = 0; c < count; c += sums * kLanes) {
      repeat<sums>([&](auto i) __attribute__((always_inline)) {
        // The last few are looked at once more.
        probes[i] += load(weights + max_of(min_of(c + i * kLanes, count - kLanes), 0)) * splat(0.0f);
      });
    }
  }
  repeat<sums - 1>([&](auto i) __attribute__((always_inline)) { probes[0] += probes[i + 1]; });
  return sum_lanes(probes[0]) == 0.0f;
}

// Stores the sums of `count` neighbouring columns, `left` channels of each.
template <int count>
PENLIGHT_INLINE void finish(const Epilogue& epilogue, const float* residual, float* output, ptrdiff_t pitch,
                            ptrdiff_t left, Floats (&sums)[count]) {
  if (residual) {
    repeat<count>([&](auto j)
                      __attribute__((always_inline)) { sums[j] += load_part(residual + j * pitch, left); });
  }
  activate<count>(epilogue, [&](auto j) __attribute__((always_inline)) -> Floats& { return sums[j]; });
  repeat<count>([&](auto j)
                    __attribute__((always_inline)) { store_part(output + j * pitch, sums[j], left); });
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
