// Elementwise operators of float32: chains of one step, or two. Of those that integers have too, numbers.h.
#include <string.h>

#include "chain.h"
#include "complex_pairs.h"
#include "isa.h"
#include "numbers.h"
#include "packed.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

constexpr int kRegisters = kElementRegisters;

bool lies_as(const TensorImpl& x, const TensorImpl& other) {
  dim_t different = x.dim ^ other.dim;
  if (different != 0) return false;
  for (int d = 0; d < x.dim; ++d) {
    different |= (x.sizes[d] ^ other.sizes[d]) | (x.strides[d] ^ other.strides[d]);
  }
  return different == 0;
}

bool has_gaps(const TensorImpl& x) {
  dim_t span = 1;
  for (int d = 0; d < x.dim; ++d) span += (x.sizes[d] - 1) * x.strides[d];
  return span != x.numel;
}

// One step over elements that all lie in a row; `other` is one number, or as many.
void run_row(ElementOp op, const float* from, const float* other, bool is_number, float* result,
             dim_t count) {
  alignas(64) float numbers[2 * kPanel];
  const ElementStep step = {op, 0, {kRegisters, kRegisters + 1, 0}};
  ElementOperand operands[2];
  for (ElementOperand& operand : operands) {
    operand.read = ElementRead::Dense;
    operand.strides[0] = 1;
    operand.is_mask = false;
    operand.tile = 0;
  }
  operands[0].data = from;
  operands[1].data = other;
  if (is_number) operands[1].read = ElementRead::Number;
  Elementwise work;
  work.steps = &step;
  work.step_count = 1;
  work.operands = operands;
  work.operand_count = 2;
  work.loops = 1;
  work.sizes[0] = work.count = work.item = work.tile = count;
  work.output = result;
  work.conditions = nullptr;
  work.row_items = work.last = 1;
  work.first = 0;
  work.tiles = 0;
  work.scratch = numbers;
  routines().elementwise(work);
}

// Two tensors of one layout, the second perhaps one number, of not so many elements that
// threads would help.
bool run_row_of(ElementOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  constexpr dim_t kMost = 16384;
  const TensorImpl &to = *out.unsafeGetTensorImpl(), &x = *a.unsafeGetTensorImpl(),
                   &y = *b.unsafeGetTensorImpl();
  const bool is_number = y.dim == 0;
  if (to.numel > kMost || to.numel == 0 || !lies_as(x, to) || has_gaps(to) || !is_compiled(op)) return false;
  if (!is_number && !lies_as(y, to)) return false;
  run_row(op, static_cast<const float*>(x.data), static_cast<const float*>(y.data), is_number,
          static_cast<float*>(to.data), to.numel);
  return true;
}

// Three tensors of one layout, of so few elements that anything but doing it would take longer.
template <class F>
inline bool run_few(const Tensor& a, const Tensor& b, Tensor& out, F&& f) {
  constexpr dim_t kFew = 32, kAtOnce = 4;
  const TensorImpl &to = *out.unsafeGetTensorImpl(), &x = *a.unsafeGetTensorImpl(),
                   &y = *b.unsafeGetTensorImpl();
  const dim_t count = to.numel;
  if (count > kFew || x.dim != to.dim || y.dim != to.dim) return false;
  // One loop after the other: all at once takes more registers than there are.
  dim_t different = 0, span = 1;
  for (int d = 0; d < to.dim; ++d) {
    different |= (x.sizes[d] ^ to.sizes[d]) | (x.strides[d] ^ to.strides[d]);
    span += (to.sizes[d] - 1) * to.strides[d];
  }
  for (int d = 0; d < to.dim; ++d) {
    different |= (y.sizes[d] ^ to.sizes[d]) | (y.strides[d] ^ to.strides[d]);
  }
  if (different != 0 || span != count) return false;
  const float *from = static_cast<const float*>(x.data), *other = static_cast<const float*>(y.data);
  float* result = static_cast<float*>(to.data);
  dim_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    float some[kAtOnce];
    for (int j = 0; j < kAtOnce; ++j) some[j] = f(from[i + j], other[i + j]);
    memcpy(result + i, some, sizeof some);
  }
  for (; i < count; ++i) result[i] = f(from[i], other[i]);
  return true;
}

