// Powers. Integers are raised exactly, modulo 2^64; floats by the C library, but
// for the exponents that ATen computes by multiplication or a root.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

struct Pow {
  template <class T>
  T operator()(T base, T exponent) const {
    if constexpr (is_floating_type<T>) {
      return math::pow(base, exponent);
    } else {
      if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
      uint64_t result = 1, square = static_cast<uint64_t>(base);
      for (uint64_t rest = static_cast<uint64_t>(exponent); rest != 0; rest >>= 1) {
        if (rest & 1) result *= square;
        square *= square;
      }
      return static_cast<T>(result);
    }
  }
};

}  // namespace

PENLIGHT_MAP_2(pow_tensor_tensor_out, Number, Pow{})
PENLIGHT_MAP_OF_SCALAR(pow_scalar_out, Number, Pow{})

void pow_tensor_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& exponent, Tensor& out) {
  const double power = exponent.to<double>();
  if (is_floating(self.scalar_type()) || is_complex(self.scalar_type())) {
    if (power == 2.0) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(x * x), out, self);
    if (power == 0.5) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(math::sqrt(x)), out, self);
    if (power == 3.0) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(x * x * x), out, self);
    if (power == -0.5)
      return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(T(1) / math::sqrt(x)), out, self);
    if (power == -1.0) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(T(1) / x), out, self);
    if (power == -2.0) return map<Domain::FloatingNumber>(ctx, PENLIGHT_OF_1(T(1) / (x * x)), out, self);
  } else if (exponent.isIntegral(true) && power < 0)
    return ctx.fail("integers cannot be raised to the negative power {}", exponent.to<int64_t>());
  map<Domain::Number>(ctx, Pow{}, out, self, exponent);
}

}  // namespace penlight::portable
