// Discrete Fourier transforms of as many lines as a vector has lanes, one line in each lane.
//
// Point k of the lines is two vectors, at 2 k kLanes floats: the real parts and then the
// imaginary ones. A length is taken apart into factors; each has one pass over all points,
// from one buffer to the other, after which the points are in order (Stockham). Transforms are
// forward: a backward one is forward with real and imaginary parts in each other's place.
#pragma once

#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

struct Points {
  Floats re, im;
};

// Where the parts of a point are, in floats from its start.
struct Parts {
  ptrdiff_t re, im;
};
constexpr Parts kInOrder = {0, kLanes}, kSwapped = {kLanes, 0};
constexpr ptrdiff_t kPoint = 2 * kLanes;

PENLIGHT_INLINE Points operator+(Points a, Points b) { return {a.re + b.re, a.im + b.im}; }
PENLIGHT_INLINE Points operator-(Points a, Points b) { return {a.re - b.re, a.im - b.im}; }
PENLIGHT_INLINE Points operator*(Points a, Floats b) { return {a.re * b, a.im * b}; }
PENLIGHT_INLINE Points operator*(Points a, Points b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// a - i b, and a + i b.
PENLIGHT_INLINE Points minus_turned(Points a, Points b) { return {a.re + b.im, a.im - b.re}; }
PENLIGHT_INLINE Points plus_turned(Points a, Points b) { return {a.re - b.im, a.im + b.re}; }

PENLIGHT_INLINE Points load_points(const float* from, Parts parts) {
  return {load(from + parts.re), load(from + parts.im)};
}
PENLIGHT_INLINE void store_points(float* to, Parts parts, Points value) {
  store(to + parts.re, value.re);
  store(to + parts.im, value.im);
}
// The same number, of a table of pairs, in all lanes.
PENLIGHT_INLINE Points splat_pair(const float* pair) { return {splat(pair[0]), splat(pair[1])}; }

// The transform of so many points.
template <int radix>
PENLIGHT_INLINE void butterfly(Points (&x)[radix]) {
  if constexpr (radix == 2) {
    const Points a = x[0];
    x[0] = a + x[1];
    x[1] = a - x[1];
  } else if constexpr (radix == 3) {
    const Points sum = x[1] + x[2], turned = (x[1] - x[2]) * splat(0.866025403784438647f);
    const Points rest = x[0] - sum * splat(0.5f);
    x[0] = x[0] + sum;
    x[1] = minus_turned(rest, turned);
    x[2] = plus_turned(rest, turned);
  } else if constexpr (radix == 4) {
    const Points a = x[0] + x[2], b = x[0] - x[2], c = x[1] + x[3], d = x[1] - x[3];
    x[0] = a + c;
    x[1] = minus_turned(b, d);
    x[2] = a - c;
    x[3] = plus_turned(b, d);
  } else if constexpr (radix == 5) {
    // Cosines and sines of a fifth and of two fifths of a turn.
    const Floats cos1 = splat(0.309016994374947424f), cos2 = splat(-0.809016994374947424f);
    const Floats sin1 = splat(0.951056516295153572f), sin2 = splat(0.587785252292473129f);
    const Points sum1 = x[1] + x[4], sum2 = x[2] + x[3], odd1 = x[1] - x[4], odd2 = x[2] - x[3];
    const Points a = x[0] + sum1 * cos1 + sum2 * cos2, b = odd1 * sin1 + odd2 * sin2;
    const Points c = x[0] + sum1 * cos2 + sum2 * cos1, d = odd1 * sin2 - odd2 * sin1;
    x[0] = x[0] + sum1 + sum2;
    x[1] = minus_turned(a, b);
    x[4] = plus_turned(a, b);
    x[2] = minus_turned(c, d);
    x[3] = plus_turned(c, d);
  } else {
    static_assert(radix == 8);
    Points even[4] = {x[0], x[2], x[4], x[6]}, odd[4] = {x[1], x[3], x[5], x[7]};
    butterfly(even);
    butterfly(odd);
    const Floats root = splat(0.707106781186547524f);
    const Points first = minus_turned(odd[1], odd[1]) * root, third = plus_turned(odd[3], odd[3]) * root;
    x[0] = even[0] + odd[0];
    x[4] = even[0] - odd[0];
    x[1] = even[1] + first;
    x[5] = even[1] - first;
    x[2] = minus_turned(even[2], odd[2]);
    x[6] = plus_turned(even[2], odd[2]);
    x[3] = even[3] - third;
    x[7] = even[3] + third;
  }
}

// One pass: `done` is the product of the factors of earlier ones.
struct Pass {
  const float* from;
  float* to;
  ptrdiff_t length, done;
  const float* roots;  // e ^ (-2 pi i k / (length * roots_step)), of each k a pair
  ptrdiff_t roots_step;
  Parts parts;
};

template <int radix>
void pass_of(const Pass& p) {
  const ptrdiff_t columns = p.length / (radix * p.done);
  const ptrdiff_t apart = p.length / radix * kPoint, to_apart = p.done * kPoint;
  const float* from = p.from;
  float* to = p.to;
  for (ptrdiff_t q = 0; q < columns; ++q, to += (radix - 1) * to_apart) {
    const ptrdiff_t turn = 2 * q * p.done * p.roots_step;
    for (ptrdiff_t t = 0; t < p.done; ++t, from += kPoint, to += kPoint) {
      Points x[radix];
      repeat<radix>([&](auto k)
                        __attribute__((always_inline)) { x[k] = load_points(from + k * apart, p.parts); });
      butterfly(x);
      if (q > 0) {
        repeat<radix - 1>([&](auto r) __attribute__((always_inline)) {
          x[r + 1] = x[r + 1] * splat_pair(p.roots + (r + 1) * turn);
        });
      }
      repeat<radix>([&](auto r)
                        __attribute__((always_inline)) { store_points(to + r * to_apart, p.parts, x[r]); });
    }
  }
}

// Of any odd factor: the sums and the differences of the points that have conjugate roots.
void pass_of_odd(const Pass& p, int radix) {
  const ptrdiff_t columns = p.length / (radix * p.done), apart = p.length / radix * kPoint;
  const ptrdiff_t step = p.length / radix * p.roots_step;
  const int half = radix / 2;
  Points sums[kLargestFactor / 2], odds[kLargestFactor / 2];
  for (ptrdiff_t q = 0; q < columns; ++q) {
    for (ptrdiff_t t = 0; t < p.done; ++t) {
      const float* from = p.from + (q * p.done + t) * kPoint;
      float* to = p.to + (q * p.done * radix + t) * kPoint;
      const Points first = load_points(from, p.parts);
      Points all = first;
      for (int k = 0; k < half; ++k) {
        const Points a = load_points(from + (k + 1) * apart, p.parts);
        const Points b = load_points(from + (radix - 1 - k) * apart, p.parts);
        sums[k] = a + b;
        odds[k] = a - b;
        all = all + sums[k];
      }
      store_points(to, p.parts, all);
      for (int r = 1; r <= half; ++r) {
        Points even = first, odd = {};
        for (int k = 0, at = r; k < half; ++k) {
          const float* root = p.roots + 2 * at * step;
          even = even + sums[k] * splat(root[0]);
          odd = odd + odds[k] * splat(root[1]);
          at += r;
          if (at >= radix) at -= radix;
        }
        const float* turn = p.roots + 2 * q * p.done * p.roots_step * r;
        const float* back = p.roots + 2 * q * p.done * p.roots_step * (radix - r);
        // The roots' imaginary parts are of forward transforms already.
        store_points(to + r * p.done * kPoint, p.parts, plus_turned(even, odd) * splat_pair(turn));
        store_points(to + (radix - r) * p.done * kPoint, p.parts, minus_turned(even, odd) * splat_pair(back));
      }
    }
  }
}

// The factor of the next pass over what is left of a length: eights, and fours before them.
int next_factor(ptrdiff_t n) {
  int twos = 0;
  while ((n >> twos & 1) == 0) ++twos;
  if (twos > 0) return twos == 1 ? 2 : twos % 3 == 0 ? 8 : 4;
  for (int factor = 3; factor <= kLargestFactor; factor += 2) {
    if (n % factor == 0) return factor;
  }
  return 1;
}

// Transforms the points of `x`; where the result is, of `x` and `other`. `length` has no prime factor
// above kLargestFactor.
float* transform(float* x, float* other, ptrdiff_t length, const float* roots, ptrdiff_t roots_step,
                 Parts parts) {
  for (ptrdiff_t done = 1; done < length;) {
    const int factor = next_factor(length / done);
    const Pass pass = {x, other, length, done, roots, roots_step, parts};
    if (factor == 2) {
      pass_of<2>(pass);
    } else if (factor == 3) {
      pass_of<3>(pass);
    } else if (factor == 4) {
      pass_of<4>(pass);
    } else if (factor == 5) {
      pass_of<5>(pass);
    } else if (factor == 8) {
      pass_of<8>(pass);
    } else {
      pass_of_odd(pass, factor);
    }
    float* const result = other;
    other = x;
    x = result;
    done *= factor;
  }
  return x;
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
