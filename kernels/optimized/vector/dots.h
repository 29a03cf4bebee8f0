// Several rows of a matrix at once: their products with one vector, and a copy of their columns.
#pragma once

#include "transpose.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

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

// A vector for each column of kLanes rows of a matrix, times `factor`, `step` elements apart. Those
// past the last row, of which there are `count`, are as the last.
PENLIGHT_INLINE void lay_out(const float* matrix, ptrdiff_t pitch, ptrdiff_t count, ptrdiff_t width,
                             float* to, ptrdiff_t step, float factor = 1.0f) {
  const Floats factors = splat(factor);
  ptrdiff_t c = 0;
  for (; c + kLanes <= width; c += kLanes) {
    Floats square[kLanes];
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
      square[i] = load(matrix + min_of(i, count - 1) * pitch + c);
    });
    transpose(square);
    repeat<kLanes>([&](auto i)
                       __attribute__((always_inline)) { store(to + (c + i) * step, square[i] * factors); });
  }
  if (c == width) return;
  Floats square[kLanes];
  repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
    square[i] = load_some(matrix + min_of(i, count - 1) * pitch + c, width - c);
  });
  transpose(square);
  repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
    if (i < width - c) store(to + (c + i) * step, square[i] * factors);
  });
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
