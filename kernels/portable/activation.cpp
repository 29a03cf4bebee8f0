// Activations: one number in, one out, with the parameters that ATen gives them.
//
// Conditions are written so that NaN falls through to the branch that returns it.
#include <string.h>

#include "kernels/common/elementwise.h"
#include "kernels/common/math.h"

namespace penlight::portable {

namespace {

struct Relu {
  template <class T>
  T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};

struct Sigmoid {
  template <class T>
  T operator()(T x) const {
    return T(1) / (T(1) + math::exp(-x));
  }
};

struct Silu {
  template <class T>
  T operator()(T x) const {
    return x / (T(1) + math::exp(-x));
  }
};

struct Mish {
  template <class T>
  T operator()(T x) const {
    return x * math::tanh(math::log1p(math::exp(x)));
  }
};

struct GeluErf {
  template <class T>
  T operator()(T x) const {
    return x * T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752440)));
  }
};

struct GeluTanh {
  template <class T>
  T operator()(T x) const {
    const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
    return T(0.5) * x * (T(1) + math::tanh(inner));
  }
};

struct Elu {
  double negative, positive, input;

  template <class T>
  T operator()(T x) const {
    if (x < T(0)) return math::expm1(x * static_cast<T>(input)) * static_cast<T>(negative);
    return x * static_cast<T>(positive);
  }
};

struct LeakyRelu {
  double slope;

  template <class T>
  T operator()(T x) const {
    return x > T(0) ? x : x * static_cast<T>(slope);
  }
};

struct Prelu {
  template <class T>
  T operator()(T x, T weight) const {
    return x > T(0) ? x : x * weight;
  }
};

struct HardSwish {
  template <class T>
  T operator()(T x) const {
    const T shifted = x + T(3);
    const T gate = shifted < T(0) ? T(0) : shifted > T(6) ? T(6) : shifted;
    return x * gate / T(6);
  }
};

struct HardSigmoid {
  template <class T>
  T operator()(T x) const {
    const T shifted = x + T(3);
    return (shifted < T(0) ? T(0) : shifted > T(6) ? T(6) : shifted) / T(6);
  }
};

struct Softplus {
  double beta, threshold;

  template <class T>
  T operator()(T x) const {
    const T scaled = x * static_cast<T>(beta);
    return scaled > static_cast<T>(threshold) ? x : math::log1p(math::exp(scaled)) / static_cast<T>(beta);
  }
};

struct LogSigmoid {
  template <class T>
  T operator()(T x) const {
    const T least = x < T(0) ? x : T(0);
    return least - math::log1p(math::exp(-math::fabs(x)));
  }
};

// What ATen keeps of log_sigmoid for its backward.
struct LogSigmoidBuffer {
  template <class T>
  T operator()(T x) const {
    return math::exp(-math::fabs(x));
  }
};

struct Logit {
  double low, high;  // NaN: no limit

  template <class T>
  T operator()(T x) const {
    const T a = static_cast<T>(low), b = static_cast<T>(high);
    const T z = x < a ? a : x > b ? b : x;
    return math::log(z / (T(1) - z));
  }
};

struct Threshold {
  Parameter limit, value;

  template <class T>
  T operator()(T x) const {
    return x <= limit.as<T>() ? value.as<T>() : x;
  }
};

struct HardShrink {
  double lambda;

  template <class T>
  T operator()(T x) const {
    const T limit = static_cast<T>(lambda);
    return x >= -limit && x <= limit ? T(0) : x;
  }
};

struct SoftShrink {
  double lambda;

  template <class T>
  T operator()(T x) const {
    const T limit = static_cast<T>(lambda);
    return x > limit ? x - limit : x < -limit ? x + limit : x * T(0);
  }
};

struct Clip {
  Parameter low, high;

  template <class T>
  T operator()(T x) const {
    const T a = low.as<T>(), b = high.as<T>();
    const T raised = x < a ? a : x;
    return raised > b ? b : raised;
  }
};

}  // namespace

Tensor& relu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, Relu{}, out, self);
}

Tensor& sigmoid_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Sigmoid{}, out, self);
}

