// Windows of three taps over lines of an image of few channels, for cores that prefer wide tiles.
//
// Such windows lie one column or two apart, so that neighbours have columns in common. What a tile of them
// reads is loaded once here, and multiplied for all windows that have it: of 12 windows two columns apart, 25
// elements of each line and channel where each tap by itself loads 36.
#pragma once

#include "few_channels.h"
#include "tall_tiles.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kSharedTaps = 3;
constexpr int kParts = 3;  // of a sum at once: channels of a line, or of one channel, lines

// Heights of tiles of two vectors of columns, and of one: high ones load less, low ones store fewer sums at
// once.
constexpr int kSharedOfTwo[] = {12, 8}, kSharedHigh[] = {28, 16}, kSharedLow[] = {16, 14};
static_assert(kSharedHigh[1] == kSharedLow[0], "multiply_shared() has code for it once");
constexpr ptrdiff_t kFewestShared = kSharedLow[0];  // outputs of a line

// Do windows share columns, and is there code for them? Of images in colour, and in gray, with lines long
// enough for a tile.
inline bool shares_columns(const FewChannels& p) {
  const Geometry& g = p.geometry;
  const bool is_near = g.stride_w == 1 || g.stride_w == 2;
  return kHasWideTiles && p.wide_tiles && g.taps_w == kSharedTaps && g.dilation_w == 1 && is_near &&
         g.out_width >= kFewestShared && (p.channels == kParts || (p.channels == 1 && g.taps_h == kParts));
}

inline int shared_height(const FewChannels& p, int vectors) {
  const ptrdiff_t width = p.geometry.out_width;
  if (vectors == 2) return best_height(width, kSharedOfTwo);
  return p.tall_tiles ? best_height(width, kSharedHigh) : best_height(width, kSharedLow);
}

// What the windows of a line are multiplied with.
struct SharedColumns {
  const ptrdiff_t* offsets;  // of each step of the sum
  ptrdiff_t steps;
  const float* weights;     // biases, then a panel's columns for each step
  ptrdiff_t weights_panel;  // elements from panel to panel
  // Are the first window's first column and the last one's last beside the image? They are not read.
  bool begins_outside = false, ends_outside = false;
};

// Are they in all lines of an image, computed by tiles of a height?
inline bool begins_outside(const FewChannels& p) { return p.geometry.pad_w == 1; }
inline bool ends_outside(const FewChannels& p, ptrdiff_t height) {
  const Geometry& g = p.geometry;
  return columns_under(g, g.out_width) == g.pad_w + g.width + 1 && g.out_width % height == 0;
}

constexpr float kOutside = 0.0f;

// Windows so far apart, over columns so far apart, of so many channels.
template <int stride, int column, int channels>
struct Windows {
  static_assert(channels == 1 || channels == kParts);

  // Adds the products of windows, of which the first one begins at `line`, to their sums. Is their first
  // column before the image, their last one after it?
  template <int rows, int vectors>
  static __attribute__((always_inline)) void add(const SharedColumns& s, const float* line, bool before,
                                                 bool after, Floats (&sums)[rows][vectors]) {
    // The parts are one run of code: a loop over them would end too often for its end to be foreseen.
    constexpr int run = kParts * kSharedTaps, tap = channels, next = channels == 1 ? kSharedTaps : 1;
    const ptrdiff_t* const offsets = s.offsets;
    const ptrdiff_t steps = s.steps;
    const float *weights = s.weights + kPanel, *others = weights + (vectors - 1) * s.weights_panel;
    for (ptrdiff_t k = 0; k < steps; k += run, weights += run * kPanel, others += run * kPanel) {
      keep_in_register(others);
      repeat<kParts>([&](auto part) __attribute__((always_inline)) {
        const float* x = line + offsets[k + part * next];
        keep_in_register(x);  // else its two parts are added up by each load
        Floats columns[kSharedTaps][vectors];
        repeat<kSharedTaps>([&](auto t) __attribute__((always_inline)) {
          constexpr int step = part * next + t * tap;
          columns[t][0] = load(weights + step * kPanel);
          if constexpr (vectors > 1) columns[t][1] = load(others + step * kPanel);
        });
        constexpr int last = (rows - 1) * stride + kSharedTaps - 1;
        const float* const first_column = before ? &kOutside : x;
        const float* const last_column = after ? &kOutside : x + last * column;
        repeat<last + 1>([&](auto at) __attribute__((always_inline)) {
          const Floats value = splat(at == 0 ? *first_column : at == last ? *last_column : x[at * column]);
          repeat<kSharedTaps>([&](auto t) __attribute__((always_inline)) {
            constexpr int begin = at - t, row = begin / stride;
            if constexpr (begin >= 0 && begin % stride == 0 && row < rows) {
              repeat<vectors>([&](auto v)
                                  __attribute__((always_inline)) { sums[row][v] += value * columns[t][v]; });
            }
          });
        });
      });
    }
  }

  // Outputs of a line, by tiles; the last one reads what lies behind the line.
  template <int rows, int vectors>
  static void multiply(const SharedColumns& s, const float* line, ptrdiff_t outputs, const Finish& finish) {
    for (ptrdiff_t first = 0; first < outputs; first += rows, line += rows * stride * column) {
      Floats sums[rows][vectors];
      repeat<vectors>([&](auto v) __attribute__((always_inline)) {
        const Floats bias = load(s.weights + v * s.weights_panel);
        repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][v] = bias; });
      });
      add(s, line, first == 0 && s.begins_outside, first + rows >= outputs && s.ends_outside, sums);
      finish_tile(finish, first, min_of(rows, outputs - first), sums);
    }
  }
};

// Calls body(Windows<...>()).
template <class Body>
void with_windows(const FewChannels& p, const Body& body) {
  constexpr int all = kParts;
  const bool is_next = p.geometry.stride_w == 1;
  if (p.channels == 1) return is_next ? body(Windows<1, 1, 1>()) : body(Windows<2, 1, 1>());
  if (p.planar) return is_next ? body(Windows<1, 1, all>()) : body(Windows<2, 1, all>());
  is_next ? body(Windows<1, all, all>()) : body(Windows<2, all, all>());
}

// By tiles of shared_height().
template <int vectors>
void multiply_shared(const FewChannels& p, const SharedColumns& s, const float* line, ptrdiff_t outputs,
                     int height, const Finish& finish) {
  if constexpr (kHasWideTiles) {
    with_windows(p, [&](auto windows) {
      using Of = decltype(windows);
      const auto multiply = [&](auto rows) {
        Of::template multiply<rows, vectors>(s, line, outputs, finish);
      };
      if constexpr (vectors == 2) {
        if (height == kSharedOfTwo[0]) return multiply(Index<kSharedOfTwo[0]>());
        multiply(Index<kSharedOfTwo[1]>());
      } else {
        if (height == kSharedHigh[0]) return multiply(Index<kSharedHigh[0]>());
        if (height == kSharedLow[0]) return multiply(Index<kSharedLow[0]>());
        multiply(Index<kSharedLow[1]>());
      }
    });
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
