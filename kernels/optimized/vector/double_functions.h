// Elementary functions that go by way of double precision, a vector at a time.
//
// log2 by the series of atanh, 2^x by that of exp; pow, log10, the hyperbolic functions and their inverses
// are made of both, near zero of series of their own. At most 1 ulp, and exact where the result is a whole
// power or logarithm. fmod is exact. erfc and lgamma: polynomials fitted for the least relative error; at
// most 1 ulp.
#pragma once

#include <math.h>

#include "functions.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

// By Horner's rule, in double precision.
template <class... Lower>
PENLIGHT_INLINE HalfDoubles polynomial_in_double(HalfDoubles x, double highest, Lower... lower) {
  HalfDoubles sum = highest - HalfDoubles{};
  ((sum = sum * x + lower), ...);
  return sum;
}

// Logarithm to base 2 of what is positive and finite: e + log2(m) for m in [sqrt(1/2), sqrt(2)), by the
// series of atanh((m - 1) / (m + 1)).
PENLIGHT_INLINE HalfDoubles log2_of(HalfDoubles x) {
  constexpr int64_t kHalf = 0x3fe6a09e667f3bcd, kMantissa = 0x000fffffffffffff;  // sqrt(1/2)
  const HalfLongs above = (HalfLongs)x - kHalf;
  const HalfDoubles m = (HalfDoubles)((above & kMantissa) + kHalf), s = (m - 1.0) / (m + 1.0), z = s * s;
  const HalfDoubles series = polynomial_in_double(z, 1.0 / 11, 1.0 / 9, 1.0 / 7, 1.0 / 5, 1.0 / 3, 1.0);
  return __builtin_convertvector(above >> 52, HalfDoubles) + 2.8853900817779268 * s * series;
}

// 2^t, which is 0 or infinite in float32 beyond its range.
PENLIGHT_INLINE HalfDoubles exp2_of(HalfDoubles t) {
  const HalfDoubles most = 200.0 - HalfDoubles{}, least = -200.0 - HalfDoubles{};
  t = t > most ? most : t;
  t = t < least ? least : t;
  const HalfDoubles magic = 6755399441055744.0 - HalfDoubles{};  // 1.5 * 2^52
  const HalfDoubles shifted = t + magic, r = (t - (shifted - magic)) * 0.69314718055994531;
  const HalfDoubles p =
      polynomial_in_double(r, 1.0 / 5040, 1.0 / 720, 1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0);
  return p * (HalfDoubles)(((HalfLongs)shifted - (HalfLongs)magic + 1023) << 52);
}

PENLIGHT_INLINE HalfDoubles sqrt_of(HalfDoubles x) {
#if defined(__AVX512F__)
  return (HalfDoubles)_mm512_maskz_sqrt_pd(static_cast<__mmask8>(-1), (__m512d)x);
#elif defined(__AVX__)
  return (HalfDoubles)_mm256_sqrt_pd((__m256d)x);
#else
  HalfDoubles result;
  for (int i = 0; i < kLanes / 2; ++i) result[i] = __builtin_sqrt(x[i]);
  return result;
#endif
}

// Stored and loaded again they would be waited for.
PENLIGHT_INLINE Floats joined(HalfFloats low, HalfFloats high) {
#if defined(__AVX512F__)
  return (Floats)_mm512_insertf32x8(_mm512_castps256_ps512((__m256)low), (__m256)high, 1);
#elif defined(__AVX__)
  return (Floats)_mm256_insertf128_ps(_mm256_castps128_ps256((__m128)low), (__m128)high, 1);
#else
  const HalfFloats halves[2] = {low, high};
  Floats result;
  memcpy(&result, halves, sizeof result);
  return result;
#endif
}

// function(x, ...) in double precision.
template <class Function, class... More>
PENLIGHT_INLINE Floats in_double(Function&& function, Floats x, More... more) {
  HalfFloats results[2];
  repeat<2>([&](auto i) __attribute__((always_inline)) {
    const auto half = [&](Floats whole) __attribute__((always_inline)) {
      HalfFloats parts[2];
      memcpy(parts, &whole, sizeof whole);
      return __builtin_convertvector(parts[i], HalfDoubles);
    };
    results[i] = __builtin_convertvector(function(half(x), half(more)...), HalfFloats);
  });
  return joined(results[0], results[1]);
}

