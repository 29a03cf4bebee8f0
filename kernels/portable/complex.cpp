// Absolute values and directions, of real and of complex numbers, and complex
// numbers made from their parts.
#include "kernels/common/checks.h"
#include "kernels/common/elementwise.h"

namespace penlight::portable {

constexpr auto kHypot = PENLIGHT_OF_2(math::hypot(a, b));
constexpr auto kAtan2 = PENLIGHT_OF_2(math::atan2(a, b));
// Of two operands, so that the first one broadcasts to the second.
constexpr auto kFirst = PENLIGHT_OF_2(a);

constexpr auto kAbs = [](auto x) {
  if constexpr (same_type<decltype(x), int64_t>) return x < 0 ? math::negative(x) : x;
  if constexpr (!same_type<decltype(x), int64_t>) return math::fabs(x);
};
constexpr auto kConj = [](auto x) {
  if constexpr (same_type<decltype(x), Complex>) x.im = -x.im;
  return x;
};

static bool resize_for_parts(KernelContext& ctx, const Tensor& a, const Tensor& b, Tensor& out) {
  return check(ctx, is_complex(out.dtype()), "the result of parts is complex") &&
         resize_to_both(ctx, out, a, b);
}

void abs_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (is_complex(self.dtype())) {
    ComplexPart re(self, 0), im(self, 1);
    return map<Domain::Floating>(ctx, kHypot, out, re.tensor(), im.tensor());
  }
  map<Domain::Real>(ctx, kAbs, out, self);
}

// The direction of a number: of a real one 0 or pi.
void angle_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!is_complex(self.dtype())) {
    const auto angle = PENLIGHT_OF_1(math::is_nan(x) ? x : x < T(0) ? T(3.14159265358979323846) : T(0));
    return map<Domain::Floating>(ctx, angle, out, self);
  }
  ComplexPart re(self, 0), im(self, 1);
  map<Domain::Floating>(ctx, kAtan2, out, im.tensor(), re.tensor());
}

void polar_out(KernelContext& ctx, const Tensor& abs, const Tensor& angle, Tensor& out) {
  if (!resize_for_parts(ctx, abs, angle, out)) return;
  ComplexPart re(out, 0), im(out, 1);
  map<Domain::Floating>(ctx, PENLIGHT_OF_2(a * math::cos(b)), re.tensor(), abs, angle);
  map<Domain::Floating>(ctx, PENLIGHT_OF_2(a * math::sin(b)), im.tensor(), abs, angle);
}

void complex_out(KernelContext& ctx, const Tensor& real, const Tensor& imag, Tensor& out) {
  if (!resize_for_parts(ctx, real, imag, out)) return;
  ComplexPart re(out, 0), im(out, 1);
  map<Domain::Floating>(ctx, kFirst, re.tensor(), real, imag);
  map<Domain::Floating>(ctx, kFirst, im.tensor(), imag, real);
}

PENLIGHT_MAP_1(conj_copy_out, Number, kConj)
PENLIGHT_MAP_2(hypot_out, Floating, kHypot)
PENLIGHT_MAP_2(atan2_out, Floating, kAtan2)

}  // namespace penlight::portable
