// erf and erfc. Float ones compute in double.
#include <math.h>

namespace {

constexpr double kTwoOverRootPi = 1.12837916709551257390;
constexpr double kInverseRootPi = 0.56418958354775628695;

// exp(-x^2), with x^2 split in two parts: the rounding of a square alone would cost x^2 units.
double exp_minus_square(double x) {
  constexpr double kSplit = 134217729;  // 2^27 + 1
  const double scaled = x * kSplit;
  const double high = scaled - (scaled - x);
  return exp(-high * high) * exp(-(x - high) * (x + high));
}

// 2/sqrt(pi) exp(-x^2) sum of 2^n x^(2n+1) / (1 3 5 ... (2n+1)): no term is negative (Abramowitz and
// Stegun 7.1.6). x >= 0.
double series(double x) {
  const double twice_square = 2 * x * x;
  double term = x, sum = x;
  for (int n = 1; n < 100 && term > sum * 1e-17; ++n) {
    term *= twice_square / (2 * n + 1);
    sum += term;
  }
  return kTwoOverRootPi * exp_minus_square(x) * sum;
}

// erfc(x) = exp(-x^2)/sqrt(pi) / (x + (1/2)/(x + 1/(x + (3/2)/(x + ...)))) (7.1.14), from
// far out; the nearer to zero, the farther. x >= 1.
double fraction(double x) {
  double value = x;
  for (int k = 20 + static_cast<int>(300 / (x * x)); k > 0; --k) value = x + 0.5 * k / value;
  return kInverseRootPi * exp_minus_square(x) / value;
}

double erf_of(double x) {
  if (!(x < 0 || x > 0)) return x;
  const double a = __builtin_fabs(x);
  const double value = a < 2 ? series(a) : a < 6 ? 1 - fraction(a) : 1;
  return __builtin_copysign(value, x);
}

double erfc_of(double x) {
  if (x != x) return x;
  if (x < 0) return x < -6 ? 2 : 1 + erf_of(-x);
  if (x > 27.3) return 0;
  return x < 1 ? 1 - erf_of(x) : fraction(x);
}

}  // namespace

extern "C" {

double erf(double x) { return erf_of(x); }
double erfc(double x) { return erfc_of(x); }
float erff(float x) { return static_cast<float>(erf_of(x)); }
float erfcf(float x) { return static_cast<float>(erfc_of(x)); }

}  // extern "C"
