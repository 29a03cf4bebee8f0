// Activations: one number in, one out, with the parameters that ATen gives them.
//
// Conditions are written so that NaN falls through to the branch that returns it.
#include "kernels/common/checks.h"
#include "kernels/common/elementwise.h"
#include "likeness.h"

namespace penlight::portable {

namespace {

struct Elu {
  double negative, positive, input;

  template <class T>
  T operator()(T x) const {
    if (x < T(0)) return math::expm1(x * static_cast<T>(input)) * static_cast<T>(negative);
    return x * static_cast<T>(positive);
  }
};

// From 0 to 6 on the way from -3 to 3.
template <class T>
T gate(T x) {
  const T shifted = x + T(3);
  return shifted < T(0) ? T(0) : shifted > T(6) ? T(6) : shifted;
}

template <class T>
T gelu_tanh(T x) {
  const T inner = T(0.79788456080286535588) * (x + T(0.044715) * x * x * x);
  return T(0.5) * x * (T(1) + math::tanh(inner));
}

constexpr auto kLogSigmoid = PENLIGHT_OF_1((x < T(0) ? x : T(0)) - math::log1p(math::exp(-math::fabs(x))));

}  // namespace

PENLIGHT_FORMULA_1(relu_out, Real, x < T(0) ? T(0) : x)
PENLIGHT_FORMULA_1(sigmoid_out, Floating, T(1) / (T(1) + math::exp(-x)))
PENLIGHT_FORMULA_1(silu_out, Floating, x / (T(1) + math::exp(-x)))
PENLIGHT_FORMULA_1(mish_out, Floating, math::tanh(math::log1p(math::exp(x))) * x)
PENLIGHT_FORMULA_1(hardswish_out, Floating, gate(x) * x / T(6))
PENLIGHT_FORMULA_1(hardsigmoid_out, Floating, gate(x) / T(6))
PENLIGHT_MAP_1(log_sigmoid_out, Floating, kLogSigmoid)

void gelu_out(KernelContext& ctx, const Tensor& self, StringView approximate, Tensor& out) {
  if (approximate == "tanh") return map<Domain::Floating>(ctx, PENLIGHT_OF_1(gelu_tanh(x)), out, self);
  const auto exact = PENLIGHT_OF_1(x * T(0.5) * (T(1) + math::erf(x * T(0.70710678118654752440))));
  if (approximate == "none") return map<Domain::Floating>(ctx, exact, out, self);
  ctx.fail("approximate must be none or tanh");
}

void elu_out(KernelContext& ctx, const Tensor& self, Scalar alpha, Scalar scale, Scalar input_scale,
             Tensor& out) {
  const double outer = scale.to<double>();
  const Elu functor{alpha.to<double>() * outer, outer, input_scale.to<double>()};
  map<Domain::Floating>(ctx, functor, out, self);
}

void celu_out(KernelContext& ctx, const Tensor& self, Scalar alpha, Tensor& out) {
  const double a = alpha.to<double>();
  map<Domain::Floating>(ctx, Elu{a, 1.0, 1.0 / a}, out, self);
}

void leaky_relu_out(KernelContext& ctx, const Tensor& self, Scalar negative_slope, Tensor& out) {
  const double slope = negative_slope.to<double>();
  const auto leak = [=](auto x) { return x > decltype(x)(0) ? x : x * static_cast<decltype(x)>(slope); };
  map<Domain::Floating>(ctx, leak, out, self);
}

void prelu_kernel_out(KernelContext& ctx, const Tensor& self, const Tensor& weight, Tensor& out) {
  map<Domain::Floating>(ctx, PENLIGHT_OF_2(a > T(0) ? a : a * b), out, self, weight);
}

void softplus_out(KernelContext& ctx, const Tensor& self, Scalar beta, Scalar threshold, Tensor& out) {
  const auto soft = [b = beta.to<double>(), limit = threshold.to<double>()](auto x) {
    using T = decltype(x);
    const T scaled = x * static_cast<T>(b);
    return scaled > static_cast<T>(limit) ? x : math::log1p(math::exp(scaled)) / static_cast<T>(b);
  };
  map<Domain::Floating>(ctx, soft, out, self);
}

void log_sigmoid_forward_output(KernelContext& ctx, const Tensor& self, Tensor& output, Tensor& buffer) {
  // `output` may have taken over self's memory, so it is written last.
  if (buffer.numel() != 0) map<Domain::Floating>(ctx, PENLIGHT_OF_1(math::exp(-math::fabs(x))), buffer, self);
  map<Domain::Floating>(ctx, kLogSigmoid, output, self);
}

void logit_out(KernelContext& ctx, const Tensor& self, Optional<double> eps, Tensor& out) {
  // NaN: no limit.
  const auto logit = [low = eps.value_or(__builtin_nan(""))](auto x) {
    using T = decltype(x);
    const T a = static_cast<T>(low), b = static_cast<T>(1.0 - low), z = x < a ? a : x > b ? b : x;
    return math::log(z / (T(1) - z));
  };
  map<Domain::Floating>(ctx, logit, out, self);
}

void threshold_out(KernelContext& ctx, const Tensor& self, Scalar threshold, Scalar value, Tensor& out) {
  const Parameter limit = cast_to(self.scalar_type(), threshold), low = cast_to(self.scalar_type(), value);
  const auto above = [=](auto x) { return x <= limit.as<decltype(x)>() ? low.as<decltype(x)>() : x; };
  map<Domain::Real>(ctx, above, out, self);
}

void hardshrink_out(KernelContext& ctx, const Tensor& self, Scalar lambd, Tensor& out) {
  const auto shrink = [lambda = cast_to(self.scalar_type(), lambd).to<double>()](auto x) {
    const auto limit = static_cast<decltype(x)>(lambda);
    return x >= -limit && x <= limit ? decltype(x)(0) : x;
  };
  map<Domain::Floating>(ctx, shrink, out, self);
}

void softshrink_out(KernelContext& ctx, const Tensor& self, Scalar lambd, Tensor& out) {
  const auto shrink = [lambda = lambd.to<double>()](auto x) {
    using T = decltype(x);
    const T limit = static_cast<T>(lambda);
    return x > limit ? x - limit : x < -limit ? x + limit : x * T(0);
  };
  map<Domain::Floating>(ctx, shrink, out, self);
}

// The first half of a dimension times the sigmoid of the second.
void glu_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !check_same_dtype(ctx, self, out)) return;
  const dim_t axis = static_cast<dim_t>(dim);
  if (self.dim() == 0 || self.size(axis) % 2 != 0)
    return ctx.fail("dimension {} of size {} has no two halves", axis, self.dim() ? self.size(axis) : 1);
  Likeness half(self);
  half.sizes[axis] /= 2;
  half.impl.numel /= 2;
  Likeness gate(half.tensor);
  gate.impl.data = address(self, half.sizes[axis] * self.stride(axis));
  map<Domain::Floating>(ctx, PENLIGHT_OF_2(a * (T(1) / (T(1) + math::exp(-b)))), out, half.tensor,
                        gate.tensor);
}

}  // namespace penlight::portable
