// Elementary functions, a vector at a time.
//
// exp: 2^n * p(r) with |r| <= ln2/2 and a polynomial of degree 6, fitted for the least relative error; at
// most 1 ulp, 2 where a multiply and an add round separately. With AVX-512 by sixteen powers of two (Tang,
// "Table-driven implementation of the exponential function in IEEE floating-point arithmetic", 1989); at most
// 1 ulp, of scores 2. expm1: at most 3 ulp.
//
// sigmoid: by exp; at most 3 ulp, with AVX-512 4. tanh: Cephes' tanhf; at most 2 ulp. erf: x times a quotient
// of polynomials in x^2, fitted for the least relative error up to where the result is 1; at most 6 ulp, 7
// where a multiply and an add round separately. GELU: by a quotient of its own, with AVX-512 by sixteen
// polynomials; that of tanh by the sigmoid function.
//
// log: Cephes' logf, with AVX-512 by sixteen parts of the range and a polynomial within them; at most 2 ulp.
// log1p: by that; at most 4 ulp.
//
// sin, cos: the angle is reduced by pi/2 in three parts, or in double precision, and Cephes' polynomials take
// the rest; at most 2 ulp. Angles beyond 2^20 are the C library's. tan: sin by cos; at most 5 ulp. atan,
// atan2: a polynomial of degree 9 in t^2 for t = tan in [0, 1], fitted for the least relative error; at most
// 3 ulp. asin, acos: one of degree 5 up to 1/2, fitted so, and halves of the angle beyond; at most 3 ulp.
//
// NaN stays NaN, results reach 0 and infinity where the C library's do. Functions of an `F` take a vector, or
// several (see twice.h).
#pragma once

#include "twice.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

// By Horner's rule, coefficients from the highest power on.
template <class F, class... Lower>
PENLIGHT_INLINE F polynomial(F x, float highest, Lower... lower) {
  F sum = splat(highest);
  ((sum = sum * x + splat(lower)), ...);
  return sum;
}

// e^x is p * 2^n, and p is 1 + rest.
template <class F>
struct Parts {
  F p, rest;
  BitsOf<F> n;
  F whole;  // n
};

template <class F>
PENLIGHT_INLINE Parts<F> parts_of_exp(F x) {
  // n = round(x / ln2), by adding and taking away 1.5 * 2^23.
  const Floats magic = splat(12582912.0f);
  const F shifted = x * splat(1.44269504f) + magic;
  const F n = shifted - magic;
  F r = x - n * splat(0.693145752f);
  r = r - n * splat(1.42860677e-6f);
  F p = polynomial(r, 1.38145403e-3f, 8.36874545e-3f, 4.16683890e-2f, 1.66665211e-1f, 4.99999940e-1f, 1.0f);
  return {p * r + splat(1.0f), p * r, bits_of(shifted) - splat_int(0x4b400000), n};
}

// 2^n from its exponent: zero for n = -127, infinite for 128.
template <class I>
PENLIGHT_INLINE auto power_of_two(I n) {
  return number_of((n + splat_int(127)) << 23);
}

#if defined(__AVX512F__)
// x * 2^floor(n) in lanes of the mask, and 0 in others.
PENLIGHT_INLINE Floats scaled(Floats x, Floats n, __mmask16 lanes = 0xffff) {
  return (Floats)_mm512_maskz_scalef_ps(lanes, (__m512)x, (__m512)n);
}
#endif

// p * 2^n, for n from -252 to 256, which is there as both kinds of number.
template <class F>
PENLIGHT_INLINE F times_power_of_two(F p, F n, BitsOf<F> whole) {
#if defined(__AVX512F__)
  (void)whole;
  return scaled(p, n);
#else
  (void)n;
  const BitsOf<F> half = whole >> 1;
  return p * power_of_two(half) * power_of_two(whole - half);
#endif
}

#if defined(__AVX512F__)
// 2^(j/16), and what float32 leaves out of it.
constexpr float kPowers[16] = {1.0f,       1.0442737f, 1.0905077f, 1.1387886f, 1.1892071f, 1.2418578f,
                               1.2968396f, 1.3542556f, 1.4142135f, 1.4768262f, 1.5422108f, 1.6104903f,
                               1.6817929f, 1.7562522f, 1.8340081f, 1.9152066f};
