// expm1, log1p and the hyperbolic functions, from exp, log and sqrt. Largest errors
// measured, in units in the last place: tests/targets/test_math.py.
//
// Float functions compute in float: most boards have no hardware for double.
#include <math.h>

namespace {

// What the formulas below need to know of a type. `small`: where a series of `terms` terms of
// expm1 is exact enough. `saturated`: beyond it tanh is 1 and exp(-x) is nothing beside exp(x).
template <class T>
struct Limits;
template <>
struct Limits<float> {
  static constexpr float small = 0.5f, saturated = 10.0f, huge = 1e18f, overflow = 88.0f;
  static constexpr int terms = 9;
};
template <>
struct Limits<double> {
  static constexpr double small = 0.5, saturated = 20.0, huge = 1e150, overflow = 709.0;
  static constexpr int terms = 16;
};

float exp_of(float x) { return expf(x); }
double exp_of(double x) { return exp(x); }
float log_of(float x) { return logf(x); }
double log_of(double x) { return log(x); }
float sqrt_of(float x) { return __builtin_sqrtf(x); }
double sqrt_of(double x) { return __builtin_sqrt(x); }
template <class T>
T magnitude(T x) {
  return x < 0 ? -x : x;
}
// |value| with the sign of x, zeros included.
float with_sign(float value, float x) { return __builtin_copysignf(value, x); }
double with_sign(double value, double x) { return __builtin_copysign(value, x); }

// The series x + x^2/2! + ..., by Horner's rule.
template <class T>
T expm1_of(T x) {
  if (x == 0) return x;
  if (!(magnitude(x) < Limits<T>::small)) return exp_of(x) - T(1);
  T sum = 0;
  for (int k = Limits<T>::terms; k > 1; --k) sum = (sum + T(1)) * x / T(k);
  return x + x * sum;
}

// log(u) with u = 1 + x rounded, times x / (u - 1) to undo the rounding.
template <class T>
T log1p_of(T x) {
  const T u = T(1) + x;
  if (u == T(1)) return x;
  if (!(u <= Limits<T>::huge) || u == 0) return log_of(u);
  return log_of(u) * (x / (u - T(1)));
}

template <class T>
T sinh_of(T x) {
  const T a = magnitude(x);
  if (a > Limits<T>::overflow) {
    const T half = exp_of(a / 2);
    return with_sign((half / 2) * half, x);
  }
  const T t = expm1_of(a);
  return with_sign((t + t / (t + T(1))) / 2, x);
}

template <class T>
T cosh_of(T x) {
  const T a = magnitude(x);
  if (a > Limits<T>::overflow) {
    const T half = exp_of(a / 2);
    return (half / 2) * half;
  }
  const T e = exp_of(a);
  return e / 2 + T(0.5) / e;
}

template <class T>
T tanh_of(T x) {
  const T a = magnitude(x);
  if (a > Limits<T>::saturated) return with_sign(T(1), x);
  // -2a: expm1 lies in (-1, 0] there, so that nothing grows.
  const T t = expm1_of(-2 * a);
  return with_sign(-t / (t + T(2)), x);
}

template <class T>
T asinh_of(T x) {
  const T a = magnitude(x);
  if (!(a < Limits<T>::huge)) return with_sign(log_of(a) + T(0.693147180559945309), x);
  const T square = a * a;
  return with_sign(log1p_of(a + square / (T(1) + sqrt_of(square + T(1)))), x);
}

template <class T>
T acosh_of(T x) {
  if (x < 1) return (x - x) / (x - x);  // NaN
  if (!(x < Limits<T>::huge)) return log_of(x) + T(0.693147180559945309);
  const T t = x - T(1);
  return log1p_of(t + sqrt_of(2 * t + t * t));
}

template <class T>
T atanh_of(T x) {
  const T a = magnitude(x);
  return with_sign(log1p_of(2 * a / (T(1) - a)) / 2, x);
}

}  // namespace

extern "C" {

#define PENLIGHT_DEFINE(name)                    \
  double name(double x) { return name##_of(x); } \
  float name##f(float x) { return name##_of(x); }
PENLIGHT_DEFINE(expm1)
PENLIGHT_DEFINE(log1p)
PENLIGHT_DEFINE(sinh)
PENLIGHT_DEFINE(cosh)
PENLIGHT_DEFINE(tanh)
PENLIGHT_DEFINE(asinh)
PENLIGHT_DEFINE(acosh)
PENLIGHT_DEFINE(atanh)
#undef PENLIGHT_DEFINE

}  // extern "C"
