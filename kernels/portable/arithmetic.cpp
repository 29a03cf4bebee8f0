// Sums, products, quotients and what is made of them.
#include "fill.h"
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

constexpr auto kAdd = PENLIGHT_OF_2(math::plus(a, b));
constexpr auto kSubtract = PENLIGHT_OF_2(math::minus(a, b));
constexpr auto kMultiply = PENLIGHT_OF_2(math::times(a, b));
constexpr auto kDivide = PENLIGHT_OF_2(a / b);

// Integer division has two inputs without a result: by zero, which is reported
// through `by_zero`, and of the lowest number by -1, which wraps.
inline int64_t quotient(int64_t a, int64_t b, bool* by_zero) {
  if (b == -1) return math::negative(a);
  if (b == 0) return *by_zero = true, 0;
  // Processors divide numbers of 32 bits in half the time.
  const uint64_t bits = static_cast<uint64_t>(a) | static_cast<uint64_t>(b);
  if (bits <= UINT32_MAX) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}

struct DivTrunc {
  bool* by_zero;

  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_floating_type<T>) return math::trunc(a / b);
    if constexpr (!is_floating_type<T>) return quotient(a, b, by_zero);
  }
};

struct Fmod {
  bool* by_zero;

  template <class T>
  T operator()(T a, T b) const {
    if constexpr (is_floating_type<T>) return math::fmod(a, b);
    if constexpr (!is_floating_type<T>) return math::minus(a, math::times(quotient(a, b, by_zero), b));
  }
};

// Rounded from the exact quotient: a - fmod(a, b) is a multiple of b, so that the
// division is within one rounding of a whole number.
struct DivFloor {
  bool* by_zero;

  template <class T>
  T operator()(T a, T b) const {
    const T rest = Fmod{by_zero}(a, b);
    const bool lower = rest != T(0) && (b < T(0)) != (rest < T(0));
    if constexpr (is_floating_type<T>) {
      if (b == T(0)) return a / b;
      const T exact = (a - rest) / b, ratio = lower ? exact - T(1) : exact;
      if (ratio == T(0)) return math::copysign(T(0), a / b);
      const T whole = math::floor(ratio);
      return ratio - whole > T(0.5) ? whole + T(1) : whole;
    } else {
      return quotient(a, b, by_zero) - lower;
    }
  }
};

// The rest with the divisor's sign.
struct Remainder {
  bool* by_zero;

  template <class T>
  T operator()(T a, T b) const {
    const T rest = Fmod{by_zero}(a, b);
    return rest != T(0) && (b < T(0)) != (rest < T(0)) ? rest + b : rest;
  }
};

// Both ends are met exactly.
constexpr auto kLerp = [](auto start, auto end, auto weight) {
  using T = decltype(start);
  const T span = end - start;
  return math::fabs(weight) < T(0.5) ? start + weight * span : end - span * (T(1) - weight);
};

// Calls map() with a functor that may meet a zero divisor, and reports that.
template <class F, class A, class B>
void divide(KernelContext& ctx, Tensor& out, const A& a, const B& b) {
  bool by_zero = false;
  map<Domain::Real>(ctx, F{&by_zero}, out, a, b);
  if (by_zero) ctx.fail(Status::KernelFailed, "integer division by zero");
}

// As the other operand of a division with a rest, a number has the tensor's dtype.
Scalar in_dtype_of(const Tensor& tensor, Scalar scalar) {
  const ScalarType type = tensor.scalar_type();
  return is_floating(type) && scalar.isFloatingPoint() ? cast_to(type, scalar) : scalar;
}

template <class B>
void divide_in_mode(KernelContext& ctx, Tensor& out, const Tensor& a, const B& b, Optional<StringView> mode) {
  if (!mode) return map<Domain::FloatingNumber>(ctx, kDivide, out, a, b);
  if (*mode == "trunc") return divide<DivTrunc>(ctx, out, a, b);
  if (*mode == "floor") return divide<DivFloor>(ctx, out, a, b);
  ctx.fail("rounding_mode must be None, trunc or floor");
}

// As ATen has it: the second factor, or the divisor, of a 16-bit result is not rounded to 16 bits where it
// is a number of another dtype in a tensor without dimensions.
bool keeps_number(const Tensor& other, const Tensor& out) {
  const ScalarType type = out.scalar_type();
  return other.dim() == 0 && other.scalar_type() != type && !is_complex(other.scalar_type()) &&
         (type == ScalarType::Half || type == ScalarType::BFloat16);
}

bool is_one(Scalar scalar) { return scalar.isIntegral(true) && scalar.to<int64_t>() == 1; }

// One functor, whatever the operands are.
auto add_scaled(const Parameter& alpha) {
  return [=](auto a, auto b) { return math::plus(a, math::times(alpha.as<decltype(a)>(), b)); };
}

template <class A, class B>
void add(KernelContext& ctx, Tensor& out, const A& a, const B& b, Scalar alpha) {
  if (is_one(alpha)) return map<Domain::Number>(ctx, kAdd, out, a, b);
  // Of truth values it says whether `b` counts, not how often and with which sign.
  const bool logical = out.scalar_type() == ScalarType::Bool;
  map<Domain::Number>(ctx, add_scaled(logical ? cast_to(ScalarType::Bool, alpha) : alpha), out, a, b);
}