Tensor& silu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Silu{}, out, self);
}

Tensor& mish_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, Mish{}, out, self);
}

Tensor& gelu_out(KernelContext& ctx, const Tensor& self, StringView approximate, Tensor& out) {
  if (approximate.size() == 4 && memcmp(approximate.data(), "tanh", 4) == 0) {
    return map<Domain::Floating>(ctx, GeluTanh{}, out, self);
  }
  if (approximate.size() == 4 && memcmp(approximate.data(), "none", 4) == 0) {
    return map<Domain::Floating>(ctx, GeluErf{}, out, self);
  }
  ctx.fail(Status::InvalidArgument, "approximate must be none or tanh");
  return out;
}

Tensor& elu_out(KernelContext& ctx, const Tensor& self, const Scalar& alpha, const Scalar& scale,
                const Scalar& input_scale, Tensor& out) {
  const double outer = scale.to<double>();
  const Elu functor{alpha.to<double>() * outer, outer, input_scale.to<double>()};
  return map<Domain::Floating>(ctx, functor, out, self);
}

Tensor& celu_out(KernelContext& ctx, const Tensor& self, const Scalar& alpha, Tensor& out) {
  const double a = alpha.to<double>();
  return map<Domain::Floating>(ctx, Elu{a, 1.0, 1.0 / a}, out, self);
}

Tensor& leaky_relu_out(KernelContext& ctx, const Tensor& self, const Scalar& negative_slope, Tensor& out) {
  return map<Domain::Floating>(ctx, LeakyRelu{negative_slope.to<double>()}, out, self);
}

Tensor& prelu_kernel_out(KernelContext& ctx, const Tensor& self, const Tensor& weight, Tensor& out) {
  return map<Domain::Floating>(ctx, Prelu{}, out, self, weight);
}

Tensor& hardswish_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, HardSwish{}, out, self);
}

Tensor& hardsigmoid_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, HardSigmoid{}, out, self);
}

// The limits take the tensor's dtype, unlike clamp's.
Tensor& hardtanh_out(KernelContext& ctx, const Tensor& self, const Scalar& min_val, const Scalar& max_val,
                     Tensor& out) {
  return map<Domain::Real>(ctx, Clip{min_val, max_val}, out, self);
}

Tensor& softplus_out(KernelContext& ctx, const Tensor& self, const Scalar& beta, const Scalar& threshold,
                     Tensor& out) {
  return map<Domain::Floating>(ctx, Softplus{beta.to<double>(), threshold.to<double>()}, out, self);
}

Tensor& log_sigmoid_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Floating>(ctx, LogSigmoid{}, out, self);
}

void log_sigmoid_forward_output(KernelContext& ctx, const Tensor& self, Tensor& output, Tensor& buffer) {
  // `output` may have taken over self's memory, so it is written last.
  if (buffer.numel() != 0) map<Domain::Floating>(ctx, LogSigmoidBuffer{}, buffer, self);
  map<Domain::Floating>(ctx, LogSigmoid{}, output, self);
}

Tensor& logit_out(KernelContext& ctx, const Tensor& self, Optional<double> eps, Tensor& out) {
  const double limit = eps.value_or(__builtin_nan(""));
  return map<Domain::Floating>(ctx, Logit{limit, 1.0 - limit}, out, self);
}

Tensor& threshold_out(KernelContext& ctx, const Tensor& self, const Scalar& threshold, const Scalar& value,
                      Tensor& out) {
  return map<Domain::Real>(ctx, Threshold{threshold, value}, out, self);
}

Tensor& hardshrink_out(KernelContext& ctx, const Tensor& self, const Scalar& lambd, Tensor& out) {
  return map<Domain::Floating>(ctx, HardShrink{rounded_to(self.scalar_type(), lambd.to<double>())}, out,
                               self);
}

Tensor& softshrink_out(KernelContext& ctx, const Tensor& self, const Scalar& lambd, Tensor& out) {
  return map<Domain::Floating>(ctx, SoftShrink{lambd.to<double>()}, out, self);
}

}  // namespace penlight::portable
