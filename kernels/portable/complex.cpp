// Absolute values and directions, of real and of complex numbers, and complex
// numbers made from their parts.
#include "kernels/common/complex.h"

#include "kernels/common/checks.h"
#include "kernels/common/elementwise.h"
#include "kernels/common/math.h"

namespace penlight::portable {

namespace {

struct Abs {
  template <class T>
  T operator()(T x) const {
    if constexpr (is_floating_type<T>) {
      return math::fabs(x);
    } else {
      return x < 0 ? static_cast<T>(-static_cast<uint64_t>(x)) : x;
    }
  }
};

struct Hypot {
  template <class T>
  T operator()(T x, T y) const {
    return math::hypot(x, y);
  }
};

struct Atan2 {
  template <class T>
  T operator()(T y, T x) const {
    return math::atan2(y, x);
  }
};

struct Angle {
  template <class T>
  T operator()(T x) const {
    return math::is_nan(x) ? x : x < T(0) ? T(3.14159265358979323846) : T(0);
  }
};

struct Conj {
  static constexpr bool kComplex = true;
  template <class T>
  T operator()(T x) const {
    if constexpr (same_type<T, Complex>) {
      return {x.re, -x.im};
    } else {
      return x;
    }
  }
};

struct PolarReal {
  template <class T>
  T operator()(T distance, T direction) const {
    return distance * math::cos(direction);
  }
};

struct PolarImaginary {
  template <class T>
  T operator()(T distance, T direction) const {
    return distance * math::sin(direction);
  }
};

// Of two operands, so that the first one broadcasts to the second.
struct First {
  template <class T>
  T operator()(T x, T) const {
    return x;
  }
};

bool resize_for_parts(KernelContext& ctx, const Tensor& a, const Tensor& b, Tensor& out) {
  Shape shape(a.sizes());
  return check(ctx, is_complex(out.dtype()), "the result of parts is complex") &&
         broadcast_into(ctx, shape, b.sizes()) && ctx.resize(out, shape);
}

}  // namespace

Tensor& abs_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (is_complex(self.dtype())) {
    ComplexPart re(self, 0), im(self, 1);
    return map<Domain::Floating>(ctx, Hypot{}, out, re.tensor(), im.tensor());
  }
  return map<Domain::Real>(ctx, Abs{}, out, self);
}

// The direction of a number: of a real one 0 or pi.
Tensor& angle_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!is_complex(self.dtype())) return map<Domain::Floating>(ctx, Angle{}, out, self);
  ComplexPart re(self, 0), im(self, 1);
  return map<Domain::Floating>(ctx, Atan2{}, out, im.tensor(), re.tensor());
}

Tensor& conj_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Conj{}, out, self);
}

Tensor& polar_out(KernelContext& ctx, const Tensor& abs, const Tensor& angle, Tensor& out) {
  if (!resize_for_parts(ctx, abs, angle, out)) return out;
  ComplexPart re(out, 0), im(out, 1);
  map<Domain::Floating>(ctx, PolarReal{}, re.tensor(), abs, angle);
  map<Domain::Floating>(ctx, PolarImaginary{}, im.tensor(), abs, angle);
  return out;
}

Tensor& complex_out(KernelContext& ctx, const Tensor& real, const Tensor& imag, Tensor& out) {
  if (!resize_for_parts(ctx, real, imag, out)) return out;
  ComplexPart re(out, 0), im(out, 1);
  map<Domain::Floating>(ctx, First{}, re.tensor(), real, imag);
  map<Domain::Floating>(ctx, First{}, im.tensor(), imag, real);
  return out;
}

Tensor& hypot_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Floating>(ctx, Hypot{}, out, self, other);
}

Tensor& atan2_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Floating>(ctx, Atan2{}, out, self, other);
}

}  // namespace penlight::portable
