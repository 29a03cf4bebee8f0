// Truth values and bits, and choosing by a truth value.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

struct LogicalNot {
  static constexpr bool kComplex = true;
  template <class T>
  bool operator()(T x) const {
    return x == T(0);
  }
};

struct LogicalAnd {
  static constexpr bool kComplex = true;
  template <class T>
  bool operator()(T a, T b) const {
    return (int{a != T(0)} & int{b != T(0)}) != 0;
  }
};

struct LogicalOr {
  static constexpr bool kComplex = true;
  template <class T>
  bool operator()(T a, T b) const {
    return (int{a != T(0)} | int{b != T(0)}) != 0;
  }
};

struct LogicalXor {
  static constexpr bool kComplex = true;
  template <class T>
  bool operator()(T a, T b) const {
    return (a != T(0)) != (b != T(0));
  }
};

struct BitNot {
  template <class T>
  T operator()(T x) const {
    return ~x;
  }
};

struct BitAnd {
  template <class T>
  T operator()(T a, T b) const {
    return a & b;
  }
};

struct BitOr {
  template <class T>
  T operator()(T a, T b) const {
    return a | b;
  }
};

struct BitXor {
  template <class T>
  T operator()(T a, T b) const {
    return a ^ b;
  }
};

// Shifts by a negative count, or by the type's width and more, leave no bit of the
// number; to the right, signed numbers leave their sign.
struct ShiftLeft {
  int64_t bits;

  template <class T>
  T operator()(T a, T count) const {
    if (count < 0 || count >= bits) return 0;
    return static_cast<T>(static_cast<uint64_t>(a) << count);
  }
};

struct ShiftRight {
  template <class T>
  T operator()(T a, T count) const {
    return a >> (count < 0 || count > 63 ? 63 : count);
  }
};

// The condition is converted to the others' compute type: not 0 means yes.
struct Where {
  static constexpr bool kComplex = true;
  template <class T>
  T operator()(T condition, T yes, T no) const {
    return condition != T(0) ? yes : no;
  }
};

struct MaskedFill {
  static constexpr bool kComplex = true;
  template <class T>
  T operator()(T x, T mask, T value) const {
    return mask != T(0) ? value : x;
  }
};

template <class A, class B>
Tensor& shift_left(KernelContext& ctx, Tensor& out, const A& a, const B& b) {
  const Operand operands[] = {Operand(a), Operand(b)};
  const int64_t bits = static_cast<int64_t>(element_size(promote(operands, 2))) * 8;
  return map<Domain::Integral>(ctx, ShiftLeft{bits}, out, a, b);
}

}  // namespace

Tensor& logical_not_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return map<Domain::Real>(ctx, LogicalNot{}, out, self);
}

Tensor& logical_and_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, LogicalAnd{}, out, self, other);
}

Tensor& logical_or_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, LogicalOr{}, out, self, other);
}

Tensor& logical_xor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Real>(ctx, LogicalXor{}, out, self, other);
}

Tensor& bitwise_not_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (self.scalar_type() == ScalarType::Bool) return map<Domain::Real>(ctx, LogicalNot{}, out, self);
  return map<Domain::Integral>(ctx, BitNot{}, out, self);
}

Tensor& bitwise_and_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Integral>(ctx, BitAnd{}, out, self, other);
}

Tensor& bitwise_and_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Integral>(ctx, BitAnd{}, out, self, other);
}

Tensor& bitwise_and_scalar_tensor_out(KernelContext& ctx, const Scalar& self, const Tensor& other,
                                      Tensor& out) {
  return map<Domain::Integral>(ctx, BitAnd{}, out, self, other);
}

Tensor& bitwise_or_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Integral>(ctx, BitOr{}, out, self, other);
}

Tensor& bitwise_or_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Integral>(ctx, BitOr{}, out, self, other);
}

Tensor& bitwise_or_scalar_tensor_out(KernelContext& ctx, const Scalar& self, const Tensor& other,
                                     Tensor& out) {
  return map<Domain::Integral>(ctx, BitOr{}, out, self, other);
}

Tensor& bitwise_xor_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return map<Domain::Integral>(ctx, BitXor{}, out, self, other);
}

Tensor& bitwise_xor_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return map<Domain::Integral>(ctx, BitXor{}, out, self, other);
}

Tensor& bitwise_xor_scalar_tensor_out(KernelContext& ctx, const Scalar& self, const Tensor& other,
                                      Tensor& out) {
  return map<Domain::Integral>(ctx, BitXor{}, out, self, other);
}

Tensor& bitwise_left_shift_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other,
                                      Tensor& out) {
  return shift_left(ctx, out, self, other);
}

Tensor& bitwise_left_shift_tensor_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other,
                                             Tensor& out) {
  return shift_left(ctx, out, self, other);
}

Tensor& bitwise_left_shift_scalar_tensor_out(KernelContext& ctx, const Scalar& self, const Tensor& other,
                                             Tensor& out) {
  return shift_left(ctx, out, self, other);
}

Tensor& bitwise_right_shift_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& other,
                                       Tensor& out) {
  return map<Domain::Integral>(ctx, ShiftRight{}, out, self, other);
}

Tensor& bitwise_right_shift_tensor_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other,
                                              Tensor& out) {
  return map<Domain::Integral>(ctx, ShiftRight{}, out, self, other);
}

Tensor& bitwise_right_shift_scalar_tensor_out(KernelContext& ctx, const Scalar& self, const Tensor& other,
                                              Tensor& out) {
  return map<Domain::Integral>(ctx, ShiftRight{}, out, self, other);
}

Tensor& where_self_out(KernelContext& ctx, const Tensor& condition, const Tensor& self, const Tensor& other,
                       Tensor& out) {
  return map_promoting<Domain::Real, 1, 2>(ctx, Where{}, out, condition, self, other);
}

Tensor& masked_fill_scalar_out(KernelContext& ctx, const Tensor& self, const Tensor& mask,
                               const Scalar& value, Tensor& out) {
  return map_promoting<Domain::Real, 0, 1>(ctx, MaskedFill{}, out, self, mask, value);
}

Tensor& masked_fill_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& mask,
                               const Tensor& value, Tensor& out) {
  return map_promoting<Domain::Real, 0, 1>(ctx, MaskedFill{}, out, self, mask, value);
}

}  // namespace penlight::portable
