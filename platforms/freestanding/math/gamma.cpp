// lgamma, the logarithm of |gamma(x)|. The float one computes in double.
#include <math.h>

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kHalfLogTwoPi = 0.91893853320467274178;
constexpr double kOneMinusEuler = 0.42278433509846713939;

// (-1)^k (zeta(k) - 1) / k from k = 2: of lgamma(2 + z), the series in z (Abramowitz and Stegun 6.1.33).
constexpr double kSeries[] = {
    0.322467033424113218,     -0.0673523010531980951,    0.0205808084277845479,    -0.00738555102867398527,
    0.00289051033074152329,   -0.00119275391170326098,   0.000509669524743042422,  -0.00022315475845357938,
    0.0000994575127818085337, -0.0000449262367381331417, 0.0000205072127756706916, -9.4394882752683959e-6,
    4.3748667899074878e-6,    -2.03921575380136624e-6,   9.55141213040741983e-7,   -4.49246919876456604e-7,
    2.12071848055546659e-7,   -1.00432248239680996e-7,   4.76981016936398057e-8,   -2.27110946089431649e-8,
    1.08386592148969541e-8,   -5.18347504197004666e-9,   2.48367454380247832e-9,   -1.19214014058609121e-9,
    5.73136724167886201e-10,  -2.75952288512423315e-10,  1.33047643742444895e-10,  -6.42296456383810002e-11};
constexpr int kTerms = sizeof kSeries / sizeof kSeries[0];

// |z| <= 1/2. That z is a factor keeps it exact where lgamma is near 0.
double above_two(double z) {
  double sum = 0;
  for (int k = kTerms; k > 0; --k) sum = (sum + kSeries[k - 1]) * z;
  return z * (kOneMinusEuler + sum);
}

// From 12 on (6.1.41).
double far_out(double x) {
  const double logarithm = log(x);
  if (x > 1e17) return x * (logarithm - 1);
  const double y = 1 / x, square = y * y;
  const double tail =
      y * (1 / 12.0 -
           square * (1 / 360.0 -
                     square * (1 / 1260.0 -
                               square * (1 / 1680.0 - square * (1 / 1188.0 - square * (691 / 360360.0))))));
  return (x - 0.5) * logarithm - x + kHalfLogTwoPi + tail;
}

double positive(double x) {
  if (x < 0.5) return positive(x + 1) - log(x);
  if (x < 1.5) return above_two(x - 1) - log1p(x - 1);
  if (x > 12) return far_out(x);
  double product = 1;
  while (x > 2.5) product *= --x;
  return above_two(x - 2) + (product > 1 ? log(product) : 0);
}

double lgamma_of(double x) {
  if (x != x || x > 1.7976931348623157e308) return x;
  if (x > 0) return positive(x);
  const double nearest = rint(x);
  if (x == nearest) return __builtin_inf();  // a pole, as every even number from 2^53 on
  // gamma(x) gamma(1 - x) = pi / sin(pi x), and the sine does not care for whole turns.
  if (x > -1e-17) return -log(-x);
  const double sine = sin(kPi * __builtin_fabs(x - nearest));
  return log(kPi / sine) - positive(1 - x);
}

}  // namespace

extern "C" {

double lgamma(double x) { return lgamma_of(x); }
float lgammaf(float x) { return static_cast<float>(lgamma_of(x)); }

}  // extern "C"