// One step, or two, over operands that are there. What is neither float32 nor without gaps is
// left to the portable kernels.
Tensor& run_alone(KernelContext& ctx, Chain& chain, Tensor& out) {
  dim_t sizes[kMaxDim];
  int dim = 0;
  bool takes = is_float(out) && broadcast_shape(chain, sizes, dim);
  for (int s = 0; s < chain.step_count; ++s) takes &= is_compiled(chain.steps[s].op);
  if (!takes) {
    ctx.decline();
    return out;
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim)))) return out;
  if (!run_chain(ctx, chain, out)) ctx.decline();
  return out;
}

constexpr int kFirst = kRegisters, kSecond = kRegisters + 1, kThird = kRegisters + 2;

Tensor& one(KernelContext& ctx, ElementOp op, const Tensor& x, Tensor& out) {
  if (!is_float(x)) return decline(ctx, out);
  Chain chain;
  chain.add(x);
  chain.step(op, 0, kFirst);
  return run_alone(ctx, chain, out);
}

// `a` and `b` are tensors or numbers.
template <class A, class B>
Tensor& two(KernelContext& ctx, ElementOp op, const A& a, const B& b, Tensor& out) {
  Chain chain;
  chain.add(a);
  chain.add(b);
  chain.step(op, 0, kFirst, kSecond);
  return run_alone(ctx, chain, out);
}

__attribute__((noinline)) Tensor& two_tensors(KernelContext& ctx, ElementOp op, const Tensor& a,
                                              const Tensor& b, Tensor& out) {
  return run_row_of(op, a, b, out) ? out : two(ctx, op, a, b, out);
}

// Of integers and bool. Where none are computed with, not even compiled.
template <class A, class B>
Tensor& integers(KernelContext& ctx, NumberOp op, const A& a, const B& b, Tensor& out) {
  if constexpr (kIntegerSelected) {
    return or_decline(ctx, ctx.ok() && numbers_of_two(ctx, op, a, b, out), out);
  } else {
    return decline(ctx, out);
  }
}

bool is_integer(const Tensor& x) { return kIntegerSelected && is_integral(x.scalar_type()); }
bool counts(const Tensor& x) {
  return is_integer(x) || (kIntegerSelected && x.scalar_type() == ScalarType::Bool);
}

// `integer_op`: what it is of integers.
template <class F>
inline Tensor& two_tensors(KernelContext& ctx, ElementOp op, NumberOp integer_op, const Tensor& a,
                           const Tensor& b, Tensor& out, F&& f) {
  if (!is_float(a) || !is_float(b) || !is_float(out)) {
    if (counts(a) && counts(b)) return integers(ctx, integer_op, a, b, out);
    return or_decline(ctx, complex_of_two(ctx, op, a, b, out), out);
  }
  return run_few(a, b, out, f) ? out : two_tensors(ctx, op, a, b, out);
}

bool is_one(const Scalar& number) { return number.to<double>() == 1.0; }

// a + alpha * b
template <class B>
Tensor& scaled(KernelContext& ctx, ElementOp op, const Tensor& a, const B& b, const Scalar& alpha,
               Tensor& out) {
  Chain chain;
  chain.add(a);
  chain.add(b);
  chain.add(alpha.to<double>());
  chain.step(ElementOp::Mul, 0, kSecond, kThird);
  chain.step(op, 0, kFirst, 0);
  return run_alone(ctx, chain, out);
}

// A tensor and alpha times a number.
Tensor& shifted(KernelContext& ctx, ElementOp op, const Tensor& x, const Scalar& number, const Scalar& alpha,
                Tensor& out) {
  const double by = number.to<double>();
  if (counts(x)) {
    if (!is_one(alpha)) return decline(ctx, out);
    return integers(ctx, op == ElementOp::Add ? NumberOp::Add : NumberOp::Sub, x, number, out);
  }
  if (!is_float(x)) {
    return or_decline(ctx, complex_and_number(ctx, op, x, by * alpha.to<double>(), 0, out), out);
  }
  return is_one(alpha) ? two(ctx, op, x, by, out) : scaled(ctx, op, x, by, alpha, out);
}

Tensor& clamp(KernelContext& ctx, const Tensor& x, double low, double high, Tensor& out) {
  if (!is_float(x) || low != low || high != high) return decline(ctx, out);
  Chain chain;
  chain.add(x);
  chain.add(low);
  chain.add(high);
  chain.step(ElementOp::Clamp, 0, kFirst, kSecond, kThird);
  return run_alone(ctx, chain, out);
}

}  // namespace

