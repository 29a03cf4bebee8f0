// Gamma functions and their relatives, in double whatever the dtype.
#include "kernels/common/elementwise.h"
#include "random.h"

namespace penlight::portable {

namespace {

constexpr double kPi = 3.14159265358979323846;

// Of the logarithm of gamma the derivative: reflected from below 0, moved above 10,
// and there an asymptotic series in 1 / x^2.
double digamma(double x) {
  if (x == 0) return math::copysign(HUGE_VAL, -x);
  if (x < 0) {
    if (x == math::floor(x)) return math::is_nan(x) ? x : __builtin_nan("");
    return digamma(1 - x) - kPi / math::tan(kPi * math::fmod(x, 1.0));
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double y = 1 / (x * x);
  const double series =
      y * (1 / 12.0 -
           y * (1 / 120.0 -
                y * (1 / 252.0 - y * (1 / 240.0 - y * (1 / 132.0 - y * (691 / 32760.0 - y * (1 / 12.0)))))));
  return sum + math::log(x) - 0.5 / x - series;
}

// The sum of (q + k)^-x for q above 0: some terms, then Euler and Maclaurin's formula.
double zeta_above(double x, double q) {
  // Bernoulli's numbers B(2j) divided by (2j)!
  static const double kFactors[] = {1 / 12.0,          -1 / 720.0,
                                    1 / 30240.0,       -1 / 1209600.0,
                                    1 / 47900160.0,    -691 / 1307674368000.0,
                                    1 / 74724249600.0, -3617 / 10670622842880000.0};
  double sum = 0;
  for (; q < 12; q += 1) {
    const double term = math::pow(q, -x);
    sum += term;
    if (term < sum * 1e-18) return sum;
  }
  const double power = math::pow(q, -x), integral = math::pow(q, 1 - x) / (x - 1);
  sum += integral + power / 2;
  if (power == 0) return sum;
  double rising = x, fall = power / q;
  for (int j = 0; j < 8; ++j) {
    sum += kFactors[j] * rising * fall;
    rising *= (x + 2 * j + 1) * (x + 2 * j + 2);
    fall /= q * q;
  }
  return sum;
}

// Hurwitz's zeta function.
double zeta(double x, double q) {
  if (x == 1) return HUGE_VAL;
  if (x < 1 || q != q || (x == HUGE_VAL && q > 1)) return __builtin_nan("");
  if (q > 0) return zeta_above(x, q);
  if (q == math::floor(q)) return HUGE_VAL;
  if (x != math::floor(x)) return __builtin_nan("");
  // The terms below 0, mirrored: their sizes are r, r + 1, ... up to -q.
  const double above = q - math::floor(q), r = 1 - above;
  const double mirrored = zeta_above(x, r) - zeta_above(x, 1 - q);
  return zeta_above(x, above) + (math::fmod(x, 2.0) == 0 ? mirrored : -mirrored);
}

// The n-th derivative of digamma.
double polygamma(int64_t n, double x) {
  if (n == 0) return digamma(x);
  const double order = static_cast<double>(n), size = math::exp(::lgamma(order + 1)) * zeta(order + 1, x);
  return n % 2 ? size : -size;
}

// The lower part of the incomplete gamma function as a share of the whole, or the
// upper: a series below the maximum of the integrand, a continued fraction above it.
double gamma_share(double a, double x, bool upper) {
  const double nan = __builtin_nan("");
  if (a < 0 || x < 0) return nan;
  if (a == 0) return x > 0 ? (upper ? 0 : 1) : nan;
  if (x == 0) return upper ? 1 : 0;
  if (a == HUGE_VAL) return x == HUGE_VAL ? nan : upper ? 1 : 0;
  if (x == HUGE_VAL) return upper ? 0 : 1;
  if (a != a || x != x) return nan;
  constexpr double kHuge = 1e9;
  if (a > kHuge) {  // normal around a, to about 1e-5
    const double away = (x - a) / math::sqrt(a) * 0.70710678118654752440;
    return math::erfc(upper ? away : -away) / 2;
  }
  if (x > 2 * kHuge) return upper ? 0 : 1;
  constexpr int kMost = 200000;
  const double factor = math::exp(a * math::log(x) - x - ::lgamma(a));
  double lower;
  if (x < a + 1) {
    double term = 1 / a, sum = term;
    for (int k = 1; k < kMost && term > sum * 1e-17; ++k) sum += term *= x / (a + k);
    lower = factor * sum;
    return upper ? 1 - lower : lower;
  }
  // Lentz's way through the fraction; its denominators cannot vanish here.
  double b = x + 1 - a, c = 1e300, d = 1 / b, value = d;
  for (int k = 1; k < kMost; ++k) {
    const double part = -k * (k - a);
    b += 2;
    d = 1 / (part * d + b);
    c = b + part / c;
    value *= d * c;
    if (math::fabs(d * c - 1) < 1e-16) break;
  }
  return upper ? factor * value : 1 - factor * value;
}

// exp(x^2) erfc(x), which neither overflows nor vanishes on the way above 0.
double scaled_erfc(double x) {
  if (x < 25) return math::exp(x * x) * math::erfc(x);
  const double y = 1 / (2 * x * x);
  return (1 - y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y)))) / (x * math::sqrt(kPi));
}

// The normal quantile under another scale.
double erfinv(double x) {
  const double size = math::fabs(x);
  if (!(size < 1)) return size == 1 ? x * HUGE_VAL : __builtin_nan("");
  return random::normal_quantile(x / 2) * 0.70710678118654752440;
}

// The same of a probability. Small ones are met by their logarithm, in Newton's steps.
double normal_quantile(double p) {
  if (!(p > 0 && p < 1)) return p == 0 ? -HUGE_VAL : p == 1 ? HUGE_VAL : __builtin_nan("");
  if (p >= 0.01) return random::normal_quantile(p - 0.5);
  const double wanted = math::log(p);
  double x = -math::sqrt(-2 * wanted);
  for (int k = 0; k < 8; ++k) {
    const double share = scaled_erfc(-x * 0.70710678118654752440);  // of the density: 2 P(x) exp(x^2 / 2)
    x -= (math::log(share / 2) - x * x / 2 - wanted) * share * math::sqrt(kPi / 2);
  }
  return x;
}

}  // namespace

PENLIGHT_FORMULA_1(lgamma_out, Floating, static_cast<T>(::lgamma(x)))
PENLIGHT_FORMULA_1(digamma_out, Floating, static_cast<T>(digamma(x)))
PENLIGHT_FORMULA_1(erfinv_out, Floating, static_cast<T>(erfinv(x)))
PENLIGHT_FORMULA_1(special_erfcx_out, Floating, static_cast<T>(scaled_erfc(x)))
PENLIGHT_FORMULA_1(special_ndtri_out, Floating, static_cast<T>(normal_quantile(x)))
PENLIGHT_FORMULA_2(special_zeta_out, Floating, static_cast<T>(zeta(a, b)))
PENLIGHT_FORMULA_2(igamma_out, Floating, static_cast<T>(gamma_share(a, b, false)))
PENLIGHT_FORMULA_2(igammac_out, Floating, static_cast<T>(gamma_share(a, b, true)))

void polygamma_out(KernelContext& ctx, int64_t n, const Tensor& self, Tensor& out) {
  if (n < 0) return ctx.fail("polygamma: the order is {}, the least is 0", n);
  const auto derivative = [=](auto x) { return static_cast<decltype(x)>(polygamma(n, x)); };
  map<Domain::Floating>(ctx, derivative, out, self);
}

}  // namespace penlight::portable