template <class A, class B>
void sub(KernelContext& ctx, Tensor& out, const A& a, const B& b, Scalar alpha) {
  if (is_one(alpha)) return map<Domain::Number>(ctx, kSubtract, out, a, b);
  add(ctx, out, a, b,
      alpha.isFloatingPoint() ? Scalar(-alpha.to<double>()) : Scalar(math::negative(alpha.to<int64_t>())));
}

}  // namespace

// Kernels of a tensor, a tensor or a number, and the factor of what is added.
#define PENLIGHT_SCALED(kernel, Other, function, a, b)                                                 \
  void kernel(KernelContext& ctx, const Tensor& self, const Other& other, Scalar alpha, Tensor& out) { \
    function(ctx, out, a, b, alpha);                                                                   \
  }
PENLIGHT_SCALED(add_out, Tensor, add, self, other)
PENLIGHT_SCALED(add_scalar_out, Scalar, add, self, other)
PENLIGHT_SCALED(sub_out, Tensor, sub, self, other)
PENLIGHT_SCALED(sub_scalar_out, Scalar, sub, self, other)
PENLIGHT_SCALED(rsub_tensor_out, Tensor, sub, other, self)
PENLIGHT_SCALED(rsub_scalar_out, Scalar, sub, other, self)

void mul_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  if (keeps_number(other, out)) return map<Domain::Number>(ctx, kMultiply, out, self, item_of(other));
  map<Domain::Number>(ctx, kMultiply, out, self, other);
}

PENLIGHT_MAP_SCALAR(mul_scalar_out, Number, kMultiply)
PENLIGHT_MAP_SCALAR(div_scalar_out, FloatingNumber, kDivide)

void div_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  if (keeps_number(other, out)) return map<Domain::FloatingNumber>(ctx, kDivide, out, self, item_of(other));
  map<Domain::FloatingNumber>(ctx, kDivide, out, self, other);
}

void div_out_mode(KernelContext& ctx, const Tensor& self, const Tensor& other,
                  Optional<StringView> rounding_mode, Tensor& out) {
  if (keeps_number(other, out)) return divide_in_mode(ctx, out, self, item_of(other), rounding_mode);
  divide_in_mode(ctx, out, self, other, rounding_mode);
}

void div_scalar_mode_out(KernelContext& ctx, const Tensor& self, Scalar other,
                         Optional<StringView> rounding_mode, Tensor& out) {
  divide_in_mode(ctx, out, self, other, rounding_mode);
}

void floor_divide_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  if (keeps_number(other, out)) return divide<DivFloor>(ctx, out, self, item_of(other));
  divide<DivFloor>(ctx, out, self, other);
}

// Kernels that divide a tensor or a number by another, in integers without a result for 0.
#define PENLIGHT_DIVIDE(kernel, Self, Other, functor, a, b)                            \
  void kernel(KernelContext& ctx, const Self& self, const Other& other, Tensor& out) { \
    divide<functor>(ctx, out, a, b);                                                   \
  }
PENLIGHT_DIVIDE(floor_divide_scalar_out, Tensor, Scalar, DivFloor, self, other)
PENLIGHT_DIVIDE(fmod_tensor_out, Tensor, Tensor, Fmod, self, other)
PENLIGHT_DIVIDE(fmod_scalar_out, Tensor, Scalar, Fmod, self, in_dtype_of(self, other))
PENLIGHT_DIVIDE(remainder_tensor_out, Tensor, Tensor, Remainder, self, other)
PENLIGHT_DIVIDE(remainder_scalar_out, Tensor, Scalar, Remainder, self, in_dtype_of(self, other))
PENLIGHT_DIVIDE(remainder_scalar_tensor_out, Scalar, Tensor, Remainder, in_dtype_of(other, self), other)

void lerp_scalar_out(KernelContext& ctx, const Tensor& self, const Tensor& end, Scalar weight, Tensor& out) {
  map<Domain::Floating>(ctx, kLerp, out, self, end, weight);
}

void lerp_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& end, const Tensor& weight,
                     Tensor& out) {
  map<Domain::Floating>(ctx, kLerp, out, self, end, weight);
}

void addcmul_out(KernelContext& ctx, const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                 Scalar value, Tensor& out) {
  const auto add_product = [factor = Parameter(value)](auto x, auto a, auto b) {
    return math::plus(x, math::times(math::times(factor.as<decltype(x)>(), a), b));
  };
  map<Domain::Number>(ctx, add_product, out, self, tensor1, tensor2);
}

void addcdiv_out(KernelContext& ctx, const Tensor& self, const Tensor& tensor1, const Tensor& tensor2,
                 Scalar value, Tensor& out) {
  const auto add_quotient = [factor = Parameter(value)](auto x, auto a, auto b) {
    return x + factor.as<decltype(x)>() * (a / b);
  };
  map<Domain::FloatingNumber>(ctx, add_quotient, out, self, tensor1, tensor2);
}

}  // namespace penlight::portable
