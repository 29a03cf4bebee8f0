// A line of pixels, or rows of a matrix, times one panel of weights.
//
// It is a product of few columns and, as a rule, little depth: tiles of few pixels, which end and begin
// again soon, and one vector of weights for each step of the sum, which stays in its register from tile
// to tile where the depth is one that mobile networks have. What a pixel gives does not depend on its tile.
#pragma once

#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kPanelVectors = kPanel / kLanes;
// Pixels of a tile, of any depth: enough sums to hide how long one takes, and no more than registers hold.
constexpr int kMostPixels = kPanelVectors == 1 ? 8 : kTileVectors == 2 && kPanelVectors == 4 ? 2 : 6;
#ifdef PENLIGHT_FEW_TILES
constexpr int kFewestPixels = kMostPixels;
#else
constexpr int kFewestPixels = kMostPixels < 4 ? kMostPixels : 4;
#endif
constexpr int kFewPixels = 8;  // of a tile whose weights are in registers
constexpr int kHeld = 24;      // weights there

constexpr bool kHoldsPanels = !kFewTiles && kPanelVectors == 1;

// One panel's share of a product: biases, then the columns of each step of the sum.
struct Panel {
  const float* weights;
  ptrdiff_t depth;           // steps
  ptrdiff_t next;            // elements from what one pixel of the result reads to what the next does
  const ptrdiff_t* offsets;  // from what it reads first to what each step reads; null: one after the other
  int pixels;                // of a tile
  ptrdiff_t apart;           // elements from the weights of this panel to those of the next
};

// A tile of pixels from `first` on. `depth` is that of the panel, and pixels lie one after the other; or 0
// for any.
template <int pixels, int depth, bool spread>
PENLIGHT_INLINE void multiply_tile(const Panel& panel, const float* input, const Floats* held,
                                   const Finish& finish, ptrdiff_t first) {
  Floats sums[pixels][kPanelVectors];
  const float* weights = panel.weights;
  repeat<kPanelVectors>([&](auto v) __attribute__((always_inline)) {
    const Floats bias = load(weights + v * kLanes);
    repeat<pixels>([&](auto i) __attribute__((always_inline)) { sums[i][v] = bias; });
  });
  weights += kPanel;
  const ptrdiff_t next = depth ? depth : panel.next;
  const auto add = [&](const float* x, auto weight) __attribute__((always_inline)) {
    Floats columns[kPanelVectors];
    repeat<kPanelVectors>([&](auto v) __attribute__((always_inline)) { columns[v] = weight(v); });
    repeat<pixels>([&](auto i) __attribute__((always_inline)) {
      const Floats value = splat(x[i * next]);
      repeat<kPanelVectors>(
          [&](auto v) __attribute__((always_inline)) { multiply_add(sums[i][v], value, columns[v]); });
    });
  };
  input += first * next;
  if constexpr (depth > 0) {
    repeat<depth>([&](auto k) __attribute__((always_inline)) {
      add(input + k, [&](auto) __attribute__((always_inline)) {
        if constexpr (k < kHeld) return held[k];
        return load(weights + k * kPanel);
      });
    });
  } else {
    ptrdiff_t k = 0;
    const auto step = [&](auto u) __attribute__((always_inline)) {
      add(spread ? input + panel.offsets[k + u] : input + k + u,
          [&](auto v) __attribute__((always_inline)) { return load(weights + u * kPanel + v * kLanes); });
    };
    for (; k + kStepsAtOnce <= panel.depth; k += kStepsAtOnce, weights += kStepsAtOnce * kPanel)
      repeat<kStepsAtOnce>(step);
    for (; k < panel.depth; ++k, weights += kPanel) step(Index<0>());
  }
  finish_tile(finish, first, pixels, sums);
}

// `count` pixels, one after the other.
template <int pixels, int depth = 0, bool spread = false>
void multiply_line(const Panel& panel, const float* input, ptrdiff_t count, const Finish& finish) {
  constexpr int kInRegisters = depth < kHeld ? depth : kHeld;
  Floats held[kHeld];
  repeat<kInRegisters>([&](auto k) __attribute__((always_inline)) {
    held[k] = load(panel.weights + (1 + k) * kPanel);
    keep_in_register(held[k]);
  });
  if (count < pixels) {
    for (ptrdiff_t i = 0; i < count; ++i) multiply_tile<1, 0, spread>(panel, input, held, finish, i);
    return;
  }
  for (ptrdiff_t i = 0; i < count; i += pixels) {
    // The last few are computed with some before them once more, to the same values.
    multiply_tile<pixels, depth, spread>(panel, input, held, finish, min_of(i, count - pixels));
  }
}