// x^y of what is positive and finite.
PENLIGHT_INLINE Floats pow_of_positive(Floats x, Floats y) {
  return in_double([](HalfDoubles base, HalfDoubles exponent)
                       __attribute__((always_inline)) { return exp2_of(exponent * log2_of(base)); },
                   x, y);
}

// As C has it: of a negative x for whole numbers y alone, 1 for y = 0 and for x = 1 whatever the other is.
PENLIGHT_INLINE Floats pow_of(Floats x, Floats y) {
  const Floats zero = splat(0.0f), one = splat(1.0f), infinity = splat(__builtin_inff());
  const Floats size = (Floats)((Ints)x & splat_int(INT32_MAX)),
               reach = (Floats)((Ints)y & splat_int(INT32_MAX));
  const Ints is_usual = (size > zero) & (size < infinity);
  Floats result = pow_of_positive(select(is_usual, size, one), y);
  result = select(is_usual, result, select((size == zero) == (y > zero), zero, infinity));
  // From 2^24 on all are even, and what is no number does not matter.
  const Ints is_large = ~(reach < splat(16777216.0f));
  const Floats bounded = select(is_large, zero, reach);
  const Ints nearest = __builtin_convertvector(bounded, Ints);
  const Ints is_whole = is_large | (__builtin_convertvector(nearest, Floats) == bounded);
  const Ints is_negative = (Ints)x >> 31;
  const Ints is_odd = is_whole & ~is_large & -(nearest & splat_int(1));
  result = (Floats)((Ints)result ^ (is_negative & is_odd & splat_int(INT32_MIN)));
  const Ints has_none = (is_negative & is_usual & ~is_whole) | (x != x) | (y != y);
  result = select(has_none, x + y + splat(__builtin_nanf("")), result);
  const Ints is_one = (y == zero) | (x == one) | ((size == one) & (reach == infinity));
  return select(is_one, one, result);
}

constexpr double kLn2 = 0.69314718055994531;

// The logarithm to base 2 times `factor`.
PENLIGHT_INLINE Floats logarithm_of(Floats x, double factor) {
  const Floats zero = splat(0.0f), infinity = splat(__builtin_inff());
  const Floats usual = select((x > zero) & (x < infinity), x, splat(1.0f));
  Floats result =
      in_double([&](HalfDoubles t) __attribute__((always_inline)) { return factor * log2_of(t); }, usual);
  result = select(x == zero, -infinity, result);
  result = select(x < zero, splat(__builtin_nanf("")), result);
  return select(x < infinity, result, x);
}

PENLIGHT_INLINE Floats exp2_of(Floats x) {
#if defined(__FMA__) || defined(__aarch64__)
  // x = n + r, and 2^r = 1 + r ln2 + r^2 p(r), of which the first sum is kept with what it is rounded by.
  const Floats kept = at_least(at_most(x, splat(129.0f)), splat(-126.0f)), magic = splat(12582912.0f);
  const Floats shifted = kept + magic, n = shifted - magic, r = kept - n, one = splat(1.0f),
               slope = splat(0.693147182f);
  const Floats p = polynomial(r, 1.53533619e-4f, 1.33988744e-3f, 9.61843736e-3f, 5.55033247e-2f,
                              2.40226479e-1f, 2.03904829e-8f);
  const Floats sum = r * slope + one, rest = r * slope + (one - sum);
  const Floats normal = times_power_of_two(sum + (r * p + rest), n, (Ints)shifted - splat_int(0x4b400000));
  if (!any_of(x < splat(-126.0f))) return normal;  // subnormal results would be rounded twice
#endif
  return in_double([](HalfDoubles t) __attribute__((always_inline)) { return exp2_of(t); }, x);
}

PENLIGHT_INLINE Floats sinh_of(Floats x) {
  const Floats z = x * x;
  const Floats small = polynomial(z, 1.0f / 362880, 1.0f / 5040, 1.0f / 120, 1.0f / 6) * z * x + x;
  const Floats large = in_double(
      [](HalfDoubles t) __attribute__((always_inline)) {
        const HalfDoubles power = exp2_of(t / kLn2);
        return 0.5 * power - 0.5 / power;
      },
      x);
  return select((x < splat(1.0f)) & (x > splat(-1.0f)), small, large);
}

PENLIGHT_INLINE Floats cosh_of(Floats x) {
  return in_double(
      [](HalfDoubles t) __attribute__((always_inline)) {
        const HalfDoubles power = exp2_of(t / kLn2);
        return 0.5 * power + 0.5 / power;
      },
      x);
}

