// The math functions that kernels use, for machines whose toolchain has no C library.
// platforms/freestanding/math/ defines those that zig's compiler_rt has not; with another
// compiler exp, log, sin and their like come from its own library (-lm).
#pragma once

#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define INFINITY __builtin_inff()
#define NAN __builtin_nanf("")
#define isnan(x) __builtin_isnan(x)
#define isinf(x) __builtin_isinf_sign(x)
#define isfinite(x) __builtin_isfinite(x)
#define signbit(x) __builtin_signbit(x)

#ifdef __cplusplus
extern "C" {
#endif

#define PENLIGHT_DECLARE_1(name) \
  double name(double x);         \
  float name##f(float x);
#define PENLIGHT_DECLARE_2(name)   \
  double name(double x, double y); \
  float name##f(float x, float y);

PENLIGHT_DECLARE_1(acos)
PENLIGHT_DECLARE_1(acosh)
PENLIGHT_DECLARE_1(asin)
PENLIGHT_DECLARE_1(asinh)
PENLIGHT_DECLARE_1(atan)
PENLIGHT_DECLARE_1(atanh)
PENLIGHT_DECLARE_1(ceil)
PENLIGHT_DECLARE_1(cos)
PENLIGHT_DECLARE_1(cosh)
PENLIGHT_DECLARE_1(erf)
PENLIGHT_DECLARE_1(erfc)
PENLIGHT_DECLARE_1(exp)
PENLIGHT_DECLARE_1(exp2)
PENLIGHT_DECLARE_1(expm1)
PENLIGHT_DECLARE_1(fabs)
PENLIGHT_DECLARE_1(floor)
PENLIGHT_DECLARE_1(lgamma)
PENLIGHT_DECLARE_1(log)
PENLIGHT_DECLARE_1(log10)
PENLIGHT_DECLARE_1(log1p)
PENLIGHT_DECLARE_1(log2)
PENLIGHT_DECLARE_1(nearbyint)
PENLIGHT_DECLARE_1(rint)
PENLIGHT_DECLARE_1(round)
PENLIGHT_DECLARE_1(sin)
PENLIGHT_DECLARE_1(sinh)
PENLIGHT_DECLARE_1(sqrt)
PENLIGHT_DECLARE_1(tan)
PENLIGHT_DECLARE_1(tanh)
PENLIGHT_DECLARE_1(trunc)
PENLIGHT_DECLARE_2(atan2)
PENLIGHT_DECLARE_2(copysign)
PENLIGHT_DECLARE_2(fmax)
PENLIGHT_DECLARE_2(fmin)
PENLIGHT_DECLARE_2(fmod)
PENLIGHT_DECLARE_2(hypot)
PENLIGHT_DECLARE_2(nextafter)
PENLIGHT_DECLARE_2(pow)

#undef PENLIGHT_DECLARE_1
#undef PENLIGHT_DECLARE_2

double fma(double x, double y, double z);
float fmaf(float x, float y, float z);

#ifdef __cplusplus
}
#endif
