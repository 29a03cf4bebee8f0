// pow and hypot.
//
// x^y = exp(y log x): the logarithm has to be known to more bits than a double has, since
// y log x goes up to 709. It is kept as a sum of two doubles (Dekker 1971).
#include <math.h>
#include <stdint.h>
#include <string.h>

namespace {

struct Sum {
  double high, low;
};

Sum quick_sum(double a, double b) {  // |a| >= |b|
  const double high = a + b;
  return {high, b - (high - a)};
}

Sum exact_product(double a, double b) {
  constexpr double kSplit = 134217729;  // 2^27 + 1
  const double p = a * kSplit, q = b * kSplit;
  const double a1 = p - (p - a), b1 = q - (q - b), a2 = a - a1, b2 = b - b1;
  const double high = a * b;
  return {high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2};
}

Sum product(Sum a, Sum b) {
  const Sum p = exact_product(a.high, b.high);
  return quick_sum(p.high, p.low + (a.high * b.low + a.low * b.high));
}

uint64_t bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

double from_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

// log of a finite x > 0: x = 2^k m, log m = 2 atanh(s) with s = (m - 1) / (m + 1), |s| < 0.172.
Sum log_of(double x) {
  int k = 0;
  if (x < 2.2250738585072014e-308) {
    x *= 18014398509481984.0;  // 2^54
    k = -54;
  }
  const uint64_t bits = bits_of(x);
  k += static_cast<int>(bits >> 52) - 1023;
  double m = from_bits((bits & 0xFFFFFFFFFFFFFu) | 0x3FF0000000000000u);
  if (m > 1.41421356237309515) m /= 2, ++k;
  const double above = m - 1;             // exact
  const Sum whole = quick_sum(2, above);  // m + 1 to the last bit
  const double s = above / whole.high;
  const Sum back = exact_product(s, whole.high);
  const Sum ratio = {s, ((above - back.high) - back.low - s * whole.low) / whole.high};
  const Sum square = product(ratio, ratio);
  double tail = 0;  // s^2 (1/5 + s^2/7 + ...): a double is enough from here on
  for (int n = 25; n > 3; n -= 2) tail = square.high * (tail + 1.0 / n);
  // s + s^3/3 + s^3 tail; 1/3 in two parts.
  const Sum cube = product(square, ratio);
  const Sum third = product(cube, {0.33333333333333331483, 1.8503717077085942e-17});
  const Sum first = quick_sum(ratio.high, third.high);
  const Sum half = quick_sum(first.high, first.low + (ratio.low + third.low + cube.high * tail));
  // k log 2; the first part has zeros enough behind it for the product to be exact.
  const double large = k * 0.69314718036912381649, small = k * 1.90821492927058770002e-10;
  if (k == 0) return {2 * half.high, 2 * half.low};
  const Sum sum = quick_sum(large, 2 * half.high);
  const Sum more = quick_sum(sum.high, small);
  return quick_sum(more.high, more.low + sum.low + 2 * half.low);
}

// How often 2 goes into y, as far as it matters: 0 no integer, 1 odd, 2 even.
int parity(double y) {
  const double a = __builtin_fabs(y);
  if (a >= 9007199254740992.0) return 2;
  const int64_t whole = static_cast<int64_t>(a);
  if (static_cast<double>(whole) != a) return 0;
  return whole & 1 ? 1 : 2;
}

// Everything about zeros, infinities, NaN and signs; `finite` computes x^y of finite x > 0, y != 0.
template <class Finite>
double power(double x, double y, Finite finite) {
  if (y == 0 || x == 1) return 1;
  if (x != x || y != y) return x + y;
  const double infinity = __builtin_huge_val();
  const double a = __builtin_fabs(x);
  if (__builtin_fabs(y) == infinity) return a == 1 ? 1 : (a > 1) == (y > 0) ? infinity : 0;
  const int kind = __builtin_signbit(x) ? parity(y) : 2;
  double value;
  if (a == 0 || a == infinity) {
    value = (a == 0) == (y > 0) ? 0 : infinity;
  } else if (kind == 0) {
    return __builtin_nan("");
  } else {
    value = a == 1 ? 1 : finite(a, y);
  }
  return kind == 1 ? -value : value;
}

double finite_power(double x, double y) {
  const Sum log_x = log_of(x);
  const double rough = y * log_x.high;
  if (rough > 710) return __builtin_huge_val();
  if (rough < -746) return 0;
  if (__builtin_fabs(y) > 1e280) y *= 0.5;  // x is so near 1 that nothing of it is left anyway
  const Sum exponent = exact_product(log_x.high, y);
  const double low = exponent.low + log_x.low * y;
  // exp(high) may lie beyond what exp(high + low) does.
  const Sum e = quick_sum(exponent.high, low);
  if (e.high > 709.7) {
    const double part = exp(e.high - 1);
    return (part + part * e.low) * 2.71828182845904523536;
  }
  const double part = exp(e.high);
  return part + part * e.low;
}

}  // namespace

extern "C" {

double pow(double x, double y) { return power(x, y, finite_power); }

// A double's logarithm has bits to spare for a float.
float powf(float x, float y) {
  return static_cast<float>(power(x, y, [](double a, double b) { return exp(b * log(a)); }));
}

double hypot(double x, double y) {
  double a = __builtin_fabs(x), b = __builtin_fabs(y);
  if (a == __builtin_huge_val() || b == __builtin_huge_val()) return __builtin_huge_val();
  if (!(a >= b)) {
    const double larger = b;
    b = a, a = larger;
  }
  if (a == 0 || a != a || b != b) return a + b;
  double scale = 1;
  if (a > 1e150) scale = 1e-160;
  if (a < 1e-140) scale = 1e160;
  a *= scale, b *= scale;
  return __builtin_sqrt(a * a + b * b) / scale;
}

float hypotf(float x, float y) {
  const double a = x, b = y;
  if (__builtin_isinf(x) || __builtin_isinf(y)) return __builtin_huge_valf();
  return static_cast<float>(__builtin_sqrt(a * a + b * b));
}

}  // extern "C"
