// Truth values and bits, and choosing by a truth value.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

constexpr auto kNot = PENLIGHT_OF_1(x == T(0));
// Shifts by a negative count, or by the type's width and more, leave no bit of the number; to the
// right, signed numbers leave their sign.
constexpr auto kShiftRight = PENLIGHT_OF_2(a >> (b < 0 || b > 63 ? 63 : b));
constexpr auto kMaskedFill = [](auto x, auto mask, auto value) { return mask != decltype(x)(0) ? value : x; };

struct ShiftLeft {
  int64_t bits;
  template <class T>
  T operator()(T a, T count) const {
    return count < 0 || count >= bits ? 0 : static_cast<T>(static_cast<uint64_t>(a) << count);
  }
};

ShiftLeft shift_left(const Operand& a, const Operand& b) {
  const Operand operands[] = {a, b};
  return {static_cast<int64_t>(element_size(promote(operands, 2))) * 8};
}

}  // namespace

PENLIGHT_MAP_1(logical_not_out, Number, kNot)
PENLIGHT_FORMULA_2(logical_and_out, Number, (int{a != T(0)} & int{b != T(0)}) != 0)
PENLIGHT_FORMULA_2(logical_or_out, Number, (int{a != T(0)} | int{b != T(0)}) != 0)
PENLIGHT_FORMULA_2(logical_xor_out, Number, (a != T(0)) != (b != T(0)))

// Kernels of two tensors, of a tensor and a number, and of a number and a tensor.
#define PENLIGHT_BITWISE(name, functor)                                                              \
  void name##_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) { \
    map<Domain::Integral>(ctx, functor, out, self, other);                                           \
  }                                                                                                  \
  void name##_scalar_out(KernelContext& ctx, const Tensor& self, Scalar other, Tensor& out) {        \
    map<Domain::Integral>(ctx, functor, out, self, other);                                           \
  }                                                                                                  \
  void name##_scalar_tensor_out(KernelContext& ctx, Scalar self, const Tensor& other, Tensor& out) { \
    map<Domain::Integral>(ctx, functor, out, self, other);                                           \
  }
PENLIGHT_BITWISE(bitwise_and, PENLIGHT_OF_2(a& b))
PENLIGHT_BITWISE(bitwise_or, PENLIGHT_OF_2(a | b))
PENLIGHT_BITWISE(bitwise_xor, PENLIGHT_OF_2(a ^ b))
PENLIGHT_BITWISE(bitwise_left_shift, shift_left(self, other))
PENLIGHT_BITWISE(bitwise_right_shift, kShiftRight)

void bitwise_not_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (self.scalar_type() == ScalarType::Bool) return map<Domain::Number>(ctx, kNot, out, self);
  map<Domain::Integral>(ctx, PENLIGHT_OF_1(~x), out, self);
}

// The condition is converted to the others' compute type: not 0 means yes.
void where_self_out(KernelContext& ctx, const Tensor& condition, const Tensor& self, const Tensor& other,
                    Tensor& out) {
  const auto choose = [](auto yes, auto a, auto b) { return yes != decltype(yes)(0) ? a : b; };
  map_promoting<Domain::Number, 1, 2>(ctx, choose, out, condition, self, other);
}

void masked_fill_scalar_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, Scalar value,
                            Tensor& out) {
  // Truth values are computed as integers, where 0.5 is 0.
  const bool logical = self.scalar_type() == ScalarType::Bool;
  map_promoting<Domain::Number, 0, 1>(ctx, kMaskedFill, out, self, mask,
                                      logical ? cast_to(ScalarType::Bool, value) : value);
}

void masked_fill_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, const Tensor& value,
                            Tensor& out) {
  map_promoting<Domain::Number, 0, 1>(ctx, kMaskedFill, out, self, mask, value);
}

}  // namespace penlight::portable
