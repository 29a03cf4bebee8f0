// Elementary functions, a vector at a time.
//
// exp: 2^n * p(r) with |r| <= ln2/2 and a polynomial of degree 6 (Cephes' method);
// at most 2 ulp. tanh: Cephes' tanhf. erf: x times a quotient of polynomials in x^2,
// fitted for the least relative error up to where the result is 1; at most 6 ulp.
// NaN stays NaN, results reach 0 and infinity where the C library's do.
#pragma once

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

// 2^n * p with n an integer, as its bits at the low end of `shifted`; |x - n ln2| <= ln2/2.
struct Parts {
  Floats p;
  Ints n;
};

PENLIGHT_INLINE Parts parts_of_exp(Floats x) {
  // n = round(x / ln2), by adding and taking away 1.5 * 2^23.
  const Floats magic = splat(12582912.0f);
  const Floats shifted = x * splat(1.44269504f) + magic;
  const Floats n = shifted - magic;
  Floats r = x - n * splat(0.693145752f);
  r = r - n * splat(1.42860677e-6f);
  Floats p = splat(1.98756912e-4f);
  p = p * r + splat(1.39819994e-3f);
  p = p * r + splat(8.33345205e-3f);
  p = p * r + splat(4.16657962e-2f);
  p = p * r + splat(1.66666657e-1f);
  p = p * r + splat(0.5f);
  return {p * (r * r) + r + splat(1.0f), (Ints)shifted - splat_int(0x4b400000)};
}

PENLIGHT_INLINE Floats exp_of(Floats x) {
  // Beyond these the result is 0 or infinity by its exponent. A NaN is neither.
  const Parts parts = parts_of_exp(at_least(at_most(x, splat(90.0f)), splat(-105.0f)));
  // 2^n in two factors: n reaches 130 at the top and -151 among subnormals.
  const Ints half = parts.n >> 1;
  const Floats first = (Floats)((half + splat_int(127)) << 23);
  const Floats second = (Floats)((parts.n - half + splat_int(127)) << 23);
  return parts.p * first * second;
}

// For what is at most zero, as a score less the largest: what would be subnormal is zero, and
// costs no more than another.
PENLIGHT_INLINE Floats exp_of_score(Floats x) {
  const Floats least = splat(-87.0f);
  const Parts parts = parts_of_exp(at_least(x, least));
  const Floats result = parts.p * (Floats)((parts.n + splat_int(127)) << 23);
  return select(x < least, splat(0.0f), result);
}

// As ATen has it: 0 where exp(-x) is infinite.
PENLIGHT_INLINE Floats sigmoid_of(Floats x) { return splat(1.0f) / (splat(1.0f) + exp_of(-x)); }

PENLIGHT_INLINE Floats tanh_of(Floats x) {
  // Near zero the quotient would lose digits: a polynomial there (Cephes' tanhf).
  const Floats magnitude = (Floats)((Ints)x & splat_int(0x7fffffff));
  const Floats z = x * x;
  Floats p = splat(-5.70498872745e-3f);
  p = p * z + splat(2.06390887954e-2f);
  p = p * z + splat(-5.37397155531e-2f);
  p = p * z + splat(1.33314422036e-1f);
  p = p * z + splat(-3.33332819422e-1f);
  const Floats small = p * z * x + x;
  const Floats e = exp_of(magnitude + magnitude);
  const Floats large = splat(1.0f) - splat(2.0f) / (e + splat(1.0f));
  const Ints sign = (Ints)x & splat_int(INT32_MIN);
  const Floats signed_large = (Floats)((Ints)large | sign);
  return select(magnitude < splat(0.625f), small, signed_large);
}

PENLIGHT_INLINE Floats erf_of(Floats x) {
  const Floats kept = at_least(at_most(x, splat(3.92f)), splat(-3.92f));
  const Floats z = kept * kept;
  Floats p = splat(-1.28007303e-8f);
  p = p * z + splat(4.60941556e-6f);
  p = p * z + splat(3.76765674e-4f);
  p = p * z + splat(3.83863831e-3f);
  p = p * z + splat(5.42441271e-2f);
  p = p * z + splat(1.85135186e-1f);
  p = p * z + splat(1.12837923f);
  Floats q = splat(6.24008971e-5f);
  q = q * z + splat(1.30153716e-3f);
  q = q * z + splat(1.54301031e-2f);
  q = q * z + splat(1.13873854e-1f);
  q = q * z + splat(4.97405201e-1f);
  q = q * z + splat(1.0f);
  return kept * p / q;
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