Tensor& add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar& alpha,
                Tensor& out) {
  if (is_one(alpha)) {
    return two_tensors(ctx, ElementOp::Add, NumberOp::Add, self, other, out,
                       [](float a, float b) { return a + b; });
  }
  return is_float(self) && is_float(other) ? scaled(ctx, ElementOp::Add, self, other, alpha, out)
                                           : decline(ctx, out);
}

Tensor& sub_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar& alpha,
                Tensor& out) {
  if (is_one(alpha)) {
    return two_tensors(ctx, ElementOp::Sub, NumberOp::Sub, self, other, out,
                       [](float a, float b) { return a - b; });
  }
  return is_float(self) && is_float(other) ? scaled(ctx, ElementOp::Sub, self, other, alpha, out)
                                           : decline(ctx, out);
}

Tensor& mul_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return two_tensors(ctx, ElementOp::Mul, NumberOp::Mul, self, other, out,
                     [](float a, float b) { return a * b; });
}

Tensor& div_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  if (!is_float(self) || !is_float(other) || !is_float(out)) return decline(ctx, out);
  return run_few(self, other, out, [](float a, float b) { return a / b; })
             ? out
             : two_tensors(ctx, ElementOp::Div, self, other, out);
}

Tensor& maximum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return is_float(self) && is_float(other) ? two(ctx, ElementOp::Maximum, self, other, out)
                                           : integers(ctx, NumberOp::Maximum, self, other, out);
}

Tensor& minimum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return is_float(self) && is_float(other) ? two(ctx, ElementOp::Minimum, self, other, out)
                                           : integers(ctx, NumberOp::Minimum, self, other, out);
}

Tensor& add_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, const Scalar& alpha,
                       Tensor& out) {
  return shifted(ctx, ElementOp::Add, self, other, alpha, out);
}

Tensor& sub_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, const Scalar& alpha,
                       Tensor& out) {
  return shifted(ctx, ElementOp::Sub, self, other, alpha, out);
}

Tensor& rsub_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, const Scalar& alpha,
                        Tensor& out) {
  if (counts(self) && is_one(alpha)) return integers(ctx, NumberOp::Sub, other, self, out);
  if (!is_float(self) || !is_one(alpha)) return decline(ctx, out);
  return two(ctx, ElementOp::Sub, other.to<double>(), self, out);
}

Tensor& mul_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  if (counts(self)) return integers(ctx, NumberOp::Mul, self, other, out);
  if (!is_float(self)) {
    return or_decline(ctx, complex_and_number(ctx, ElementOp::MulComplex, self, other.to<double>(), 0, out),
                      out);
  }
  return two(ctx, ElementOp::Mul, self, other.to<double>(), out);
}

Tensor& div_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  if (!is_float(self)) {
    const float number = static_cast<float>(1 / other.to<double>());
    if (number == 0 || number - number != 0) return decline(ctx, out);
    return or_decline(ctx, complex_and_number(ctx, ElementOp::MulComplex, self, number, 0, out), out);
  }
  return two(ctx, ElementOp::Div, self, other.to<double>(), out);
}

Tensor& pow_tensor_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& exponent, Tensor& out) {
  const double power = exponent.to<double>();
  if (power == 2 && !is_float(self)) {
    return or_decline(ctx, complex_of_two(ctx, ElementOp::Mul, self, self, out), out);
  }
  if (power == 2) return one(ctx, ElementOp::Square, self, out);
  if (power == 0.5) return one(ctx, ElementOp::Sqrt, self, out);
  if (power == -0.5) return one(ctx, ElementOp::Rsqrt, self, out);
  // Products are nearer to what they should be, and to what ATen gives.
  if (!is_float(self) || power == 3 || power == -1 || power == -2) return decline(ctx, out);
  return two(ctx, ElementOp::Pow, self, power, out);
}

Tensor& pow_tensor_tensor_out(KernelContext& ctx, const Tensor& self, const Tensor& exponent, Tensor& out) {
  if (!is_float(self) || !is_float(exponent)) return decline(ctx, out);
  return two(ctx, ElementOp::Pow, self, exponent, out);
}

Tensor& pow_scalar_out(KernelContext& ctx, const Scalar& self, const Tensor& exponent, Tensor& out) {
  return is_float(exponent) ? two(ctx, ElementOp::Pow, self.to<double>(), exponent, out) : decline(ctx, out);
}

