// What the two ways of computing depthwise windows share: a few neighbouring outputs of one
// vector of channels, in registers.
#pragma once

#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kColumns = 4;

// Small builds do without what needs a copy of the code for each window.
#if defined(__OPTIMIZE_SIZE__)
constexpr bool kUnrolled = false;
#else
constexpr bool kUnrolled = true;
#endif

// Rows at once: as many as there are registers for.
template <int taps>
constexpr int rows_at_once() {
  return taps == 3 || kLanes == 16 ? 2 : 1;
}

// Adds `rows` times kColumns windows to `sums`. Neighbours are `pixel` and `line` elements apart,
// weights of neighbouring taps `tap`. Each line is loaded once for all rows whose windows it lies
// in, and nothing is asked on the way.
template <int taps, int stride, int rows>
PENLIGHT_INLINE void add_windows(const float* corner, ptrdiff_t pixel, ptrdiff_t line, const float* weights,
                                 ptrdiff_t tap, Floats (&sums)[rows][kColumns]) {
  constexpr int inputs = (kColumns - 1) * stride + taps, lines = (rows - 1) * stride + taps;
  repeat<lines>([&](auto i) __attribute__((always_inline)) {
    const float* from = corner + i * line;
    Floats x[inputs];
    repeat<inputs>([&](auto u) __attribute__((always_inline)) { x[u] = load(from + u * pixel); });
    repeat<rows>([&](auto r) __attribute__((always_inline)) {
      constexpr int th = decltype(i)() - decltype(r)() * stride;
      if constexpr (th >= 0 && th < taps) {
        repeat<taps>([&](auto tw) __attribute__((always_inline)) {
          const Floats weight = load(weights + (th * taps + tw) * tap);
          repeat<kColumns>([&](auto j)
                               __attribute__((always_inline)) { sums[r][j] += x[j * stride + tw] * weight; });
        });
      }
    });
  });
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
