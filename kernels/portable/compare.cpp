// Comparisons, tests for special values, minima and maxima.
#include "kernels/common/elementwise.h"
#include "kernels/common/math.h"

namespace penlight::portable {

namespace {

#define PENLIGHT_COMPARISON(Name, operation, complex) \
  struct Name {                                       \
    static constexpr bool kComplex = complex;         \
    template <class T>                                \
    bool operator()(T a, T b) const {                 \
      return a operation b;                           \
    }                                                 \
  };
PENLIGHT_COMPARISON(Eq, ==, true)
PENLIGHT_COMPARISON(Ne, !=, true)
PENLIGHT_COMPARISON(Lt, <, false)
PENLIGHT_COMPARISON(Le, <=, false)
#undef PENLIGHT_COMPARISON

struct IsNan {
  static constexpr bool kComplex = true;
  template <class T>
  bool operator()(T x) const {
    return math::is_nan(x);
  }
};

// x - x is 0 for finite numbers and NaN for the others.
struct IsInf {
  template <class T>
  bool operator()(T x) const {
    return !math::is_nan(x) && x - x != T(0);
  }
};

struct IsFinite {
  template <class T>
  bool operator()(T x) const {
    return x - x == T(0);
  }
};

struct IsPositiveInf {
  template <class T>
  bool operator()(T x) const {
    return x > T(0) && x - x != T(0);
  }
};

struct IsNegativeInf {
  template <class T>
  bool operator()(T x) const {
    return x < T(0) && x - x != T(0);
  }
};

struct SignBit {
  template <class T>
  bool operator()(T x) const {
    if constexpr (is_floating_type<T>) {
      return math::copysign(T(1), x) < T(0);
    } else {
      return x < 0;
    }
  }
};

// NaN wins, wherever it stands.
struct Maximum {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || math::is_nan(a) ? a : b;
  }
};

struct Minimum {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || math::is_nan(a) ? a : b;
  }
};

// NaN loses.
struct Fmax {
  template <class T>
  T operator()(T a, T b) const {
    return a > b || math::is_nan(b) ? a : b;
  }
};

struct Fmin {
  template <class T>
  T operator()(T a, T b) const {
    return a < b || math::is_nan(b) ? a : b;
  }
};

struct Clamp {
  template <class T>
  T operator()(T x, T low, T high) const {
    return Minimum{}(Maximum{}(x, low), high);
  }
};

struct CopySign {
  template <class T>
  T operator()(T a, T b) const {
    return math::copysign(a, b);
  }
};

template <class Bound>
Tensor& clamp(KernelContext& ctx, const Tensor& self, const Optional<Bound>& min, const Optional<Bound>& max,
              Tensor& out) {
  if (min && max) return map<Domain::Real>(ctx, Clamp{}, out, self, *min, *max);
  if (min) return map<Domain::Real>(ctx, Maximum{}, out, self, *min);
  if (max) return map<Domain::Real>(ctx, Minimum{}, out, self, *max);
  ctx.fail(Status::InvalidArgument, "clamp needs a lower or an upper bound");
  return out;
}

}  // namespace

Tensor& eq_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Eq{}, out, self, other);
}

Tensor& eq_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Real>(ctx, Eq{}, out, self, other);
}

Tensor& ne_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Ne{}, out, self, other);
}

Tensor& ne_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Real>(ctx, Ne{}, out, self, other);
}

Tensor& lt_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Lt{}, out, self, other);
}

Tensor& lt_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Real>(ctx, Lt{}, out, self, other);
}

Tensor& le_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Le{}, out, self, other);
}

Tensor& le_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Real>(ctx, Le{}, out, self, other);
}

// The other two are these with their operands exchanged.
Tensor& gt_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Lt{}, out, other, self);
}

Tensor& gt_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Real>(ctx, Lt{}, out, other, self);
}

Tensor& ge_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Le{}, out, other, self);
}

Tensor& ge_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Real>(ctx, Le{}, out, other, self);
}

Tensor& isnan_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, IsNan{}, out, self);
}

Tensor& isinf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, IsInf{}, out, self);
}

Tensor& isfinite_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, IsFinite{}, out, self);
}

Tensor& isposinf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, IsPositiveInf{}, out, self);
}

Tensor& isneginf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, IsNegativeInf{}, out, self);
}

Tensor& signbit_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, SignBit{}, out, self);
}

Tensor& maximum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Maximum{}, out, self, other);
}

Tensor& minimum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Minimum{}, out, self, other);
}

Tensor& fmax_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Fmax{}, out, self, other);
}

Tensor& fmin_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, Fmin{}, out, self, other);
}

Tensor& clamp_out(KernelContext& ctx, const Tensor& self, const Optional<Scalar>& min,
                  const Optional<Scalar>& max, Tensor& out) {
  return clamp(ctx, self, min, max, out);
}

Tensor& clamp_tensor_out(KernelContext& ctx, const Tensor& self, const Optional<Tensor>& min,
                         const Optional<Tensor>& max, Tensor& out) {
  return clamp(ctx, self, min, max, out);
}

Tensor& clamp_min_out(KernelContext& ctx, const Tensor& self, const Scalar& min, Tensor& out) {
  return map<Domain::Real>(ctx, Maximum{}, out, self, min);
}

Tensor& clamp_min_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& min, Tensor& out) {
  return map<Domain::Real>(ctx, Maximum{}, out, self, min);
}

Tensor& clamp_max_out(KernelContext& ctx, const Tensor& self, const Scalar& max, Tensor& out) {
  return map<Domain::Real>(ctx, Minimum{}, out, self, max);
}

Tensor& clamp_max_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& max, Tensor& out) {
  return map<Domain::Real>(ctx, Minimum{}, out, self, max);
}

Tensor& copysign_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Floating>(ctx, CopySign{}, out, self, other);
}

Tensor& copysign_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Floating>(ctx, CopySign{}, out, self, other);
}

}  // namespace penlight::portable
