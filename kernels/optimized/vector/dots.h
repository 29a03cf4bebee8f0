// Several rows of a matrix at once: their products with one vector, and their transposition.
#pragma once

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

// {a0, b0, a1, b1, ...}: of the lower halves, and of the upper ones.
#if defined(__AVX512F__)
PENLIGHT_INLINE Floats lower(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
}
PENLIGHT_INLINE Floats upper(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
}
#elif defined(__AVX__)
PENLIGHT_INLINE Floats lower(Floats a, Floats b) { return PENLIGHT_SHUFFLE(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
PENLIGHT_INLINE Floats upper(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
}
#else
PENLIGHT_INLINE Floats lower(Floats a, Floats b) { return PENLIGHT_SHUFFLE(a, b, 0, 4, 1, 5); }
PENLIGHT_INLINE Floats upper(Floats a, Floats b) { return PENLIGHT_SHUFFLE(a, b, 2, 6, 3, 7); }
#endif

// Lane i: the sum of the lanes of sums[i], added as sum_lanes() does.
template <int count>
PENLIGHT_INLINE Floats sums_of(const Floats (&sums)[count]) {
  if constexpr (count == 1) {
    return sums[0];
  } else {
    Floats halves[count / 2];
    repeat<count / 2>([&](auto i) __attribute__((always_inline)) {
      const Floats a = sums[i], b = sums[i + count / 2];
      halves[i] = lower(a, b) + upper(a, b);
    });
    return sums_of(halves);
  }
}

// Products of a vector with kLanes rows of a matrix. Those past the last, of which there are
// `count`, are read as the last.
PENLIGHT_INLINE Floats dots(const float* vector, const float* matrix, ptrdiff_t pitch, ptrdiff_t count,
                            ptrdiff_t width) {
  const float* rows[kLanes];
  Floats sums[kLanes];
  repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
    rows[i] = matrix + min_of(i, count - 1) * pitch;
    sums[i] = Floats{};
  });
  ptrdiff_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    const Floats x = load(vector + c);
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) { sums[i] += x * load(rows[i] + c); });
  }
  if (c < width) {
    const Floats x = load_some(vector + c, width - c);
    repeat<kLanes>([&](auto i)
                       __attribute__((always_inline)) { sums[i] += x * load_some(rows[i] + c, width - c); });
  }
  return sums_of(sums);
}

// Lane j of rows[i] becomes lane i of rows[j].
PENLIGHT_INLINE void transpose(Floats (&rows)[kLanes]) {
  // Each time, the number of a place (row, then lane) is turned around by one bit.
  for (int width = 1; width < kLanes; width *= 2) {
    Floats next[kLanes];
    repeat<kLanes / 2>([&](auto i) __attribute__((always_inline)) {
      next[2 * i] = lower(rows[i], rows[i + kLanes / 2]);
      next[2 * i + 1] = upper(rows[i], rows[i + kLanes / 2]);
    });
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) { rows[i] = next[i]; });
  }
}

// A vector for each column of kLanes rows of a matrix, times `factor`, `step` elements apart. Those
// past the last row, of which there are `count`, are as the last.
PENLIGHT_INLINE void lay_out(const float* matrix, ptrdiff_t pitch, ptrdiff_t count, ptrdiff_t width,
                             float* to, ptrdiff_t step, float factor = 1.0f) {
  for (ptrdiff_t c = 0; c < width; c += kLanes) {
    Floats square[kLanes];
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
      square[i] = load_part(matrix + min_of(i, count - 1) * pitch + c, width - c);
    });
    transpose(square);
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
      if (i < width - c) store(to + (c + i) * step, square[i] * splat(factor));
    });
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