constexpr float kRests[16] = {
    0.0f,          4.83347e-08f,    -1.307754e-08f,  5.3862223e-08f, 3.7976353e-08f,
    4.496838e-08f, -4.0189995e-08f, -1.0123349e-08f, 2.4203235e-08f, -4.500899e-08f,
    8.070905e-09f, 9.836217e-09f,   -2.4755327e-08f, -9.23577e-09f,  -1.1239278e-08f,
    9.845328e-09f};

// e^x, or e^-x for a `sign` of -1, is 2^n * (1 + r * slope): n is the exponent to the nearest sixteenth, and
// the low bits of `at` its sixteenths, for x up to 1e4. |r| is ln2/32 at most and the slope of degree 2.
struct Reduced {
  Floats n, r, slope;
  Ints at;
};

template <int sign = 1>
PENLIGHT_INLINE Reduced reduced(Floats x) {
  constexpr float kSign = static_cast<float>(sign);
  const Floats magic = splat(786432.0f);  // 1.5 * 2^19, whose last bit is a sixteenth
  const Floats shifted = x * splat(kSign * 1.44269504f) + magic, n = shifted - magic;
  Floats r = x - n * splat(kSign * 0.693145752f);
  r = r - n * splat(kSign * 1.42860677e-6f);
  return {n, r, polynomial(r, kSign * 0.166666672f, 0.5f, kSign), (Ints)shifted};
}

PENLIGHT_INLINE Floats exp_of(Floats x) {
  const Reduced e = reduced(at_least(at_most(x, splat(90.0f)), splat(-105.0f)));
  const Floats power = pick_lanes(load(kPowers), e.at), rest = pick_lanes(load(kRests), e.at);
  return scaled(e.slope * (power * e.r + rest) + power, e.n);
}

// For what is at most zero, as a score less the largest: what would be subnormal is zero. So is what becomes
// of an infinity, and not what becomes of a NaN.
PENLIGHT_INLINE Floats exp_of_score(Floats x) {
  const Reduced e = reduced(x);
  const Floats power = pick_lanes(load(kPowers), e.at);
  const __mmask16 normal = _mm512_cmp_ps_mask((__m512)x, (__m512)splat(-87.3f), _CMP_NLT_UQ);
  return scaled(e.slope * (power * e.r) + power, e.n, normal);
}

// 1 + e^-x, for |x| up to 91, where it is infinite.
PENLIGHT_INLINE Floats raised_exp(Floats x) {
  const Reduced e = reduced<-1>(x);
  const Floats power = pick_lanes(load(kPowers), e.at);
  return splat(1.0f) + scaled(e.slope * (power * e.r) + power, e.n);
}

PENLIGHT_INLINE Floats sigmoid_of(Floats x) {
  return splat(1.0f) / raised_exp(at_least(at_most(x, splat(91.0f)), splat(-91.0f)));
}

// x times the sigmoid function of y, which is NaN where x is.
PENLIGHT_INLINE Floats times_sigmoid(Floats x, Floats y) {
  constexpr int kLeastMagnitude = 2;  // and the sign of the first
  return x /
         raised_exp((Floats)_mm512_maskz_range_ps(0xffff, (__m512)y, (__m512)splat(91.0f), kLeastMagnitude));
}
#else
template <class F>
PENLIGHT_INLINE F exp_of(F x) {
  // Beyond these the result is 0 or infinity by its exponent. A NaN is neither. n reaches 130 at the top and
  // -151 among subnormals.
  const Parts<F> parts = parts_of_exp(at_least(at_most(x, F(splat(90.0f))), F(splat(-105.0f))));
  return times_power_of_two(parts.p, parts.whole, parts.n);
}

// For what is at most zero, as a score less the largest: what would be subnormal is zero.
template <class F>
PENLIGHT_INLINE F exp_of_score(F x) {
  const Parts<F> parts = parts_of_exp(at_least(x, F(splat(-88.0f))));
  return parts.p * power_of_two(parts.n);
}