Tensor& where_self_out(KernelContext& ctx, const Tensor& condition, const Tensor& self, const Tensor& other,
                       Tensor& out) {
  if (condition.scalar_type() != ScalarType::Bool || !is_float(self) || !is_float(other)) {
    return decline(ctx, out);
  }
  Chain chain;
  chain.add(condition);
  chain.add(self);
  chain.add(other);
  chain.step(ElementOp::Where, 0, kFirst, kSecond, kThird);
  return run_alone(ctx, chain, out);
}

Tensor& clamp_out(KernelContext& ctx, const Tensor& self, const Optional<Scalar>& min,
                  const Optional<Scalar>& max, Tensor& out) {
  if constexpr (kIntegerSelected) {
    Operand low, high;
    if (min) low = *min;
    if (max) high = *max;
    const bool takes = is_integer(self);
    if (takes && numbers_within(ctx, self, min ? &low : nullptr, max ? &high : nullptr, out)) return out;
  }
  const double infinity = __builtin_inf();
  return clamp(ctx, self, min.has_value() ? min.value().to<double>() : -infinity,
               max.has_value() ? max.value().to<double>() : infinity, out);
}

Tensor& hardtanh_out(KernelContext& ctx, const Tensor& self, const Scalar& min_val, const Scalar& max_val,
                     Tensor& out) {
  return clamp(ctx, self, min_val.to<double>(), max_val.to<double>(), out);
}

Tensor& leaky_relu_out(KernelContext& ctx, const Tensor& self, const Scalar& negative_slope, Tensor& out) {
  return is_float(self) ? two(ctx, ElementOp::LeakyRelu, self, negative_slope.to<double>(), out)
                        : decline(ctx, out);
}

Tensor& prelu_kernel_out(KernelContext& ctx, const Tensor& self, const Tensor& weight, Tensor& out) {
  return is_float(self) && is_float(weight) ? two(ctx, ElementOp::LeakyRelu, self, weight, out)
                                            : decline(ctx, out);
}

Tensor& gelu_out(KernelContext& ctx, const Tensor& self, StringView approximate, Tensor& out) {
  const bool tanh = approximate.size() == 4 && memcmp(approximate.data(), "tanh", 4) == 0;
  const bool none = approximate.size() == 4 && memcmp(approximate.data(), "none", 4) == 0;
  // The portable kernel says what there is.
  return tanh || none ? one(ctx, tanh ? ElementOp::GeluTanh : ElementOp::Gelu, self, out) : decline(ctx, out);
}

Tensor& neg_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (is_float(self)) return one(ctx, ElementOp::Neg, self, out);
  if (is_integer(self)) return integers(ctx, NumberOp::Sub, Scalar(int64_t{0}), self, out);
  return or_decline(ctx, negative_of_complex(ctx, self, out), out);
}

Tensor& abs_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (is_float(self)) return one(ctx, ElementOp::Abs, self, out);
  if (is_integer(self) && out.scalar_type() == self.scalar_type()) {
    return or_decline(ctx, absolute_numbers(ctx, self, out), out);
  }
  return or_decline(ctx, real_of_complex(ctx, ElementOp::Hypot, self, out), out);
}

Tensor& relu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Relu, self, out);
}

Tensor& sqrt_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Sqrt, self, out);
}

Tensor& rsqrt_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Rsqrt, self, out);
}

Tensor& reciprocal_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Reciprocal, self, out);
}

Tensor& exp_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Exp, self, out);
}

Tensor& expm1_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Expm1, self, out);
}

Tensor& log1p_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Log1p, self, out);
}

Tensor& log_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Log, self, out);
}

Tensor& sin_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Sin, self, out);
}

Tensor& cos_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Cos, self, out);
}

Tensor& atan_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Atan, self, out);
}

Tensor& atan2_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return is_float(self) && is_float(other) ? two(ctx, ElementOp::Atan2, self, other, out) : decline(ctx, out);
}

Tensor& asin_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Asin, self, out);
}

Tensor& acos_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Acos, self, out);
}

Tensor& floor_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Floor, self, out);
}

Tensor& ceil_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Ceil, self, out);
}

Tensor& trunc_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Trunc, self, out);
}

Tensor& round_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Round, self, out);
}

Tensor& erf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Erf, self, out);
}

Tensor& sigmoid_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Sigmoid, self, out);
}

Tensor& tanh_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Tanh, self, out);
}

Tensor& silu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Silu, self, out);
}

Tensor& hardsigmoid_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::HardSigmoid, self, out);
}

Tensor& hardswish_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::HardSwish, self, out);
}

}  // namespace penlight::optimized
