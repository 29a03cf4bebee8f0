// Elementary functions, a vector at a time.
//
// exp: 2^n * p(r) with |r| <= ln2/2 and a polynomial of degree 6 (Cephes' method);
// at most 2 ulp. tanh: Cephes' tanhf. erf: its Maclaurin series near zero, 1 - erfc
// beyond, with the fit of Numerical Recipes (Press et al., 6.2). NaN stays NaN,
// results reach 0 and infinity where the C library's do.
#pragma once

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

PENLIGHT_INLINE Floats exp_of(Floats x) {
  // Beyond these the result is 0 or infinity; a NaN fails both comparisons and stays.
  const Floats high = splat(88.7228393f), low = splat(-103.972084f);
  const Ints too_big = x > high, too_small = x < low;
  const Ints is_nan = x != x;
  const Floats kept = select(is_nan, splat(0.0f), at_least(at_most(x, high), low));
  // n = round(x / ln2), by adding and taking away 1.5 * 2^23.
  const Floats magic = splat(12582912.0f);
  const Floats shifted = kept * splat(1.44269504f) + magic;
  const Floats n = shifted - magic;
  Floats r = kept - n * splat(0.693145752f);
  r = r - n * splat(1.42860677e-6f);
  Floats p = splat(1.98756912e-4f);
  p = p * r + splat(1.39819994e-3f);
  p = p * r + splat(8.33345205e-3f);
  p = p * r + splat(4.16657962e-2f);
  p = p * r + splat(1.66666657e-1f);
  p = p * r + splat(0.5f);
  p = p * (r * r) + r + splat(1.0f);
  // 2^n in two factors: n reaches 128 at the top and -150 among subnormals.
  const Ints exponent = (Ints)shifted - splat_int(0x4b400000);
  const Ints half = exponent >> 1;
  const Floats first = (Floats)((half + splat_int(127)) << 23);
  const Floats second = (Floats)((exponent - half + splat_int(127)) << 23);
  Floats result = p * first * second;
  result = select(too_small, splat(0.0f), result);
  result = select(too_big, splat(__builtin_inff()), result);
  return select(is_nan, x, result);
}

PENLIGHT_INLINE Floats sigmoid_of(Floats x) {
  // exp of a negative number never overflows; the other half follows by symmetry.
  const Ints negative = x < splat(0.0f);
  const Floats e = exp_of(select(negative, x, -x));
  const Floats y = splat(1.0f) / (splat(1.0f) + e);
  return select(negative, e * y, y);
}

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
  const Floats magnitude = (Floats)((Ints)x & splat_int(0x7fffffff));
  const Floats z = x * x;
  // |x| < 0.875: x * p(x^2), the Maclaurin series, whose next term is below 2^-26.
  Floats p = splat(1.64621144e-6f);
  p = p * z + splat(-1.49256504e-5f);
  p = p * z + splat(1.20553330e-4f);
  p = p * z + splat(-8.54832700e-4f);
  p = p * z + splat(5.22397762e-3f);
  p = p * z + splat(-2.68661707e-2f);
  p = p * z + splat(1.12837917e-1f);
  p = p * z + splat(-3.76126389e-1f);
  p = p * z + splat(1.12837917f);
  const Floats small = p * x;
  // Beyond: 1 - erfc, by Numerical Recipes' erfcc (Chebyshev fit, error 1.2e-7).
  const Floats t = splat(1.0f) / (splat(1.0f) + splat(0.5f) * magnitude);
  Floats q = splat(0.17087277f);
  q = q * t + splat(-0.82215223f);
  q = q * t + splat(1.48851587f);
  q = q * t + splat(-1.13520398f);
  q = q * t + splat(0.27886807f);
  q = q * t + splat(-0.18628806f);
  q = q * t + splat(0.09678418f);
  q = q * t + splat(0.37409196f);
  q = q * t + splat(1.00002368f);
  q = q * t + splat(-1.26551223f);
  const Floats large = splat(1.0f) - t * exp_of(q - z);
  const Floats signed_large = (Floats)((Ints)large | ((Ints)x & splat_int(INT32_MIN)));
  const Floats result = select(magnitude < splat(0.875f), small, signed_large);
  return select(x != x, x, result);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
