// Bessel functions of order 0 and 1, of all kinds, and Airy's; in double whatever the dtype.
//
// Near 0 the power series, which the kinds share but for signs; far from it
// Hankel's expansion in 1/x, which they share too. Between them, where the series
// of the falling kind would cancel, its integral, for which the trapezoidal rule
// converges faster than any power of the step.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kGamma = 0.57721566490153286061;
constexpr double kFar = 25;        // of growing and falling kinds
constexpr double kFarWaving = 14;  // of J and Y, whose series cancels

// The sum of sign^k (x/2)^(2k+n) / (k! (k+n)!), and the same terms times the sum of
// the harmonic numbers of k and of k + n.
void power_series(double x, int n, double sign, double& plain, double& harmonic) {
  double term = n == 0 ? 1 : x / 2, first = 0, second = n;
  plain = harmonic = 0;
  for (int k = 0; k < 500; ++k) {
    plain += term;
    harmonic += term * (first + second);
    if (math::fabs(term) <= 1e-18 * math::fabs(plain) && k > math::fabs(x)) break;
    term *= sign * (x / 2) * (x / 2) / ((k + 1.0) * (k + 1.0 + n));
    first += 1.0 / (k + 1);
    second += 1.0 / (k + 1 + n);
  }
}

// Hankel's coefficients a_k(n) / x^k, those of even and of odd k summed with `sign`
// from one to the next of its kind.
void hankel_series(double x, double n, double sign, double& even, double& odd) {
  double term = 1;
  even = 1;
  odd = 0;
  double sign_even = 1, sign_odd = 1;
  for (int k = 1; k < 60; ++k) {
    const double next = term * (4.0 * n * n - (2.0 * k - 1) * (2.0 * k - 1)) / (8.0 * k * x);
    if (math::fabs(next) >= math::fabs(term) || math::fabs(next) < 1e-18) break;
    term = next;
    if (k % 2) {
      odd += sign_odd * term;
      sign_odd *= sign;
    } else {
      sign_even *= sign;
      even += sign_even * term;
    }
  }
}

// Far from 0: J is a cosine, Y the sine of the same angle, x less a multiple of pi / 4.
double far_wave(double x, int n, bool second) {
  if (x - x != 0) return __builtin_nan("");  // as ATen has it
  double even, odd;
  hankel_series(x, n, -1, even, odd);
  const double s = math::sin(x), c = math::cos(x);
  const double cosine = (n == 0 ? c + s : s - c), sine = (n == 0 ? s - c : -(s + c));
  return (second ? even * sine + odd * cosine : even * cosine - odd * sine) /
         (math::sqrt(kPi) * math::sqrt(x));
}

double bessel_j(double x, int n) {
  const double size = math::fabs(x), sign = n == 1 && x < 0 ? -1 : 1;
  if (!(size < kFarWaving)) return sign * far_wave(size, n, false);
  double plain, harmonic;
  power_series(size, n, -1, plain, harmonic);
  return sign * plain;
}

// `falling`: K, else Y. Both are infinite at 0 and have no value below.
double second_kind_near(double x, int n, bool falling) {
  double plain, harmonic;
  power_series(x, n, falling ? 1 : -1, plain, harmonic);
  const double half = harmonic / 2 - plain * (math::log(x / 2) + kGamma);
  if (falling) return n == 0 ? half : 1 / x - half;
  return -2 / kPi * (n == 0 ? half : 1 / x + half);
}

double bessel_y(double x, int n) {
  if (!(x > 0)) return x == 0 ? -HUGE_VAL : __builtin_nan("");
  return x < kFarWaving ? second_kind_near(x, n, false) : far_wave(x, n, true);
}

// exp(-|x|) times I.
double scaled_i(double x, int n) {
  const double size = math::fabs(x), sign = n == 1 && x < 0 ? -1 : 1;
  if (!(size < kFar)) {
    if (size == HUGE_VAL) return 0;
    double even, odd;
    hankel_series(size, n, 1, even, odd);
    return sign * (even - odd) / (math::sqrt(2 * kPi) * math::sqrt(size));
  }
  double plain, harmonic;
  power_series(size, n, 1, plain, harmonic);
  return sign * plain * math::exp(-size);
}

