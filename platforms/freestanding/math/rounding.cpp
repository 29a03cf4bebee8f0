// Rounding to the nearest integer, halves to even: what the default rounding mode does
// to a sum with a number that has no bits for fractions.
#include <math.h>

namespace {

template <class T>
T round_to_even(T x, T shift) {
  const T a = x < 0 ? -x : x;
  if (!(a < shift) || a == 0) return x;
  volatile T shifted = a + shift;
  const T rounded = shifted - shift;
  return __builtin_signbit(x) ? -rounded : rounded;
}

}  // namespace

extern "C" {

double nearbyint(double x) { return round_to_even(x, 4503599627370496.0); }
double rint(double x) { return round_to_even(x, 4503599627370496.0); }
float nearbyintf(float x) { return round_to_even(x, 8388608.0f); }
float rintf(float x) { return round_to_even(x, 8388608.0f); }

}  // extern "C"
