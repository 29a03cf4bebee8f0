// As many vectors as one has lanes, as a square matrix, transposed.
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

#if defined(__AVX512F__)

// In each 128 bits: the first of a and b in turns, the last; and their halves.
PENLIGHT_INLINE Floats first_in_turns(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
PENLIGHT_INLINE Floats last_in_turns(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}
PENLIGHT_INLINE Floats first_halves(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29);
}
PENLIGHT_INLINE Floats last_halves(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31);
}

// What each 128 bits of four vectors have, as four rows of a matrix, transposed.
PENLIGHT_INLINE void transpose_quads(Floats& v0, Floats& v1, Floats& v2, Floats& v3) {
  const Floats a = first_in_turns(v0, v1), b = last_in_turns(v0, v1), c = first_in_turns(v2, v3),
               d = last_in_turns(v2, v3);
  v0 = first_halves(a, c);
  v1 = last_halves(a, c);
  v2 = first_halves(b, d);
  v3 = last_halves(b, d);
}

// 128 bits of a, then of b: those with even numbers, those with odd ones.
PENLIGHT_INLINE Floats even_quads(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 0, 1, 2, 3, 8, 9, 10, 11, 16, 17, 18, 19, 24, 25, 26, 27);
}
PENLIGHT_INLINE Floats odd_quads(Floats a, Floats b) {
  return PENLIGHT_SHUFFLE(a, b, 4, 5, 6, 7, 12, 13, 14, 15, 20, 21, 22, 23, 28, 29, 30, 31);
}

// Lane j of rows[i] becomes lane i of rows[j]: squares of four first, then the matrix that has them as
// elements.
PENLIGHT_INLINE void transpose(Floats (&rows)[kLanes]) {
  repeat<4>([&](auto i) __attribute__((always_inline)) {
    transpose_quads(rows[4 * i], rows[4 * i + 1], rows[4 * i + 2], rows[4 * i + 3]);
  });
  repeat<4>([&](auto k) __attribute__((always_inline)) {
    const Floats a = rows[k], b = rows[4 + k], c = rows[8 + k], d = rows[12 + k];
    const Floats even = even_quads(a, b), odd = odd_quads(a, b), even_after = even_quads(c, d),
                 odd_after = odd_quads(c, d);
    rows[k] = even_quads(even, even_after);
    rows[4 + k] = even_quads(odd, odd_after);
    rows[8 + k] = odd_quads(even, even_after);
    rows[12 + k] = odd_quads(odd, odd_after);
  });
}

#else

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

#endif

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
