// Rounding to the nearest integer, halves to even: what the default rounding mode does
// to a sum with a number that has no bits for fractions. The next number that there is, and a
// number with another's sign, which compilers call by name at times.
#include <math.h>
#include <stdint.h>
#include <string.h>

namespace {

template <class T>
T round_to_even(T x, T shift) {
  const T a = x < 0 ? -x : x;
  if (!(a < shift) || a == 0) return x;
  volatile T shifted = a + shift;
  const T rounded = shifted - shift;
  return __builtin_signbit(x) ? -rounded : rounded;
}

// Numbers of one sign are ordered as the integers of their bits.
template <class T, class Bits>
T next(T x, T to) {
  if (x != x || to != to) return x + to;
  if (x == to) return to;
  Bits bits;
  memcpy(&bits, &x, sizeof bits);
  if (x == 0) {
    bits = 1;  // the smallest, with the sign of where to
    memcpy(&x, &bits, sizeof x);
    return to < 0 ? -x : x;
  }
  bits += (x < to) == (x > 0) ? 1 : static_cast<Bits>(-1);
  memcpy(&x, &bits, sizeof x);
  return x;
}

template <class T, class Bits>
T with_sign(T x, T sign) {
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  Bits bits, signs;
  memcpy(&bits, &x, sizeof bits);
  memcpy(&signs, &sign, sizeof signs);
  bits = (bits & ~kSign) | (signs & kSign);
  memcpy(&x, &bits, sizeof x);
  return x;
}

}  // namespace

extern "C" {

double nearbyint(double x) { return round_to_even(x, 4503599627370496.0); }
double rint(double x) { return round_to_even(x, 4503599627370496.0); }
float nearbyintf(float x) { return round_to_even(x, 8388608.0f); }
float rintf(float x) { return round_to_even(x, 8388608.0f); }
double nextafter(double x, double to) { return next<double, uint64_t>(x, to); }
float nextafterf(float x, float to) { return next<float, uint32_t>(x, to); }
double copysign(double x, double sign) { return with_sign<double, uint64_t>(x, sign); }
float copysignf(float x, float sign) { return with_sign<float, uint32_t>(x, sign); }

}  // extern "C"