// sign(x) function(|x|) for finite x; others are what they are.
template <class Function>
PENLIGHT_INLINE Floats odd(Function&& function, Floats x) {
  const Ints sign = (Ints)x & splat_int(INT32_MIN);
  const Floats size = (Floats)((Ints)x ^ sign);
  const Ints finite = size < splat(__builtin_inff());
  const Floats result = in_double(function, select(finite, size, splat(0.0f)));
  return select(finite, (Floats)((Ints)result | sign), x);
}

PENLIGHT_INLINE Floats asinh_of(Floats x) {
  return odd(
      [](HalfDoubles t) __attribute__((always_inline)) {
        const HalfDoubles z = t * t, near = t * (1.0 - z / 6.0 + z * z * 0.075);
        const HalfDoubles far = kLn2 * log2_of(t + sqrt_of(z + 1.0));
        return t < 0.01 ? near : far;
      },
      x);
}

PENLIGHT_INLINE Floats atanh_of(Floats x) {
  const Floats result = odd(
      [](HalfDoubles t) __attribute__((always_inline)) {
        const HalfDoubles z = t * t, near = t * (1.0 + z / 3.0 + z * z * 0.2);
        // Of what is not below 1, below.
        const HalfDoubles kept = t < 1.0 ? t : HalfDoubles{};
        const HalfDoubles far = 0.5 * kLn2 * log2_of((1.0 + kept) / (1.0 - kept));
        return t < 0.01 ? near : far;
      },
      x);
  const Floats size = (Floats)((Ints)x & splat_int(INT32_MAX)), one = splat(1.0f);
  const Floats beyond = select(size > one, splat(__builtin_nanf("")), x * splat(__builtin_inff()));
  return select(size < one, result, select(x == x, beyond, x));
}

PENLIGHT_INLINE Floats acosh_of(Floats x) {
  const Floats infinity = splat(__builtin_inff()), one = splat(1.0f);
  const Floats result = in_double(
      [](HalfDoubles t) __attribute__((always_inline)) { return kLn2 * log2_of(t + sqrt_of(t * t - 1.0)); },
      select((x >= one) & (x < infinity), x, one));
  return select(x < one, splat(__builtin_nanf("")), select(x < infinity, result, x));
}

PENLIGHT_INLINE Floats hypot_of(Floats x, Floats y) {
  const Floats infinity = splat(__builtin_inff());
  const Floats result = in_double([](HalfDoubles a, HalfDoubles b)
                                      __attribute__((always_inline)) { return sqrt_of(a * a + b * b); },
                                  x, y);
  const Floats across = (Floats)((Ints)x & splat_int(INT32_MAX)),
               up = (Floats)((Ints)y & splat_int(INT32_MAX));
  return select((across == infinity) | (up == infinity), infinity, result);
}

// What is left of x, with its sign, when y was taken away as often as it is in it.
PENLIGHT_INLINE Floats fmod_of(Floats x, Floats y) {
  const Ints sign = (Ints)x & splat_int(INT32_MIN);
  const Floats from = (Floats)((Ints)x ^ sign), by = (Floats)((Ints)y & splat_int(INT32_MAX));
  // Exact in double up to here: a whole number of 29 bits times one of 24.
  const Ints near = (from / by < splat(536870912.0f)) & (by < splat(__builtin_inff()));
  const Floats rest = in_double(
      [](HalfDoubles a, HalfDoubles b) __attribute__((always_inline)) {
        const HalfDoubles shift = 4503599627370496.0 - HalfDoubles{}, quotient = a / b;  // 2^52
        const HalfDoubles nearest = (quotient + shift) - shift;
        return a - (nearest > quotient ? nearest - 1.0 : nearest) * b;
      },
      select(near, from, splat(0.0f)), select(near, by, splat(1.0f)));
  Floats result = (Floats)((Ints)rest | sign);
  if (!any_of(~near)) return result;
  for (int i = 0; i < kLanes; ++i) {
    if (!near[i]) result[i] = ::fmodf(x[i], y[i]);
  }
  return result;
}

