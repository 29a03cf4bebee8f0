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

// 2/sqrt(pi) sum of (-1)^n x^(2n+1) / (n! (2n+1)) (Abramowitz and Stegun 7.1.5). Below 1 the
// terms that are taken away are small beside the first.
double series(double x) {
  const double square = x * x;
  double power = x, sum = 0;
  for (int n = 1; n < 30; ++n) {
    power *= -square / n;
    sum += power / (2 * n + 1);
  }
  return kTwoOverRootPi * (x + sum);
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
  const double value = a < 1 ? series(a) : a < 6 ? 1 - fraction(a) : 1;
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
