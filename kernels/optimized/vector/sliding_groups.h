// Windows over groups of few channels, as narrow_groups.h has them, that slide along lines of the result.
//
// A pixel lies in several windows of a line: its channels are shuffled once for all of them. Weights of all
// blocks of groups are there, so that some lines are read by every block before the next are.
#pragma once

#include "epilogue.h"
#include "indirect.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Taps along a line, and windows of it at once: as many as 32 registers hold with their pixels, or 16
// without.
constexpr int kSlidingTaps = 3, kSliding = 7;
constexpr bool kHoldsPixels = kLanes == 16;
// Elements of the lines that all groups read before the lines below.
constexpr ptrdiff_t kSlidingLines = 1 << 16;

constexpr bool kSlides = !kFewTiles && kLanes >= 8;

inline bool slides(const Geometry& g) {
  return kSlides && g.taps_w == kSlidingTaps && g.dilation_w == 1 && (g.stride_w == 1 || g.stride_w == 2);
}

// Vectors of one block of groups: the biases, then those of each tap and channel.
inline ptrdiff_t size_of_block(const Product& p) {
  return (1 + p.geometry.taps_h * p.geometry.taps_w * p.channels) * kLanes;
}

// The input of channel `channel` of its group, in each lane.
template <int width, int channel>
struct OfGroup {
  static constexpr int of(int lane) { return lane / width * width + channel; }
};

// That channel of some pixels, in the lanes of its group.
template <int width, int channel>
PENLIGHT_INLINE Floats channel_of(const Floats& pixel) {
  if constexpr (width == kLanes) return splat(reinterpret_cast<const float*>(&pixel)[channel]);
  return shuffle<OfGroup<width, channel>>(pixel, pixel);
}

// What the windows of a line of outputs read, of one block of groups.
struct SlidingLine {
  const float* image;  // the first channel of the block
  ptrdiff_t top;       // the line of the first tap
};

// `stored` neighbouring outputs of it from `column` on, of which finish.output is the first; inputs are as
// many channels as outputs are.
template <int width, int stride>
PENLIGHT_INLINE void multiply_sliding(const Product& p, const SlidingLine& from, ptrdiff_t column,
                                      ptrdiff_t stored, const float* weights, const Finish& finish) {
  constexpr int pixels = (kSliding - 1) * stride + kSlidingTaps;
  const Geometry& g = p.geometry;
  const ptrdiff_t left = column * stride - g.pad_w;
  ptrdiff_t places[pixels];  // in a line; -1 beside it
  repeat<pixels>([&](auto u) __attribute__((always_inline)) {
    places[u] = is_inside(left + u, g.width) ? (left + u) * p.pixel : -1;
  });
  Floats sums[kSliding][1];
  const Floats bias = load(weights);
  repeat<kSliding>([&](auto j) __attribute__((always_inline)) { sums[j][0] = bias; });
  const float* w = weights + kLanes;
  for (ptrdiff_t th = 0; th < g.taps_h; ++th, w += kSlidingTaps * width * kLanes) {
    const ptrdiff_t ih = from.top + th * g.dilation_h;
    if (!is_inside(ih, g.height)) continue;
    const float* const line = from.image + ih * g.width * p.pixel;
    const auto pixel = [&](auto u) __attribute__((always_inline)) {
      return places[u] < 0 ? p.zeros : line + places[u];
    };
    Floats inputs[pixels];
    if (finish.columns >= kLanes) {
      repeat<pixels>([&](auto u) __attribute__((always_inline)) { inputs[u] = load(pixel(u)); });
    } else {
      repeat<pixels>([&](auto u)
                         __attribute__((always_inline)) { inputs[u] = load_some(pixel(u), finish.columns); });
    }
    repeat<pixels>([&](auto u) __attribute__((always_inline)) {
      // Or compilers shuffle before they multiply, more than registers hold.
      if constexpr (kHoldsPixels) {
        keep_in_register(inputs[u]);
      } else {
        keep_in_memory(inputs[u]);
      }
    });
    repeat<width>([&](auto c) __attribute__((always_inline)) {
      Floats weight[kSlidingTaps];
      repeat<kSlidingTaps>(
          [&](auto t) __attribute__((always_inline)) { weight[t] = load(w + (t * width + c) * kLanes); });
      repeat<pixels>([&](auto u) __attribute__((always_inline)) {
        Floats x = channel_of<width, c>(inputs[u]);
        keep_in_register(x);
        repeat<kSliding>([&](auto j) __attribute__((always_inline)) {
          constexpr int t = decltype(u)() - decltype(j)() * stride;
          if constexpr (t >= 0 && t < kSlidingTaps) sums[j][0] += x * weight[t];
        });
      });
    });
  }
  finish_tile(finish, 0, stored, sums);
}

// Rows [first, last) of the block of groups that begins at channel `channel`.
template <int width, int stride>
void slide_along(const Product& p, ptrdiff_t first, ptrdiff_t last, ptrdiff_t channel, const float* weights) {
  const Geometry& g = p.geometry;
  const ptrdiff_t channels = min_of(p.last_group * width - channel, kLanes);
  for (ptrdiff_t row = first, count; row < last; row += count) {
    const ptrdiff_t column = row % g.out_width, line = row / g.out_width;
    count = min_of(g.out_width - column, last - row);
    const SlidingLine from = {p.input + line / g.out_height * g.height * g.width * p.pixel + channel,
                              line % g.out_height * g.stride_h - g.pad_h};
    for (ptrdiff_t i = 0; i < count; i += kSliding) {
      const ptrdiff_t offset = (row + i) * p.output_pitch + channel;
      Finish finish = {p.output + offset, p.output_pitch, channels, p.epilogue};
      if (p.epilogue.residual) finish.epilogue.residual = p.epilogue.residual + offset;
      multiply_sliding<width, stride>(p, from, column + i, min_of(kSliding, count - i), weights, finish);
    }
  }
}

// All blocks, some lines of the result after the other.
template <int width, int stride>
void slide_groups(const Product& p, const float* weights) {
  const Geometry& g = p.geometry;
  const ptrdiff_t read = kSlidingLines / max_of(g.width * p.pixel, 1);
  const ptrdiff_t rows = max_of((read - g.taps_h) / g.stride_h, 1) * g.out_width;
  for (ptrdiff_t first = p.first_row; first < p.last_row; first += rows) {
    const ptrdiff_t last = min_of(first + rows, p.last_row);
    const float* own = weights;
    for (ptrdiff_t group = p.first_group; group < p.last_group; group += kLanes / width) {
      slide_along<width, stride>(p, first, last, group * width, own);
      own += size_of_block(p);
    }
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
