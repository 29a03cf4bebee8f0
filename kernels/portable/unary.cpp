// Functions of one number: rounding, signs, roots, exponentials, trigonometry.
#include "kernels/common/elementwise.h"
#include "kernels/common/math.h"

namespace penlight::portable {

namespace {

// A functor of the C library's function of the same name.
#define PENLIGHT_FUNCTOR(Name, function, complex) \
  struct Name {                                   \
    static constexpr bool kComplex = complex;     \
    template <class T>                            \
    T operator()(T x) const {                     \
      return math::function(x);                   \
    }                                             \
  };
PENLIGHT_FUNCTOR(Sqrt, sqrt, true)
PENLIGHT_FUNCTOR(Exp, exp, true)
PENLIGHT_FUNCTOR(Exp2, exp2, false)
PENLIGHT_FUNCTOR(Expm1, expm1, false)
PENLIGHT_FUNCTOR(Log, log, true)
PENLIGHT_FUNCTOR(Log2, log2, true)
PENLIGHT_FUNCTOR(Log10, log10, true)
PENLIGHT_FUNCTOR(Log1p, log1p, false)
PENLIGHT_FUNCTOR(Sin, sin, true)
PENLIGHT_FUNCTOR(Cos, cos, true)
PENLIGHT_FUNCTOR(Tan, tan, true)
PENLIGHT_FUNCTOR(Asin, asin, false)
PENLIGHT_FUNCTOR(Acos, acos, false)
PENLIGHT_FUNCTOR(Atan, atan, false)
PENLIGHT_FUNCTOR(Sinh, sinh, true)
PENLIGHT_FUNCTOR(Cosh, cosh, true)
PENLIGHT_FUNCTOR(Tanh, tanh, true)
PENLIGHT_FUNCTOR(Asinh, asinh, false)
PENLIGHT_FUNCTOR(Acosh, acosh, false)
PENLIGHT_FUNCTOR(Atanh, atanh, false)
PENLIGHT_FUNCTOR(Erf, erf, false)
PENLIGHT_FUNCTOR(Erfc, erfc, false)
#undef PENLIGHT_FUNCTOR

// The same for functions that leave integers as they are.
#define PENLIGHT_ROUNDING(Name, function)  \
  struct Name {                            \
    template <class T>                     \
    T operator()(T x) const {              \
      if constexpr (is_floating_type<T>) { \
        return math::function(x);          \
      } else {                             \
        return x;                          \
      }                                    \
    }                                      \
  };
PENLIGHT_ROUNDING(Ceil, ceil)
PENLIGHT_ROUNDING(Floor, floor)
PENLIGHT_ROUNDING(Trunc, trunc)
PENLIGHT_ROUNDING(Round, nearbyint)  // halves to even, as the default rounding mode has it
#undef PENLIGHT_ROUNDING

struct Neg {
  static constexpr bool kComplex = true;
  template <class T>
  T operator()(T x) const {
    if constexpr (is_floating_type<T>) {
      return -x;
    } else {
      return static_cast<T>(-static_cast<uint64_t>(x));
    }
  }
};

// NaN has sign 0 in ATen.
struct Sign {
  template <class T>
  T operator()(T x) const {
    return static_cast<T>((x > T(0)) - (x < T(0)));
  }
};

struct Frac {
  template <class T>
  T operator()(T x) const {
    return x - math::trunc(x);
  }
};

struct RoundDecimals {
  double ten_to_decimals;  // at least 1
  bool negative;           // decimals are

  template <class T>
  T operator()(T x) const {
    const T ten = static_cast<T>(ten_to_decimals);
    return negative ? math::nearbyint(x / ten) * ten : math::nearbyint(x * ten) / ten;
  }
};

struct Reciprocal {
  static constexpr bool kComplex = true;
  template <class T>
  T operator()(T x) const {
    return T(1) / x;
  }
};

struct Rsqrt {
  static constexpr bool kComplex = true;
  template <class T>
  T operator()(T x) const {
    return T(1) / math::sqrt(x);
  }
};

struct Square {
  static constexpr bool kComplex = true;
  template <class T>
  T operator()(T x) const {
    if constexpr (is_floating_type<T>) {
      return x * x;
    } else {
      return static_cast<T>(static_cast<uint64_t>(x) * static_cast<uint64_t>(x));
    }
  }
};

struct Scale {
  double factor;