PENLIGHT_INLINE Floats erfc_of(Floats x) {
  // What is left of (1 + z) exp(z^2) erfc(z), z = |x|, is a polynomial of (z - 2.5) / (z + 2.5). From 10.5 on
  // the result is 0.
  const Floats size = at_most((Floats)((Ints)x & splat_int(INT32_MAX)), splat(10.5f));
  const Floats result = in_double(
      [](HalfDoubles z, HalfDoubles sign) __attribute__((always_inline)) {
        const HalfDoubles inverse = 1.0 / ((z + 2.5) * (z + 1.0)), u = (z - 2.5) * (z + 1.0) * inverse;
        const HalfDoubles p = polynomial_in_double(
            u, -3.0362766689731449e-5, -4.5005545714865942e-5, 2.4116796314819122e-4, 3.4804795241783849e-4,
            -1.7502291897623738e-3, -8.51357952098386e-4, 1.4383215801036152e-2, -3.1522811121677009e-2,
            1.6298459980354438e-2, 7.6344355515723969e-2, -2.4704674931081408e-1, 7.3782227397388727e-1);
        const HalfDoubles above = p * (z + 2.5) * inverse * exp2_of(z * z * (-1.0 / kLn2));
        return sign < 0.0 ? 2.0 - above : above;
      },
      size, x);
  return select(x == x, result, x);
}

// log(gamma(x)) of what is positive and finite: (x - 1) (x - 2) times a polynomial from 1 to 4, Stirling's
// series beyond.
PENLIGHT_INLINE HalfDoubles lgamma_of_positive(HalfDoubles x) {
  const HalfDoubles log = kLn2 * log2_of(x), y = x < 1.0 ? x + 1.0 : x, zero{};
  const HalfDoubles u = ((y < 4.0 ? y : zero) - 2.5) * (1.0 / 1.5), inverse = 1.0 / x, z = inverse * inverse;
  const HalfDoubles p = polynomial_in_double(
      u, 1.4519461986746775e-5, -2.519698968215499e-5, -2.5161085440594664e-5, 4.3372619837499774e-5,
      6.3094095204431165e-5, -1.1009950082033339e-4, 4.1777328294466561e-5, -7.6316014465019474e-5,
      2.3855887899177245e-4, -4.3125451700936103e-4, 7.4806423711507548e-4, -1.3842049452621772e-3,
      2.6094278529585454e-3, -5.0021745766802874e-3, 9.8670825878795019e-3, -2.0313307537075183e-2,
      4.478659753680088e-2, -1.1199536183916452e-1, 3.7957716063055888e-1);
  const HalfDoubles near = (y - 1.0) * (y - 2.0) * p + (x < 1.0 ? -log : zero);  // 0, not -0, of 1
  const HalfDoubles series =
      polynomial_in_double(z, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12) * inverse;
  return y < 4.0 ? near : (x - 0.5) * log - x + 0.91893853320467274 + series;
}

PENLIGHT_INLINE Floats lgamma_of(Floats x) {
  const Floats infinity = splat(__builtin_inff()), zero = splat(0.0f);
  const Floats size = (Floats)((Ints)x & splat_int(INT32_MAX));
  const Ints usual = (size > zero) & (size < infinity), negative = usual & (x < zero);
  const Floats kept = select(usual, size, splat(1.0f));
  Floats result =
      in_double([](HalfDoubles t) __attribute__((always_inline)) { return lgamma_of_positive(t); }, kept);
  if (any_of(negative)) {
    // gamma(-x) gamma(x) is pi / (x sin(pi x)), but for its sign.
    const Floats rest = kept - whole_of<Whole::Nearest>(kept);
    const Floats mirrored = in_double(
        [](HalfDoubles t, HalfDoubles r) __attribute__((always_inline)) {
          const HalfDoubles angle = 3.14159265358979324 * (r < 0.0 ? -r : r), z = angle * angle;
          const HalfDoubles sine = polynomial_in_double(z, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
                                                        -1.0 / 5040, 1.0 / 120, -1.0 / 6, 1.0) *
                                   angle;
          const HalfDoubles quotient = 3.14159265358979324 / (t * sine);
          return kLn2 * log2_of(r == 0.0 ? quotient * 0.0 + 1.0 : quotient) - lgamma_of_positive(t);
        },
        kept, rest);
    result = select(negative, select(rest == zero, infinity, mirrored), result);
    // Where the parts are nearly the same, what is left of them has too few digits.
    const Ints few = negative & (result < splat(0.02f)) & (result > splat(-0.02f));
    if (any_of(few)) {
      for (int i = 0; i < kLanes; ++i) {
        if (few[i]) result[i] = static_cast<float>(::lgamma(static_cast<double>(x[i])));
      }
    }
  }
  result = select(usual, result, infinity);
  return select(x == x, result, x);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
