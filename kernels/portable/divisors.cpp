// Functions of two numbers as their bits are: neighbours, divisors.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

// 16-bit floats are computed with as float: their neighbours are those of their own bits.
struct NextAfter {
  ScalarType dtype;
  float operator()(float x, float y) const {
    if (dtype == ScalarType::Half) return step<Half>(x, y);
    return dtype == ScalarType::BFloat16 ? step<BFloat16>(x, y) : ::nextafterf(x, y);
  }
  template <class S>
  static float step(float x, float y) {
    if (!(x < y || x > y)) return x == y ? y : x + y;
    S next(x == 0 ? y : x);
    const uint16_t up = static_cast<uint16_t>(next.bits + 1), down = static_cast<uint16_t>(next.bits - 1);
    next.bits = x == 0 ? static_cast<uint16_t>((next.bits & 0x8000u) | 1) : (x < y) == (x > 0) ? up : down;
    return next;
  }
  double operator()(double x, double y) const { return ::nextafter(x, y); }
};

struct Gcd {
  template <class T>
  T operator()(T x, T y) const {
    uint64_t a = static_cast<uint64_t>(x), b = static_cast<uint64_t>(y);
    if (x < 0) a = -a;
    if (y < 0) b = -b;
    while (b != 0) {
      const uint64_t rest = a % b;
      a = b;
      b = rest;
    }
    return static_cast<T>(a);
  }
};

// Wraps like a product of integers.
struct Lcm {
  template <class T>
  T operator()(T x, T y) const {
    const uint64_t divisor = static_cast<uint64_t>(Gcd{}(x, y));
    if (divisor == 0) return 0;
    const T product = math::times(x / static_cast<T>(divisor), y);
    return product < 0 ? math::negative(product) : product;
  }
};

}  // namespace

PENLIGHT_MAP_2(nextafter_out, Floating, NextAfter{out.scalar_type()})
PENLIGHT_MAP_2(gcd_out, Integral, Gcd{})
PENLIGHT_MAP_2(lcm_out, Integral, Lcm{})

}  // namespace penlight::portable
