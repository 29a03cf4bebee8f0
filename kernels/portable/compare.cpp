// Comparisons, tests for special values, minima and maxima.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

// NaN wins, wherever it stands.
constexpr auto kMaximum = PENLIGHT_OF_2(a > b || math::is_nan(a) ? a : b);
constexpr auto kMinimum = PENLIGHT_OF_2(a < b || math::is_nan(a) ? a : b);

constexpr auto kClamp = [](auto x, auto low, auto high) { return kMinimum(kMaximum(x, low), high); };

template <class Bound>
static void clamp(KernelContext& ctx, const Tensor& self, const Optional<Bound>& min,
                  const Optional<Bound>& max, Tensor& out) {
  if (min && max) return map<Domain::Real>(ctx, kClamp, out, self, *min, *max);
  if (min) return map<Domain::Real>(ctx, kMaximum, out, self, *min);
  if (max) return map<Domain::Real>(ctx, kMinimum, out, self, *max);
  ctx.fail("clamp needs a lower or an upper bound");
}

// Kernels of two tensors, and of a tensor and a number, by a formula of both.
#define PENLIGHT_PAIR(name, domain, ...)                                                             \
  void name##_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) { \
    map<Domain::domain>(ctx, PENLIGHT_OF_2(__VA_ARGS__), out, self, other);                          \
  }                                                                                                  \
  void name##_scalar_out(KernelContext& ctx, const Tensor& self, Scalar other, Tensor& out) {        \
    map<Domain::domain>(ctx, PENLIGHT_OF_2(__VA_ARGS__), out, self, other);                          \
  }
PENLIGHT_PAIR(eq, Number, a == b)
PENLIGHT_PAIR(ne, Number, a != b)
PENLIGHT_PAIR(lt, Real, a < b)
PENLIGHT_PAIR(le, Real, a <= b)
PENLIGHT_PAIR(gt, Real, b < a)
PENLIGHT_PAIR(ge, Real, b <= a)
PENLIGHT_PAIR(copysign, Floating, math::copysign(a, b))

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

void clamp_out(KernelContext& ctx, const Tensor& self, const Optional<Scalar>& min,
               const Optional<Scalar>& max, Tensor& out) {
  clamp(ctx, self, min, max, out);
}

void clamp_tensor_out(KernelContext& ctx, const Tensor& self, Optional<Tensor> min, Optional<Tensor> max,
                      Tensor& out) {
  clamp(ctx, self, min, max, out);
}

// As clamp, but the limits take the tensor's dtype.
void hardtanh_out(KernelContext& ctx, const Tensor& self, Scalar min_val, Scalar max_val, Tensor& out) {
  map_promoting<Domain::Real, 0, 1>(ctx, kClamp, out, self, min_val, max_val);
}

}  // namespace penlight::portable