  template <class T>
  T operator()(T x) const {
    return x * static_cast<T>(factor);
  }
};

// x - x is 0 for finite numbers only.
struct NanToNum {
  double nan, positive, negative;

  template <class T>
  T operator()(T x) const {
    if (math::is_nan(x)) return static_cast<T>(nan);
    if (x - x == T(0)) return x;
    return static_cast<T>(x > T(0) ? positive : negative);
  }
};

}  // namespace

Tensor& neg_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Neg{}, out, self);
}

Tensor& ceil_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Ceil{}, out, self);
}

Tensor& floor_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Floor{}, out, self);
}

Tensor& trunc_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Trunc{}, out, self);
}

Tensor& round_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Round{}, out, self);
}

Tensor& round_decimals_out(KernelContext& ctx, const Tensor& self, int64_t decimals, Tensor& out) {
  if (decimals == 0 || !is_floating(self.scalar_type())) return round_out(ctx, self, out);
  const double power = math::pow(10.0, static_cast<double>(decimals < 0 ? -decimals : decimals));
  return map<Domain::Floating>(ctx, RoundDecimals{power, decimals < 0}, out, self);
}

Tensor& frac_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Frac{}, out, self);
}

Tensor& sign_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Sign{}, out, self);
}

Tensor& reciprocal_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Reciprocal{}, out, self);
}

Tensor& sqrt_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Sqrt{}, out, self);
}

Tensor& rsqrt_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Rsqrt{}, out, self);
}

Tensor& square_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Square{}, out, self);
}

Tensor& exp_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Exp{}, out, self);
}

Tensor& exp2_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Exp2{}, out, self);
}

Tensor& expm1_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Expm1{}, out, self);
}

Tensor& log_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Log{}, out, self);
}

Tensor& log2_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Log2{}, out, self);
}

Tensor& log10_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Log10{}, out, self);
}

Tensor& log1p_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Log1p{}, out, self);
}

Tensor& sin_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Sin{}, out, self);
}

Tensor& cos_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Cos{}, out, self);
}

Tensor& tan_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Tan{}, out, self);
}

Tensor& asin_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Asin{}, out, self);
}

Tensor& acos_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Acos{}, out, self);
}

Tensor& atan_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Atan{}, out, self);
}

Tensor& sinh_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Sinh{}, out, self);
}

Tensor& cosh_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Cosh{}, out, self);
}

Tensor& tanh_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Tanh{}, out, self);
}

Tensor& asinh_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Asinh{}, out, self);
}

Tensor& acosh_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Acosh{}, out, self);
}

Tensor& atanh_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Atanh{}, out, self);
}

Tensor& erf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Erf{}, out, self);
}

Tensor& erfc_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Erfc{}, out, self);
}

Tensor& deg2rad_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Scale{0.017453292519943295769}, out, self);
}

Tensor& rad2deg_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Scale{57.295779513082320877}, out, self);
}

Tensor& nan_to_num_out(KernelContext& ctx, const Tensor& self, Optional<double> nan, Optional<double> posinf,
                       Optional<double> neginf, Tensor& out) {
  const ScalarType type = self.scalar_type();
  if (!is_floating(type)) return map<Domain::Integral>(ctx, Round{}, out, self);
  const double largest = type == ScalarType::Half     ? 65504.0
                         : type == ScalarType::Double ? 1.7976931348623157e308
                         : type == ScalarType::Float  ? 3.4028234663852886e38
                                                      : 3.3895313892515355e38;
  const NanToNum functor{nan.value_or(0.0), posinf.value_or(largest), neginf.value_or(-largest)};
  return map<Domain::Floating>(ctx, functor, out, self);
}

}  // namespace penlight::portable
