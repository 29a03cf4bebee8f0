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

// Heights of tiles of so many vectors of columns, one or two.
template <int vectors>
constexpr int kSharedHeights[] = {vectors == 1 ? 28 : 12, vectors == 1 ? 16 : 8};

// Do windows share columns, and is there code for them? Of images in colour, and in gray, with lines long
// enough for a tile.
inline bool shares_columns(const FewChannels& p) {
  const Geometry& g = p.geometry;
  const bool is_near = g.stride_w == 1 || g.stride_w == 2;
  return kHasWideTiles && p.wide_tiles && g.taps_w == kSharedTaps && g.dilation_w == 1 && is_near &&
         g.out_width >= kSharedHeights<1>[1] &&
         (p.channels == kParts || (p.channels == 1 && g.taps_h == kParts));
}

inline int shared_height(int vectors, ptrdiff_t width) {
  return vectors == 1 ? best_height(width, kSharedHeights<1>) : best_height(width, kSharedHeights<2>);
}

// What the windows of a line are multiplied with.
struct SharedColumns {
  const ptrdiff_t* offsets;  // of each step of the sum
  ptrdiff_t steps;
  const float* weights;     // biases, then a panel's columns for each step
  ptrdiff_t weights_panel;  // elements from panel to panel
  // The first window's first column, and the last one's last, are beside the image, and not read.
  bool begins_outside = false, ends_outside = false;
};

// Are they in all lines of an image, computed by tiles of a height? The last tile is not the first, too.
inline bool begins_outside(const FewChannels& p) { return p.geometry.pad_w == 1; }
inline bool ends_outside(const FewChannels& p, ptrdiff_t height) {
  const Geometry& g = p.geometry;
  return columns_under(g, g.out_width) == g.pad_w + g.width + 1 && g.out_width % height == 0 &&
         g.out_width > height;
}

// Windows so far apart, over columns so far apart, of so many channels.
template <int stride, int column, int channels>
struct Windows {
  static_assert(channels == 1 || channels == kParts);

  // Adds the products of windows, of which the first one begins at `line`, to their sums.
  template <int rows, int vectors, int before, int after>
  static __attribute__((always_inline)) void add(const SharedColumns& s, const float* line,
                                                 Floats (&sums)[rows][vectors]) {
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
        constexpr int count = (rows - 1) * stride + kSharedTaps - before - after;
        repeat<count>([&](auto k) __attribute__((always_inline)) {
          constexpr int at = k + before;
          const Floats value = splat(x[at * column]);
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

  // A tile of outputs from `first` on, of which so many columns, 0 or 1, are before the image and after it.
  template <int rows, int vectors, int before, int after>
  static __attribute__((always_inline)) void multiply_tile(const SharedColumns& s, const float* line,
                                                           ptrdiff_t first, ptrdiff_t outputs,
                                                           const Finish& finish) {
    Floats sums[rows][vectors];
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      const Floats bias = load(s.weights + v * s.weights_panel);
      repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][v] = bias; });
    });
    add<rows, vectors, before, after>(s, line + first * stride * column, sums);
    finish_tile(finish, first, min_of(rows, outputs - first), sums);
  }

  // Outputs of a line, by tiles; the last one reads what lies behind the line.
  template <int rows, int vectors>
  static void multiply(const SharedColumns& s, const float* line, ptrdiff_t outputs, const Finish& finish) {
    ptrdiff_t first = 0;
    if (s.begins_outside) {
      multiply_tile<rows, vectors, 1, 0>(s, line, 0, outputs, finish);
      first = rows;
    }
    const ptrdiff_t last = s.ends_outside ? outputs - rows : outputs;
    for (; first < last; first += rows) {
      multiply_tile<rows, vectors, 0, 0>(s, line, first, outputs, finish);
    }
    if (s.ends_outside) multiply_tile<rows, vectors, 0, 1>(s, line, last, outputs, finish);
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
      constexpr const int (&heights)[2] = kSharedHeights<vectors>;
      if (height == heights[0]) return Of::template multiply<heights[0], vectors>(s, line, outputs, finish);
      Of::template multiply<heights[1], vectors>(s, line, outputs, finish);
    });
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
