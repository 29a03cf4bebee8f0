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
// Integers are round already.
#define PENLIGHT_ROUNDING(name) \
  PENLIGHT_MATH_1(name)         \
  inline int64_t name(int64_t x) { return x; }
#define PENLIGHT_MATH_2(name)                                     \
  inline float name(float x, float y) { return ::name##f(x, y); } \
  inline double name(double x, double y) { return ::name(x, y); }

PENLIGHT_MATH_1(fabs)
PENLIGHT_ROUNDING(ceil)
PENLIGHT_ROUNDING(floor)
PENLIGHT_ROUNDING(trunc)
PENLIGHT_ROUNDING(nearbyint)  // halves to even, as the default rounding mode has it
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
PENLIGHT_MATH_2(hypot)
PENLIGHT_MATH_2(copysign)

inline double fmod(double x, double y) { return ::fmod(x, y); }
inline float fmod(float x, float y) {
#if defined(__x86_64__) || defined(__aarch64__)
  // Exact in double up to here: a whole number of 29 bits times one of 24.
  const double whole = ::trunc(static_cast<double>(x) / static_cast<double>(y));
  if (whole == 0) return x;
  if (::fabs(whole) < 536870912.0) {
    const double rest = static_cast<double>(x) - whole * static_cast<double>(y);
    return ::copysignf(static_cast<float>(rest), x);
  }
#endif
  return ::fmodf(x, y);
}

#undef PENLIGHT_MATH_1
#undef PENLIGHT_MATH_2
#undef PENLIGHT_ROUNDING

inline bool is_nan(float x) { return x != x; }
inline bool is_nan(double x) { return x != x; }
inline bool is_nan(int64_t) { return false; }

inline bool is_negative(float x) { return copysign(1.0f, x) < 0; }
inline bool is_negative(double x) { return copysign(1.0, x) < 0; }
inline bool is_negative(int64_t x) { return x < 0; }

// Sums and products. Integers wrap: they are computed as unsigned, since signed overflow is undefined.
template <class T>
T plus(T a, T b) {
  return a + b;
}
template <class T>
T minus(T a, T b) {
  return a - b;
}
template <class T>
T times(T a, T b) {
  return a * b;
}
template <class T>
T negative(T x) {
  return -x;
}
inline int64_t plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t minus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t negative(int64_t x) { return minus(int64_t{0}, x); }

}  // namespace penlight::math
