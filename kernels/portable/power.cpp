// Functions of two numbers that are more than a formula: powers, neighbours, divisors.
//
// Integers are raised exactly, modulo 2^64; floats by the C library, but
// for the exponents that ATen computes by multiplication or a root.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

struct Pow {
  template <class T>
  T operator()(T base, T exponent) const {
    if constexpr (is_floating_type<T>) {
      return math::pow(base, exponent);
    } else {
      if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
      uint64_t result = 1, square = static_cast<uint64_t>(base);
      for (uint64_t rest = static_cast<uint64_t>(exponent); rest != 0; rest >>= 1) {
        if (rest & 1) result *= square;
        square *= square;
      }
      return static_cast<T>(result);
    }
  }
};

// By the bits, whose order is that of the sizes. 16-bit floats are computed with as float: their neighbours
// are those of their own bits.
struct NextAfter {
  ScalarType dtype;
  float operator()(float x, float y) const {
    if (dtype == ScalarType::Half) return step<uint16_t, Half>(x, y);
    return dtype == ScalarType::BFloat16 ? step<uint16_t, BFloat16>(x, y) : step<uint32_t, float>(x, y);
  }
  double operator()(double x, double y) const { return step<uint64_t, double>(x, y); }
  template <class Bits, class Own, class T>
  static T step(T x, T y) {
    static_assert(sizeof(Own) == sizeof(Bits));
    constexpr Bits sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    if (x == y || x != x || y != y) return x == y ? y : x + y;
    Own next(x == 0 ? y : x);
    Bits bits;
    memcpy(&bits, &next, sizeof bits);
    const int rises = x < y, greater = rises ^ (x < 0);  // in size; branches would be guessed wrong
    bits = static_cast<Bits>(x == 0 ? (bits & sign) | 1 : bits + static_cast<Bits>(2 * greater - 1));
    memcpy(&next, &bits, sizeof bits);
    return next;
  }
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

PENLIGHT_MAP_2(pow_tensor_tensor_out, Number, Pow{})

void pow_scalar_out(KernelContext& ctx, Scalar self, const Tensor& exponent, Tensor& out) {
  map<Domain::Number>(ctx, Pow{}, out, self, exponent);
}

void pow_tensor_scalar_out(KernelContext& ctx, const Tensor& self, Scalar exponent, Tensor& out) {
  const double power = exponent.to<double>();
  if (is_floating(self.scalar_type()) || is_complex(self.scalar_type())) {
    if (power == 2.0) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(x * x), out, self);
    if (power == 0.5) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(math::sqrt(x)), out, self);
    if (power == 3.0) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(x * x * x), out, self);
    if (power == -0.5)
      return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(T(1) / math::sqrt(x)), out, self);
    if (power == -1.0) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(T(1) / x), out, self);
    if (power == -2.0) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(T(1) / (x * x)), out, self);
  } else if (exponent.isIntegral(true) && power < 0)
    return ctx.fail("integers cannot be raised to the negative power {}", exponent.to<int64_t>());
  map<Domain::Number>(ctx, Pow{}, out, self, exponent);
}

PENLIGHT_MAP_2(nextafter_out, Floating, NextAfter{out.scalar_type()})
PENLIGHT_MAP_2(gcd_out, Integral, Gcd{})
PENLIGHT_MAP_2(lcm_out, Integral, Lcm{})

}  // namespace penlight::portable
