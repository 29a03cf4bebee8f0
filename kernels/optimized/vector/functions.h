// Elementary functions, a vector at a time.
//
// exp: 2^n * p(r) with |r| <= ln2/2 and a polynomial of degree 6 (Cephes' method);
// at most 2 ulp. tanh: Cephes' tanhf. erf: x times a quotient of polynomials in x^2,
// fitted for the least relative error up to where the result is 1; at most 6 ulp, 7
// where a multiply and an add round separately.
// log: Cephes' logf; at most 2 ulp. sin, cos: the angle is reduced in double precision and
// Cephes' polynomials take the rest; at most 2 ulp. Angles beyond 2^20 are the C library's.
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

PENLIGHT_INLINE Floats sqrt_of(Floats x) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_sqrt_ps(static_cast<__mmask16>(-1), (__m512)x);
#elif defined(__AVX__)
  return (Floats)_mm256_sqrt_ps((__m256)x);
#else
  Floats result;
  for (int i = 0; i < kLanes; ++i) result[i] = __builtin_sqrtf(x[i]);
  return result;
#endif
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

PENLIGHT_INLINE Floats log_of(Floats x) {
  // m * 2^e with m in [sqrt(1/2), sqrt(2)); subnormal numbers are made normal first.
  const Ints tiny = x < splat(1.17549435e-38f);
  const Ints bits = (Ints)select(tiny, x * splat(8388608.0f), x);
  Ints e = ((bits >> 23) & splat_int(255)) - splat_int(126) - (tiny & splat_int(23));
  Floats m = (Floats)((bits & splat_int(0x7fffff)) | splat_int(0x3f000000));
  const Ints small = m < splat(0.707106781f);
  e += small;  // a mask is -1
  m = select(small, m + m, m) - splat(1.0f);
  const Floats z = m * m, power = __builtin_convertvector(e, Floats);
  Floats p = splat(7.0376836292e-2f);
  p = p * m + splat(-1.1514610310e-1f);
  p = p * m + splat(1.1676998740e-1f);
  p = p * m + splat(-1.2420140846e-1f);
  p = p * m + splat(1.4249322787e-1f);
  p = p * m + splat(-1.6668057665e-1f);
  p = p * m + splat(2.0000714765e-1f);
  p = p * m + splat(-2.4999993993e-1f);
  p = p * m + splat(3.3333331174e-1f);
  p = p * m * z + power * splat(-2.12194440e-4f) - splat(0.5f) * z;
  Floats result = m + p + power * splat(0.693359375f);
  result = select(x == splat(0.0f), splat(-__builtin_inff()), result);
  result = select(x < splat(0.0f), splat(__builtin_nanf("")), result);
  // Infinity and NaN are what they are.
  return select((x < splat(__builtin_inff())), result, x);
}

typedef double Doubles __attribute__((vector_size(kLanes * 8)));

template <bool sine>
PENLIGHT_INLINE Floats sin_or_cos(Floats x) {
  // x = n * pi/2 + r; the first part of pi/2 has 33 bits, so that its product with n is exact.
  const Ints far = ~((x < splat(1048576.0f)) & (x > splat(-1048576.0f)));
  const Floats near = select(far, splat(0.0f), x);
  const Floats magic = splat(12582912.0f);
  const Floats shifted = near * splat(0.636619772f) + magic;
  const Doubles n = __builtin_convertvector(shifted - magic, Doubles);
  const Doubles wide = __builtin_convertvector(near, Doubles);
  const Floats r =
      __builtin_convertvector(wide - n * 1.57079632673412561417 - n * 6.07710050650619224932e-11, Floats);
  const Ints quadrant = (Ints)shifted + splat_int(sine ? 0 : 1);
  const Floats z = r * r;
  Floats s = splat(-1.9515295891e-4f);
  s = s * z + splat(8.3321608736e-3f);
  s = s * z + splat(-1.6666654611e-1f);
  s = s * z * r + r;
  Floats c = splat(2.443315711809948e-5f);
  c = c * z + splat(-1.388731625493765e-3f);
  c = c * z + splat(4.166664568298827e-2f);
  c = c * z * z - splat(0.5f) * z + splat(1.0f);
  const Floats value = select((quadrant & splat_int(1)) != splat_int(0), c, s);
  Floats result = (Floats)((Ints)value ^ ((quadrant & splat_int(2)) << 30));
  if (!any_of(far)) return result;
  for (int i = 0; i < kLanes; ++i) {
    if (far[i]) result[i] = sine ? __builtin_sinf(x[i]) : __builtin_cosf(x[i]);
  }
  return result;
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
