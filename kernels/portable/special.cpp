// Special functions, in double whatever the dtype: gamma, error and Bessel functions.
#include "kernels/common/elementwise.h"
#include "kernels/common/math.h"
#include "kernels/common/random.h"

namespace penlight::portable {

namespace {

constexpr double kPi = 3.14159265358979323846;

struct LogGamma {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(::lgamma(static_cast<double>(x)));
  }
};

// Of the logarithm of gamma the derivative: reflected from below 0, moved above 10,
// and there an asymptotic series in 1 / x^2.
struct Digamma {
  static double of(double x) {
    if (x == 0) return math::copysign(HUGE_VAL, -x);
    if (x < 0) {
      if (x == math::floor(x)) return math::is_nan(x) ? x : __builtin_nan("");
      return of(1 - x) - kPi / math::tan(kPi * math::fmod(x, 1.0));
    }
    double sum = 0;
    for (; x < 10; x += 1) sum -= 1 / x;
    const double y = 1 / (x * x);
    const double series =
        y * (1 / 12.0 - y * (1 / 120.0 -
                             y * (1 / 252.0 -
                                  y * (1 / 240.0 - y * (1 / 132.0 - y * (691 / 32760.0 - y * (1 / 12.0)))))));
    return sum + math::log(x) - 0.5 / x - series;
  }
  template <class T>
  T operator()(T x) const {
    return static_cast<T>(of(static_cast<double>(x)));
  }
};

// The normal quantile under another scale.
struct ErfInv {
  template <class T>
  T operator()(T x) const {
    const double y = static_cast<double>(x), size = math::fabs(y);
    if (!(size < 1)) return static_cast<T>(size == 1 ? y * HUGE_VAL : __builtin_nan(""));
    return static_cast<T>(random::normal_quantile(y / 2) * 0.70710678118654752440);
  }
};

// The sum of (x^2 / 4)^k / k!^2, all of one sign.
struct BesselI0 {
  template <class T>
  T operator()(T x) const {
    const double y = static_cast<double>(x) * static_cast<double>(x) / 4;
    double term = 1, sum = 1;
    for (double k = 1; term > sum * 1e-17 && sum < HUGE_VAL; k += 1) {
      term *= y / (k * k);
      sum += term;
    }
    return static_cast<T>(x - x == T(0) ? sum : __builtin_nan(""));  // ATen has none at infinity
  }
};

struct NextAfter {
  float operator()(float x, float y) const { return ::nextafterf(x, y); }
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
    const T product =
        static_cast<T>(static_cast<uint64_t>(x / static_cast<T>(divisor)) * static_cast<uint64_t>(y));
    return product < 0 ? static_cast<T>(-static_cast<uint64_t>(product)) : product;
  }
};

}  // namespace

Tensor& lgamma_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, LogGamma{}, out, self);
}

Tensor& digamma_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Digamma{}, out, self);
}

Tensor& erfinv_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, ErfInv{}, out, self);
}

Tensor& i0_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, BesselI0{}, out, self);
}

Tensor& nextafter_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Floating>(ctx, NextAfter{}, out, self, other);
}

Tensor& gcd_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Integral>(ctx, Gcd{}, out, self, other);
}

Tensor& lcm_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Integral>(ctx, Lcm{}, out, self, other);
}

}  // namespace penlight::portable