// The size of tiles of which `count` pixels need the fewest.
inline int pixels_of(ptrdiff_t count) {
  int best = kMostPixels;
  for (int pixels = kMostPixels - 1; pixels >= kFewestPixels; --pixels) {
    if (round_up(count, pixels) < round_up(count, best)) best = pixels;
  }
  return best;
}

template <int pixels>
void multiply_any(const Panel& panel, const float* input, ptrdiff_t count, const Finish& finish) {
  if constexpr (pixels > kFewestPixels) {
    if (panel.pixels < pixels) return multiply_any<pixels - 1>(panel, input, count, finish);
  }
  if (panel.offsets) return multiply_line<pixels, 0, true>(panel, input, count, finish);
  multiply_line<pixels>(panel, input, count, finish);
}

// For cores that prefer wide tiles, two panels at once, which read the input once.
template <int pixels, bool spread>
PENLIGHT_INLINE void multiply_two(const Panel& panel, const float* input, const Finish (&finish)[2],
                                  ptrdiff_t first) {
  const ptrdiff_t other = panel.apart, next = panel.next;
  const float* weights = panel.weights;
  Floats sums[2][pixels][1];
  repeat<2>([&](auto p) __attribute__((always_inline)) {
    const Floats bias = load(weights + p * other);
    repeat<pixels>([&](auto i) __attribute__((always_inline)) { sums[p][i][0] = bias; });
  });
  weights += kPanel;
  input += first * next;
  ptrdiff_t k = 0;
  const auto step = [&](auto u) __attribute__((always_inline)) {
    const float* x = spread ? input + panel.offsets[k + u] : input + k + u;
    const Floats columns[2] = {load(weights + u * kPanel), load(weights + u * kPanel + other)};
    repeat<pixels>([&](auto i) __attribute__((always_inline)) {
      const Floats value = splat(x[i * next]);
      sums[0][i][0] += value * columns[0];
      sums[1][i][0] += value * columns[1];
    });
  };
  for (; k + kStepsAtOnce <= panel.depth; k += kStepsAtOnce, weights += kStepsAtOnce * kPanel)
    repeat<kStepsAtOnce>(step);
  for (; k < panel.depth; ++k, weights += kPanel) step(Index<0>());
  finish_tile(finish[0], first, pixels, sums[0]);
  finish_tile(finish[1], first, pixels, sums[1]);
}

template <int pixels, bool spread>
void multiply_two_lines(const Panel& panel, const float* input, ptrdiff_t count, const Finish (&finish)[2]) {
  if constexpr (pixels > kFewestPixels) {
    if (panel.pixels < pixels) return multiply_two_lines<pixels - 1, spread>(panel, input, count, finish);
  }
  if (count < pixels) {
    for (ptrdiff_t i = 0; i < count; ++i) multiply_two<1, spread>(panel, input, finish, i);
    return;
  }
  for (ptrdiff_t i = 0; i < count; i += pixels) {
    multiply_two<pixels, spread>(panel, input, finish, min_of(i, count - pixels));
  }
}

inline void multiply_two_panels(const Panel& panel, const float* input, ptrdiff_t count,
                                const Finish (&finish)[2]) {
  if constexpr (kHasWideTiles) {
    if (panel.offsets) return multiply_two_lines<kMostPixels, true>(panel, input, count, finish);
    multiply_two_lines<kMostPixels, false>(panel, input, count, finish);
  }
}

// Is a panel of this depth held in registers? Of those that multiply_pixels() has code for.
inline bool is_held(ptrdiff_t depth) { return kHoldsPanels && (depth == 16 || depth == 24 || depth == 32); }

inline void multiply_pixels(const Panel& panel, const float* input, ptrdiff_t count, const Finish& finish) {
  if constexpr (kHoldsPanels) {
    const ptrdiff_t depth = panel.next == panel.depth && !panel.offsets ? panel.depth : 0;
    if (depth == 16) return multiply_line<kFewPixels, 16>(panel, input, count, finish);
    if (depth == 24) return multiply_line<kFewPixels, 24>(panel, input, count, finish);
    if (depth == 32) return multiply_line<kFewPixels, 32>(panel, input, count, finish);
  }
  multiply_any<kMostPixels>(panel, input, count, finish);
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
