// The C library's functions under one name for float and double.
//
// <math.h> in C gives no overloads, and what a C++ library adds to it is not
// something kernels may count on.
#pragma once

#include <math.h>
#include <stdint.h>

namespace penlight::math {

#define PENLIGHT_MATH_1(name)                         \
  inline float name(float x) { return ::name##f(x); } \
  inline double name(double x) { return ::name(x); }
#define PENLIGHT_MATH_2(name)                                     \
  inline float name(float x, float y) { return ::name##f(x, y); } \
  inline double name(double x, double y) { return ::name(x, y); }

PENLIGHT_MATH_1(fabs)
PENLIGHT_MATH_1(ceil)
PENLIGHT_MATH_1(floor)
PENLIGHT_MATH_1(trunc)
PENLIGHT_MATH_1(nearbyint)
PENLIGHT_MATH_1(sqrt)
PENLIGHT_MATH_1(exp)
PENLIGHT_MATH_1(exp2)
PENLIGHT_MATH_1(expm1)
PENLIGHT_MATH_1(log)
PENLIGHT_MATH_1(log2)
PENLIGHT_MATH_1(log10)
PENLIGHT_MATH_1(log1p)
PENLIGHT_MATH_1(sin)
PENLIGHT_MATH_1(cos)
PENLIGHT_MATH_1(tan)
PENLIGHT_MATH_1(asin)
PENLIGHT_MATH_1(acos)
PENLIGHT_MATH_1(atan)
PENLIGHT_MATH_1(sinh)
PENLIGHT_MATH_1(cosh)
PENLIGHT_MATH_1(tanh)
PENLIGHT_MATH_1(asinh)
PENLIGHT_MATH_1(acosh)
PENLIGHT_MATH_1(atanh)
PENLIGHT_MATH_1(erf)
PENLIGHT_MATH_1(erfc)
PENLIGHT_MATH_2(atan2)
PENLIGHT_MATH_2(pow)
PENLIGHT_MATH_2(fmod)
PENLIGHT_MATH_2(hypot)
PENLIGHT_MATH_2(copysign)
#undef PENLIGHT_MATH_1
#undef PENLIGHT_MATH_2

inline bool is_nan(float x) { return x != x; }
inline bool is_nan(double x) { return x != x; }
inline bool is_nan(int64_t) { return false; }

}  // namespace penlight::math
