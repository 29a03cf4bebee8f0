// Comparisons, tests for special values, minima and maxima.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

constexpr auto kEqual = PENLIGHT_OF_2(a == b);
constexpr auto kDiffer = PENLIGHT_OF_2(a != b);
constexpr auto kLess = PENLIGHT_OF_2(a < b);
constexpr auto kLessOrEqual = PENLIGHT_OF_2(a <= b);
constexpr auto kGreater = PENLIGHT_OF_2(b < a);
constexpr auto kGreaterOrEqual = PENLIGHT_OF_2(b <= a);

// NaN wins, wherever it stands.
constexpr auto kMaximum = PENLIGHT_OF_2(a > b || math::is_nan(a) ? a : b);
constexpr auto kMinimum = PENLIGHT_OF_2(a < b || math::is_nan(a) ? a : b);

constexpr auto kCopySign = PENLIGHT_OF_2(math::copysign(a, b));

constexpr auto kClamp = [](auto x, auto low, auto high) { return kMinimum(kMaximum(x, low), high); };

template <class Bound>
void clamp(KernelContext& ctx, const Tensor& self, const Optional<Bound>& min, const Optional<Bound>& max,
           Tensor& out) {
  if (min && max) return map<Domain::Real>(ctx, kClamp, out, self, *min, *max);
  if (min) return map<Domain::Real>(ctx, kMaximum, out, self, *min);
  if (max) return map<Domain::Real>(ctx, kMinimum, out, self, *max);
  ctx.fail("clamp needs a lower or an upper bound");
}

}  // namespace

PENLIGHT_MAP_2(eq_tensor_out, Number, kEqual)
PENLIGHT_MAP_SCALAR(eq_scalar_out, Number, kEqual)
PENLIGHT_MAP_2(ne_tensor_out, Number, kDiffer)
PENLIGHT_MAP_SCALAR(ne_scalar_out, Number, kDiffer)
PENLIGHT_MAP_2(lt_tensor_out, Real, kLess)
PENLIGHT_MAP_SCALAR(lt_scalar_out, Real, kLess)
PENLIGHT_MAP_2(le_tensor_out, Real, kLessOrEqual)
PENLIGHT_MAP_SCALAR(le_scalar_out, Real, kLessOrEqual)
PENLIGHT_MAP_2(gt_tensor_out, Real, kGreater)
PENLIGHT_MAP_SCALAR(gt_scalar_out, Real, kGreater)
PENLIGHT_MAP_2(ge_tensor_out, Real, kGreaterOrEqual)
PENLIGHT_MAP_SCALAR(ge_scalar_out, Real, kGreaterOrEqual)

// x - x is 0 for finite numbers and NaN for the others.
PENLIGHT_FORMULA_1(isnan_out, Number, math::is_nan(x))
PENLIGHT_FORMULA_1(isinf_out, Real, !math::is_nan(x) && x - x != T(0))
PENLIGHT_FORMULA_1(isfinite_out, Real, x - x == T(0))
PENLIGHT_FORMULA_1(isposinf_out, Real, x > T(0) && x - x != T(0))
PENLIGHT_FORMULA_1(isneginf_out, Real, x < T(0) && x - x != T(0))
PENLIGHT_FORMULA_1(signbit_out, Real, math::is_negative(x))

PENLIGHT_MAP_2(maximum_out, Real, kMaximum)
PENLIGHT_MAP_2(minimum_out, Real, kMinimum)
PENLIGHT_MAP_SCALAR(clamp_min_out, Real, kMaximum)
PENLIGHT_MAP_SCALAR(clamp_max_out, Real, kMinimum)
// Here NaN loses.
PENLIGHT_FORMULA_2(fmax_out, Real, a > b || math::is_nan(b) ? a : b)
PENLIGHT_FORMULA_2(fmin_out, Real, a < b || math::is_nan(b) ? a : b)
PENLIGHT_MAP_2(copysign_out, Floating, kCopySign)
PENLIGHT_MAP_SCALAR(copysign_scalar_out, Floating, kCopySign)

void clamp_out(KernelContext& ctx, const Tensor& self, const Optional<Scalar>& min,
               const Optional<Scalar>& max, Tensor& out) {
  clamp(ctx, self, min, max, out);
}

void clamp_tensor_out(KernelContext& ctx, const Tensor& self, const Optional<Tensor>& min,
                      const Optional<Tensor>& max, Tensor& out) {
  clamp(ctx, self, min, max, out);
}

// As clamp, but the limits take the tensor's dtype.
void hardtanh_out(KernelContext& ctx, const Tensor& self, const Scalar& min_val, const Scalar& max_val,
                  Tensor& out) {
  map_promoting<Domain::Real, 0, 1>(ctx, kClamp, out, self, min_val, max_val);
}

}  // namespace penlight::portable