// 1 / (1 + e^-x), numerator and denominator halved: half of e^89.5 is infinite, the result 0 as in ATen.
template <class F>
PENLIGHT_INLINE F sigmoid_of(F x) {
  const Parts<F> parts = parts_of_exp(at_least(at_most(-x, F(splat(89.5f))), F(splat(-87.0f))));
  return splat(0.5f) / (splat(0.5f) + parts.p * power_of_two(parts.n - splat_int(1)));
}

// x times the sigmoid function of y.
template <class F>
PENLIGHT_INLINE F times_sigmoid(F x, F y) {
  return x * sigmoid_of(y);
}
#endif

// e^x - 1: below -30 it is -1, from 88.8 on infinite.
PENLIGHT_INLINE Floats expm1_of(Floats x) {
  const Parts<Floats> parts = parts_of_exp(at_least(at_most(x, splat(88.8f)), splat(-30.0f)));
  // Half of it, as 2^128 is infinite.
  const Floats half = power_of_two(parts.n - splat_int(1));
  const Floats result = splat(2.0f) * (parts.rest * half + (half - splat(0.5f)));
  return (Floats)((Ints)result | ((Ints)x & splat_int(INT32_MIN)));  // -0 of -0
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

template <class F>
PENLIGHT_INLINE F tanh_of(F x) {
  // Near zero the quotient would lose digits: a polynomial there (Cephes' tanhf).
  const F magnitude = number_of(bits_of(x) & splat_int(INT32_MAX));
  const F z = x * x;
  F p = polynomial(z, -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f,
                   -3.33332819422e-1f);
  const F small = p * z * x + x;
  // From 10 on the result is 1.
  const Parts<F> parts = parts_of_exp(at_most(magnitude + magnitude, F(splat(20.0f))));
  const F large = splat(1.0f) - splat(2.0f) / (parts.p * power_of_two(parts.n) + splat(1.0f));
  const BitsOf<F> sign = bits_of(x) & splat_int(INT32_MIN);
  return number_of(bits_of(select(magnitude < F(splat(0.625f)), small, large)) | sign);  // -0 of -0
}

template <class F>
PENLIGHT_INLINE F erf_of(F x) {
  const F kept = at_least(at_most(x, F(splat(3.92f))), F(splat(-3.92f)));
  const F z = kept * kept;
  F p = polynomial(z, -1.28007303e-8f, 4.60941556e-6f, 3.76765674e-4f, 3.83863831e-3f, 5.42441271e-2f,
                   1.85135186e-1f, 1.12837923f);
  F q = polynomial(z, 6.24008971e-5f, 1.30153716e-3f, 1.54301031e-2f, 1.13873854e-1f, 4.97405201e-1f, 1.0f);
  // The quotient may round to more than 1, which it never is.
  return at_least(at_most(kept * p / q, F(splat(1.0f))), F(splat(-1.0f)));
}

#if defined(__AVX512F__)
// Phi(a) - 1/2, the normal distribution's: for a within 1/5.5 of k/2.75 a polynomial of degree 5 in
// 2.75 a - k, fitted for the least error; a row is what they have of one power, the highest first.
constexpr float kNormal[6][16] = {
    {6.2979321e-05f, 4.3716576e-05f, 1.8436768e-06f, -3.1413303e-05f, -3.8036884e-05f, -2.387007e-05f,
     -5.7751977e-06f, 4.9508999e-06f, 7.2746871e-06f, 5.332322e-06f, 2.8121635e-06f, 1.1665493e-06f,
     3.9515754e-07f, 1.1149848e-07f, 2.6523573e-08f, 5.3618856e-09f},
    {0.0f, 0.00028147566f, 0.00039828685f, 0.00031521046f, 0.00013020127f, -2.9757486e-05f, -0.00010233468f,
     -0.00010047098f, -6.7160567e-05f, -3.4806078e-05f, -1.4664741e-05f, -5.1417687e-06f, -1.5206067e-06f,
     -3.8257465e-07f, -8.2367933e-08f, -1.52396e-08f},
    {-0.0031970791f, -0.0025968319f, -0.001156118f, 0.00033513014f, 0.0012384451f, 0.0014116782f,
     0.0011124997f, 0.00068632251f, 0.0003467339f, 0.00014662452f, 5.2548512e-05f, 1.6086191e-05f,
     4.2283655e-06f, 9.5794303e-07f, 1.8756411e-07f, 3.1806106e-08f},
    {0.0f, -0.0089775575f, -0.014724816f, -0.015869994f, -0.013320614f, -0.0091836462f, -0.0053253472f,
     -0.0026303607f, -0.0011150511f, -0.00040766119f, -0.0001289647f, -3.5386394e-05f, -8.4363201e-06f,
     -1.7498261e-06f, -3.1608704e-07f, -4.9766808e-08f},
    {0.14506991f, 0.13578871f, 0.11135831f, 0.08001183f, 0.050368432f, 0.027780192f, 0.013424085f,
     0.0056833811f, 0.0021081499f, 0.00068512355f, 0.00019507833f, 4.8665599e-05f, 1.063673e-05f,
     2.0368891e-06f, 3.4174343e-07f, 5.0235048e-08f},
    {0.0f, 0.14193521f, 0.26647055f, 0.36234355f, 0.42710242f, 0.46548182f, 0.48543853f, 0.49454322f,
     0.4981876f, 0.49946743f, 0.49986175f, 0.49996832f, 0.49999359f, 0.49999887f, 0.49999982f, 0.49999997f},
};

// At most 1 ulp for x > 0, 1.2e-7 for x < 0.
PENLIGHT_INLINE Floats gelu_of(Floats x) {
  const Floats magnitude = (Floats)((Ints)x & splat_int(0x7fffffff));
  // Within the last one, which is 1/2 here; times 2.75 it is exact.
  const Floats kept = at_most(magnitude, splat(5.625f));
  const Floats magic = splat(12582912.0f);
  const Floats shifted = kept * splat(2.75f) + magic;
  const Floats t = kept * splat(2.75f) - (shifted - magic);
  const auto coefficient = [&](int row) __attribute__((always_inline)) {
    return pick_lanes(load(kNormal[row]), (Ints)shifted);
  };
  Floats p = coefficient(0);
  repeat<5>([&](auto row) __attribute__((always_inline)) { p = p * t + coefficient(row + 1); });
  return magnitude * p + splat(0.5f) * x;
}
#else
// Phi(x) - 1/2 is x times a quotient of polynomials in x^2, fitted for the least error. At most 4 ulp for
// x > 0, 2.1e-7 times -x for x < 0. Not a sum of two products: compilers choose which of them to round.
template <class F>
PENLIGHT_INLINE F gelu_of(F x) {
  // Where the quotient is 1/2, also if a multiply and an add round separately.
  constexpr float kLast = 5.50000429f;
  const F kept = at_least(at_most(x, F(splat(kLast))), F(splat(-kLast)));
  const F z = kept * kept;
  const F p = polynomial(z, 2.27493418e-8f, 6.35207407e-6f, 1.68823725e-4f, 4.67724843e-3f, 3.38524897e-2f,
                         3.98942235e-1f);
  const F q =
      polynomial(z, 1.19749998e-6f, 7.36467165e-5f, 1.88443394e-3f, 2.86457751e-2f, 2.51521526e-1f, 1.0f);
  return x * (splat(0.5f) + kept * p / q);
}
#endif

#if defined(__AVX512F__)
// A positive number is m * 2^e with m from 3/4 to 3/2. The four bits below the one before m's point tell the
// sixteenth, or the thirty-second, that m is in: m is (1 + r) / inverse with r from -1/32 to 1/16. The
// numbers next to 1 have the inverse 1, and the others one whose logarithm float32 has to 30 bits and more.
constexpr float kInverse[16] = {1.0f,         0.914179265f, 0.864982545f, 0.820661068f,
                                0.780449152f, 0.744031608f, 0.711086273f, 0.681020498f,
                                1.3061446f,   1.25516284f,  1.20758951f,  1.16362619f,
                                1.12307632f,  1.08439147f,  1.04952693f,  1.0f};
constexpr float kLogarithm[16] = {0.0f,          0.0897285938f,  0.145045951f,   0.197645083f,
                                  0.247885689f,  0.295671761f,   0.340961516f,   0.384162873f,
                                  -0.267079741f, -0.227265313f,  -0.18862623f,   -0.151541159f,
                                  -0.116071634f, -0.0810189769f, -0.0483395196f, 0.0f};

// The instructions give -infinity as the exponent of 0 and NaN as m of what is negative, and leave infinity
// and NaN what they are.
PENLIGHT_INLINE Floats log_of(Floats x) {
  const Floats m =
      (Floats)_mm512_maskz_getmant_ps(0xffff, (__m512)x, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan);
  const Floats e =
      (Floats)_mm512_maskz_getexp_ps(0xffff, (__m512)x) - (Floats)_mm512_maskz_getexp_ps(0xffff, (__m512)m);
  const Ints part = (Ints)m >> 19;
  const Floats r = m * pick_lanes(load(kInverse), part) - splat(1.0f);
  const Floats p = polynomial(r, 1.88449617e-1f, -2.50061174e-1f, 3.33344561e-1f, -5.00000014e-1f);
  return p * (r * r) + r + (e * splat(0.693147181f) + pick_lanes(load(kLogarithm), part));
}
#else
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
  Floats p =
      polynomial(m, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f,
                 1.4249322787e-1f, -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  p = p * m * z + power * splat(-2.12194440e-4f) - splat(0.5f) * z;
  Floats result = m + p + power * splat(0.693359375f);
  result = select(x == splat(0.0f), splat(-__builtin_inff()), result);
  result = select(x < splat(0.0f), splat(__builtin_nanf("")), result);
  // Infinity and NaN are what they are.
  return select((x < splat(__builtin_inff())), result, x);
}
#endif

// log(1 + x), by what rounding makes of 1 + x (Kahan; see Goldberg, "What every computer scientist should
// know about floating-point arithmetic", 1991).
PENLIGHT_INLINE Floats log1p_of(Floats x) {
  const Floats raised = splat(1.0f) + x, kept = raised - splat(1.0f);
  const Ints as_it_is = (kept == splat(0.0f)) | (x == splat(__builtin_inff()));
  return select(as_it_is, x, log_of(raised) * (x / kept));
}

// x - n * pi/2 for the whole number n nearest to x / (pi/2).
PENLIGHT_INLINE Floats less_quarter_turns(Floats x, Floats n) {
#if defined(__FMA__) || defined(__aarch64__)
  // What the first part of pi/2 leaves is exact, and its rest has the digits that small remainders need.
  const Floats r = x - n * splat(1.57079637f);
  return r + n * splat(4.37113883e-8f) + n * splat(1.71512451e-15f);
#else
  // The first part has 33 bits, so that its product with n is exact.
  const Doubles wide = __builtin_convertvector(x, Doubles), turns = __builtin_convertvector(n, Doubles);
  return __builtin_convertvector(wide - turns * 1.57079632673412561417 - turns * 6.07710050650619224932e-11,
                                 Floats);
#endif
}

template <bool sine>
PENLIGHT_INLINE Floats sin_or_cos(Floats x) {
  // x = n * pi/2 + r.
  const Ints far = ~((x < splat(1048576.0f)) & (x > splat(-1048576.0f)));
  const Floats near = select(far, splat(0.0f), x);
  const Floats magic = splat(12582912.0f);
  const Floats shifted = near * splat(0.636619772f) + magic;
  const Floats r = less_quarter_turns(near, shifted - magic);
  const Ints quadrant = (Ints)shifted + splat_int(sine ? 0 : 1);
  const Floats z = r * r;
  Floats s = polynomial(z, -1.9515295891e-4f, 8.3321608736e-3f, -1.6666654611e-1f);
  s = s * z * r + r;
  Floats c = polynomial(z, 2.443315711809948e-5f, -1.388731625493765e-3f, 4.166664568298827e-2f);
  c = c * z * z - splat(0.5f) * z + splat(1.0f);
  const Floats value = select((quadrant & splat_int(1)) != splat_int(0), c, s);
  Floats result = (Floats)((Ints)value ^ ((quadrant & splat_int(2)) << 30));
  if constexpr (sine) result = select(x == splat(0.0f), x, result);  // of -0 as well
  if (!any_of(far)) return result;
  for (int i = 0; i < kLanes; ++i) {
    if (far[i]) result[i] = sine ? __builtin_sinf(x[i]) : __builtin_cosf(x[i]);
  }
  return result;
}

PENLIGHT_INLINE Floats tan_of(Floats x) { return sin_or_cos<true>(x) / sin_or_cos<false>(x); }

// The angle of the point (x, y), of (0, 0) as of points on the axis, of two infinities as of two equals.
PENLIGHT_INLINE Floats atan2_of(Floats y, Floats x) {
  const Floats across = (Floats)((Ints)x & splat_int(INT32_MAX)),
               up = (Floats)((Ints)y & splat_int(INT32_MAX));
  // t = tan of the angle to the nearer axis.
  const Ints steep = up > across;
  const Floats small = select(steep, across, up), large = select(steep, up, across);
  const Floats of_equals = select(large == splat(0.0f), splat(0.0f), splat(1.0f));
  const Floats t = select(small == large, of_equals, small / large);
  const Floats z = t * t;
  Floats p = polynomial(z, -1.78283197e-3f, 1.08687095e-2f, -3.10970023e-2f, 5.78813925e-2f, -8.39930624e-2f,
                        1.09508805e-1f, -1.42640159e-1f, 1.99985296e-1f, -3.33332986e-1f);
  const Floats angle = p * z * t + t;
  const Ints left = (Ints)x >> 31, sign = splat_int(INT32_MIN);
  const Floats axis = select(steep, splat(1.57079633f), select(left, splat(3.14159265f), splat(0.0f)));
  const Floats whole = axis + (Floats)((Ints)angle ^ ((steep ^ left) & sign));
  return (Floats)((Ints)whole ^ ((Ints)y & sign));
}

template <bool sine>
PENLIGHT_INLINE Floats asin_or_acos(Floats x) {
  // Beyond 1/2, asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
  const Ints sign = (Ints)x & splat_int(INT32_MIN);
  const Floats magnitude = (Floats)((Ints)x ^ sign);
  const Ints far = magnitude > splat(0.5f);
  const Floats z = select(far, splat(0.5f) - splat(0.5f) * magnitude, magnitude * magnitude);
  const Floats s = select(far, sqrt_of(z), magnitude);
  Floats p = polynomial(z, 4.21583056e-2f, 2.41847783e-2f, 4.54691499e-2f, 7.49530941e-2f, 1.66667521e-1f);
  const Floats part = p * z * s + s, twice = part + part;
  constexpr float kRight = 1.57079633f, kRest = -4.37113883e-8f;  // together pi/2
  if constexpr (sine) {
    const Floats angle = select(far, splat(kRight) - (twice - splat(kRest)), part);
    return (Floats)((Ints)angle | sign);
  } else {
    const Floats near = splat(kRight) - ((Floats)((Ints)part ^ sign) - splat(kRest));
    const Floats beyond = select(sign != splat_int(0), splat(2 * kRight) - (twice - splat(2 * kRest)), twice);
    return select(far, beyond, near);
  }
}

enum class Whole { Below, Above, TowardsZero, Nearest };

// A whole number with the sign of x; from 2^23 on, all are whole.
template <Whole which>
PENLIGHT_INLINE Floats whole_of(Floats x) {
#if defined(__AVX__)
  constexpr int kDirections[] = {_MM_FROUND_TO_NEG_INF, _MM_FROUND_TO_POS_INF, _MM_FROUND_TO_ZERO,
                                 _MM_FROUND_TO_NEAREST_INT};
  constexpr int kDirection = kDirections[static_cast<int>(which)] | _MM_FROUND_NO_EXC;
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_roundscale_ps(0xffff, (__m512)x, kDirection);
#else
  return (Floats)_mm256_round_ps((__m256)x, kDirection);
#endif
#else
  const Ints sign = (Ints)x & splat_int(INT32_MIN);
  const Floats size = (Floats)((Ints)x ^ sign), shift = splat(8388608.0f);
  Floats whole = (size + shift) - shift;  // the nearest, halves to the even one
  const Floats one = splat(1.0f), none{};
  const Floats lower = whole - select(whole > size, one, none);
  if constexpr (which == Whole::TowardsZero) whole = lower;
  if constexpr (which == Whole::Below || which == Whole::Above) {
    const Floats higher = whole + select(whole < size, one, none);
    const Ints outwards = which == Whole::Below ? sign != Ints{} : sign == Ints{};
    whole = select(outwards, higher, lower);
  }
  return select(size < shift, (Floats)((Ints)whole | sign), x);
#endif
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
