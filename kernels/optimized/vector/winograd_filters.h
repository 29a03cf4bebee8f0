// The one-dimensional transforms of minimal filters with three taps: of the weights, of the
// input and of the sums of their products. Those of images are these along both axes.
//
// A filter with a stride of two is one of two taps, the outer ones, over the pixels of even
// number, and the middle tap times those of odd number, which needs no transform and has the
// same weight at each output.
#pragma once

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Tiles of kOut outputs, kStride inputs apart. Where the points of a filter would have its weights
// multiplied by constants, the sums are instead: there are fewer of them where that counts.
template <int kStride, int kOut>
struct Filter;

// Points 0, 1, -1, 2, -2 and infinity.
template <>
struct Filter<1, 4> {
  PENLIGHT_INLINE void weights(const Floats (&g)[3], Floats (&u)[6]) {
    const Floats even = g[0] + g[2], wide = g[0] + splat(4.0f) * g[2];
    u[0] = g[0];
    u[1] = even + g[1];
    u[2] = even - g[1];
    u[3] = wide + splat(2.0f) * g[1];
    u[4] = wide - splat(2.0f) * g[1];
    u[5] = g[2];
  }

  PENLIGHT_INLINE void input(const Floats (&d)[6], Floats (&v)[6]) {
    const Floats a = d[4] - splat(4.0f) * d[2], b = d[3] - splat(4.0f) * d[1];
    const Floats c = d[4] - d[2], e = splat(2.0f) * (d[3] - d[1]);
    v[0] = splat(4.0f) * d[0] - splat(5.0f) * d[2] + d[4];
    v[1] = a + b;
    v[2] = a - b;
    v[3] = c + e;
    v[4] = c - e;
    v[5] = splat(4.0f) * d[1] - splat(5.0f) * d[3] + d[5];
  }

  PENLIGHT_INLINE void output(const Floats (&m)[6], Floats (&y)[4]) {
    const Floats a = splat(-1.0f / 6.0f) * (m[1] + m[2]), b = splat(-1.0f / 6.0f) * (m[1] - m[2]);
    const Floats c = m[3] + m[4], d = m[3] - m[4];
    y[0] = splat(1.0f / 4.0f) * m[0] + a + splat(1.0f / 24.0f) * c;
    y[1] = b + splat(1.0f / 12.0f) * d;
    y[2] = a + splat(1.0f / 6.0f) * c;
    y[3] = b + splat(1.0f / 3.0f) * d + m[5];
  }
};

// The same points, and so the same input, for four taps and three outputs.
struct FilterOfFour {
  PENLIGHT_INLINE void weights(const Floats (&g)[4], Floats (&u)[6]) {
    const Floats even = g[0] + g[2], odd = g[1] + g[3];
    const Floats wide = g[0] + splat(4.0f) * g[2], wide_odd = splat(2.0f) * g[1] + splat(8.0f) * g[3];
    u[0] = g[0];
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = wide + wide_odd;
    u[4] = wide - wide_odd;
    u[5] = g[3];
  }

  PENLIGHT_INLINE void input(const Floats (&d)[6], Floats (&v)[6]) { Filter<1, 4>::input(d, v); }

  PENLIGHT_INLINE void output(const Floats (&m)[6], Floats (&y)[3]) {
    const Floats a = splat(-1.0f / 6.0f) * (m[1] + m[2]), c = m[3] + m[4];
    y[0] = splat(1.0f / 4.0f) * m[0] + a + splat(1.0f / 24.0f) * c;
    y[1] = splat(-1.0f / 6.0f) * (m[1] - m[2]) + splat(1.0f / 12.0f) * (m[3] - m[4]);
    y[2] = a + splat(1.0f / 6.0f) * c + m[5];
  }
};

// Points 0, 1, -1 and infinity.
template <>
struct Filter<1, 2> {
  PENLIGHT_INLINE void weights(const Floats (&g)[3], Floats (&u)[4]) {
    const Floats even = g[0] + g[2];
    u[0] = g[0];
    u[1] = even + g[1];
    u[2] = even - g[1];
    u[3] = g[2];
  }

  PENLIGHT_INLINE void input(const Floats (&d)[4], Floats (&v)[4]) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
  }

  PENLIGHT_INLINE void output(const Floats (&m)[4], Floats (&y)[2]) {
    y[0] = m[0] + splat(0.5f) * (m[1] + m[2]);
    y[1] = m[3] + splat(0.5f) * (m[1] - m[2]);
  }
};

// Points 0, 1, -1, 2 and infinity for the outer taps.
template <>
struct Filter<2, 4> {
  PENLIGHT_INLINE void weights(const Floats (&g)[3], Floats (&u)[6]) {
    u[0] = g[0];
    u[1] = g[0] + g[2];
    u[2] = g[0] - g[2];
    u[3] = g[0] + splat(2.0f) * g[2];
    u[4] = g[2];
    u[5] = g[1];
  }

  PENLIGHT_INLINE void input(const Floats (&d)[9], Floats (&v)[9]) {
    const Floats a = d[6] - d[2];
    v[0] = splat(2.0f) * (d[0] - d[4]) + a;
    v[1] = d[6] - d[4] - splat(2.0f) * d[2];
    v[2] = d[6] - splat(3.0f) * d[4] + splat(2.0f) * d[2];
    v[3] = a;
    v[4] = d[8] - d[4] - splat(2.0f) * a;
    for (int i = 0; i < 4; ++i) v[5 + i] = d[2 * i + 1];
  }

  PENLIGHT_INLINE void output(const Floats (&m)[9], Floats (&y)[4]) {
    const Floats one = splat(-0.5f) * m[1], minus_one = splat(-1.0f / 6.0f) * m[2];
    const Floats even = one + minus_one, odd = one - minus_one;
    y[0] = splat(0.5f) * m[0] + even + splat(1.0f / 6.0f) * m[3] + m[5];
    y[1] = odd + splat(1.0f / 3.0f) * m[3] + m[6];
    y[2] = even + splat(2.0f / 3.0f) * m[3] + m[7];
    y[3] = odd + splat(4.0f / 3.0f) * m[3] + m[4] + m[8];
  }
};

// Points 0, 1 and infinity for the outer taps.
template <>
struct Filter<2, 2> {
  PENLIGHT_INLINE void weights(const Floats (&g)[3], Floats (&u)[4]) {
    u[0] = g[0];
    u[1] = g[0] + g[2];
    u[2] = g[2];
    u[3] = g[1];
  }

  PENLIGHT_INLINE void input(const Floats (&d)[5], Floats (&v)[5]) {
    v[0] = d[0] - d[2];
    v[1] = d[2];
    v[2] = d[4] - d[2];
    v[3] = d[1];
    v[4] = d[3];
  }

  PENLIGHT_INLINE void output(const Floats (&m)[5], Floats (&y)[2]) {
    y[0] = m[0] + m[1] + m[3];
    y[1] = m[1] + m[2] + m[4];
  }
};

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
