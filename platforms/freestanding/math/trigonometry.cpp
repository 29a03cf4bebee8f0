// The inverse trigonometric functions. Float ones compute in double: they are rare, and
// so within half a unit in the last place.
#include <math.h>

namespace {

constexpr double kPi = 3.14159265358979311600, kPiLow = 1.2246467991473531772e-16;
constexpr double kTan8 = 0.41421356237309504880;   // tan(pi/8)
constexpr double kTan16 = 0.19891236737965800691;  // tan(pi/16)

// atan of x in [0, 1]: pi/4 and pi/8 taken off until the rest is under pi/16, then its series.
double atan_of_small(double x) {
  double eighths = 0;
  if (x > 0.66817863791929891999) {  // tan(3 pi/16)
    eighths = 2;
    x = (x - 1) / (x + 1);
  } else if (x > kTan16) {
    eighths = 1;
    x = (x - kTan8) / (1 + x * kTan8);
  }
  const double square = x * x;
  double sum = 0;
  for (int k = 25; k > 1; k -= 2) sum = square * (1.0 / k - sum);
  return eighths * (kPi / 8) + (x - x * sum + eighths * (kPiLow / 8));
}

double atan_of_positive(double x) {
  return x <= 1 ? atan_of_small(x) : kPi / 2 - (atan_of_small(1 / x) - kPiLow / 2);
}

double atan_of(double x) {
  if (!(x < 0 || x > 0)) return x;  // zero, NaN
  return __builtin_copysign(atan_of_positive(__builtin_fabs(x)), x);
}

double atan2_of(double y, double x) {
  if (y != y || x != x) return x + y;
  const double a = __builtin_fabs(y), b = __builtin_fabs(x);
  double angle;
  if (a == 0) {
    angle = 0;
  } else if (a == b) {  // both infinite among them
    angle = kPi / 4;
  } else if (b == 0) {
    angle = kPi / 2;
  } else {
    angle = atan_of_positive(a / b);
  }
  if (__builtin_signbit(x)) angle = kPi - (angle - kPiLow);
  return __builtin_copysign(angle, y);
}

// (1 - x)(1 + x) loses nothing near 1, as 1 - x * x would.
double asin_of(double x) {
  if (!(x < 0 || x > 0)) return x;
  return atan2_of(x, __builtin_sqrt((1 - x) * (1 + x)));
}

double acos_of(double x) { return 2 * atan2_of(__builtin_sqrt((1 - x) / 2), __builtin_sqrt((1 + x) / 2)); }

}  // namespace

extern "C" {

double atan(double x) { return atan_of(x); }
double asin(double x) { return asin_of(x); }
double acos(double x) { return acos_of(x); }
double atan2(double y, double x) { return atan2_of(y, x); }
float atanf(float x) { return static_cast<float>(atan_of(x)); }
float asinf(float x) { return static_cast<float>(asin_of(x)); }
float acosf(float x) { return static_cast<float>(acos_of(x)); }
float atan2f(float y, float x) { return static_cast<float>(atan2_of(y, x)); }

}  // extern "C"