double bessel_i(double x, int n) {
  const double size = math::fabs(x);
  if (size == HUGE_VAL) return __builtin_nan("");  // as ATen has it
  if (size > 1500) return n == 1 && x < 0 ? -HUGE_VAL : HUGE_VAL;
  // In two steps: the exponential alone may not fit.
  const double root = math::exp(size / 2);
  return scaled_i(x, n) * root * root;
}

// exp(x) times K of any order.
double integral_k(double x, double n) {
  constexpr double kStep = 1.0 / 32;
  double sum = 0.5;
  for (double t = kStep;; t += kStep) {
    const double exponent = x * (math::cosh(t) - 1);
    if (exponent > 45) return sum * kStep;
    sum += math::exp(-exponent) * math::cosh(n * t);
  }
}

// exp(x) times K.
double scaled_k(double x, int n) {
  if (!(x > 0)) return x == 0 ? HUGE_VAL : __builtin_nan("");
  if (x < 2) return second_kind_near(x, n, true) * math::exp(x);
  if (x >= kFar) {
    double even, odd;
    hankel_series(x, n, 1, even, odd);
    return x == HUGE_VAL ? 0 : (even + odd) * math::sqrt(kPi / 2) / math::sqrt(x);
  }
  return integral_k(x, n);
}

double bessel_k(double x, int n) { return x == HUGE_VAL ? 0 : scaled_k(x, n) * math::exp(-x); }

double spherical_j0(double x) {
  if (x == 0) return 1;
  return math::fabs(x) == HUGE_VAL ? 0 : math::sin(x) / x;
}

// Airy's function: of the order 1 / 3 in 2/3 |x|^(3/2), where its power series would cancel.
double airy(double x) {
  if (math::fabs(x) == HUGE_VAL) return __builtin_nan("");  // as ATen has it
  if (math::is_nan(x)) return x;
  const double size = math::fabs(x), z = size * math::sqrt(size) / 1.5;
  if (x > 1.5) return math::sqrt(x / 3) / kPi * math::exp(-z) * integral_k(z, 1.0 / 3);
  if (x < -7) {
    double even, odd;
    hankel_series(z, 1.0 / 3, -1, even, odd);
    const double s = math::sin(z), c = math::cos(z);
    return ((c + s) * even - (s - c) * odd) / math::sqrt(2 * kPi * math::sqrt(size));
  }
  double f = 0.35502805388781723926, g = 0.25881940379280679840 * x, sum = 0;
  for (double k = 3; math::fabs(f) + math::fabs(g) > 1e-20; k += 3) {
    sum += f - g;
    f *= x * x * x / (k * (k - 1));
    g *= x * x * x / (k * (k + 1));
  }
  return sum;
}

}  // namespace

PENLIGHT_FORMULA_1(i0_out, Floating, static_cast<T>(bessel_i(x, 0)))
PENLIGHT_FORMULA_1(special_i0e_out, Floating, static_cast<T>(scaled_i(x, 0)))
PENLIGHT_FORMULA_1(special_i1_out, Floating, static_cast<T>(bessel_i(x, 1)))
PENLIGHT_FORMULA_1(special_i1e_out, Floating, static_cast<T>(scaled_i(x, 1)))
PENLIGHT_FORMULA_1(special_bessel_j0_out, Floating, static_cast<T>(bessel_j(x, 0)))
PENLIGHT_FORMULA_1(special_bessel_j1_out, Floating, static_cast<T>(bessel_j(x, 1)))
PENLIGHT_FORMULA_1(special_bessel_y0_out, Floating, static_cast<T>(bessel_y(x, 0)))
PENLIGHT_FORMULA_1(special_bessel_y1_out, Floating, static_cast<T>(bessel_y(x, 1)))
PENLIGHT_FORMULA_1(special_modified_bessel_k0_out, Floating, static_cast<T>(bessel_k(x, 0)))
PENLIGHT_FORMULA_1(special_modified_bessel_k1_out, Floating, static_cast<T>(bessel_k(x, 1)))
PENLIGHT_FORMULA_1(special_scaled_modified_bessel_k0_out, Floating, static_cast<T>(scaled_k(x, 0)))
PENLIGHT_FORMULA_1(special_scaled_modified_bessel_k1_out, Floating, static_cast<T>(scaled_k(x, 1)))
PENLIGHT_FORMULA_1(special_spherical_bessel_j0_out, Floating, static_cast<T>(spherical_j0(x)))
PENLIGHT_FORMULA_1(special_airy_ai_out, Floating, static_cast<T>(airy(x)))

}  // namespace penlight::portable
