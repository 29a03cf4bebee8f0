// Functions of one number: rounding, signs, roots, exponentials, trigonometry.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

PENLIGHT_FORMULA_1(neg_out, Number, math::negative(x))
PENLIGHT_FORMULA_1(sign_out, Real, static_cast<T>((x > T(0)) - (x < T(0))))  // of NaN 0, as ATen has it
PENLIGHT_FORMULA_1(ceil_out, Real, math::ceil(x))
PENLIGHT_FORMULA_1(floor_out, Real, math::floor(x))
PENLIGHT_FORMULA_1(trunc_out, Real, math::trunc(x))
PENLIGHT_FORMULA_1(round_out, Real, math::nearbyint(x))
PENLIGHT_FORMULA_1(frac_out, Floating, x - math::trunc(x))
PENLIGHT_FORMULA_1(reciprocal_out, FloatingNumber, T(1) / x)
PENLIGHT_FORMULA_1(square_out, Number, math::times(x, x))
PENLIGHT_FORMULA_1(sqrt_out, FloatingNumber, math::sqrt(x))
PENLIGHT_FORMULA_1(rsqrt_out, FloatingNumber, T(1) / math::sqrt(x))
PENLIGHT_FORMULA_1(exp_out, FloatingNumber, math::exp(x))
PENLIGHT_FORMULA_1(exp2_out, Floating, math::exp2(x))
PENLIGHT_FORMULA_1(expm1_out, Floating, math::expm1(x))
PENLIGHT_FORMULA_1(log_out, FloatingNumber, math::log(x))
PENLIGHT_FORMULA_1(log2_out, FloatingNumber, math::log2(x))
PENLIGHT_FORMULA_1(log10_out, FloatingNumber, math::log10(x))
PENLIGHT_FORMULA_1(log1p_out, Floating, math::log1p(x))
PENLIGHT_FORMULA_1(sin_out, FloatingNumber, math::sin(x))
PENLIGHT_FORMULA_1(cos_out, FloatingNumber, math::cos(x))
PENLIGHT_FORMULA_1(tan_out, FloatingNumber, math::tan(x))
PENLIGHT_FORMULA_1(asin_out, Floating, math::asin(x))
PENLIGHT_FORMULA_1(acos_out, Floating, math::acos(x))
PENLIGHT_FORMULA_1(atan_out, Floating, math::atan(x))
PENLIGHT_FORMULA_1(sinh_out, FloatingNumber, math::sinh(x))
PENLIGHT_FORMULA_1(cosh_out, FloatingNumber, math::cosh(x))
PENLIGHT_FORMULA_1(tanh_out, FloatingNumber, math::tanh(x))
PENLIGHT_FORMULA_1(asinh_out, Floating, math::asinh(x))
PENLIGHT_FORMULA_1(acosh_out, Floating, math::acosh(x))
PENLIGHT_FORMULA_1(atanh_out, Floating, math::atanh(x))
PENLIGHT_FORMULA_1(erf_out, Floating, math::erf(x))
PENLIGHT_FORMULA_1(erfc_out, Floating, math::erfc(x))
PENLIGHT_FORMULA_1(deg2rad_out, Floating, T(0.017453292519943295769) * x)
PENLIGHT_FORMULA_1(rad2deg_out, Floating, T(57.295779513082320877) * x)

void round_decimals_out(KernelContext& ctx, const Tensor& self, int64_t decimals, Tensor& out) {
  if (decimals == 0 || !is_floating(self.scalar_type())) return round_out(ctx, self, out);
  const bool negative = decimals < 0;
  const double power = math::pow(10.0, static_cast<double>(negative ? -decimals : decimals));
  const auto round_at = [=](auto x) {
    const auto ten = static_cast<decltype(x)>(power);
    return negative ? math::nearbyint(x / ten) * ten : math::nearbyint(x * ten) / ten;
  };
  map<Domain::Floating>(ctx, round_at, out, self);
}

void nan_to_num_out(KernelContext& ctx, const Tensor& self, Optional<double> nan, Optional<double> posinf,
                    Optional<double> neginf, Tensor& out) {
  const ScalarType type = self.scalar_type();
  if (!is_floating(type)) return map<Domain::Integral>(ctx, kConvert, out, self);
  const double largest = type == ScalarType::Half     ? 65504.0
                         : type == ScalarType::Double ? 1.7976931348623157e308
                         : type == ScalarType::Float  ? 3.4028234663852886e38
                                                      : 3.3895313892515355e38;
  const double none = nan.value_or(0.0), above = posinf.value_or(largest), below = neginf.value_or(-largest);
  const auto replace = [=](auto x) {
    using T = decltype(x);
    if (x - x == T(0)) return x;  // which it is for finite numbers only
    return static_cast<T>(math::is_nan(x) ? none : x > T(0) ? above : below);
  };
  map<Domain::Floating>(ctx, replace, out, self);
}

}  // namespace penlight::portable
