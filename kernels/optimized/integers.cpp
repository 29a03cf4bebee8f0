// Comparisons, bits and truth values of integers and bool; the portable kernels take what these decline.
#include "fold.h"
#include "numbers.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

template <class A, class B>
Tensor& two(KernelContext& ctx, NumberOp op, const A& a, const B& b, Tensor& out) {
  return or_decline(ctx, numbers_of_two(ctx, op, a, b, out), out);
}

// Each operand by its own type is true or not. Not where ATen would narrow one, perhaps to 0.
Tensor& logical(KernelContext& ctx, NumberOp op, const Operand& a, const Operand& b, Tensor& out) {
  if (out.scalar_type() != ScalarType::Bool) return decline(ctx, out);
  const Operand both[] = {a, b};
  const size_t widest = element_size(promote(both, 2));
  for (const Operand& operand : both) {
    if (operand.tensor() && element_size(operand.tensor()->dtype) > widest) return decline(ctx, out);
  }
  NumberChain chain;
  const int first = chain.add(a, ScalarType::Bool), second = chain.add(b, ScalarType::Bool);
  chain.step(op, ScalarType::Bool, first, second);
  return or_decline(ctx, run_numbers(ctx, chain, out), out);
}

// Of truth values, any is the greatest and all the least. (Of uint8 they give uint8, and no list of
// dimensions stands for all of them.)
Tensor& fold(KernelContext& ctx, NumberFold kind, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
             bool keepdim, Tensor& out) {
  const bool none = dims.has_value() && dims.value().empty();
  if (none || self.scalar_type() != ScalarType::Bool) return decline(ctx, out);
  return or_decline(ctx, fold_numbers(ctx, kind, self, dims, keepdim, out), out);
}

}  // namespace

// Kernels of a tensor and a tensor, of a tensor and a number, of a number and a tensor.
#define PENLIGHT_TENSORS(kernel, ...)                                                        \
  Tensor& kernel(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) { \
    return __VA_ARGS__;                                                                      \
  }
#define PENLIGHT_NUMBER(kernel, ...)                                                         \
  Tensor& kernel(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) { \
    return __VA_ARGS__;                                                                      \
  }

PENLIGHT_TENSORS(eq_tensor_out, two(ctx, NumberOp::Equal, self, other, out))
PENLIGHT_NUMBER(eq_scalar_out, two(ctx, NumberOp::Equal, self, other, out))
PENLIGHT_TENSORS(ne_tensor_out, two(ctx, NumberOp::NotEqual, self, other, out))
PENLIGHT_NUMBER(ne_scalar_out, two(ctx, NumberOp::NotEqual, self, other, out))
PENLIGHT_TENSORS(lt_tensor_out, two(ctx, NumberOp::Less, self, other, out))
PENLIGHT_NUMBER(lt_scalar_out, two(ctx, NumberOp::Less, self, other, out))
PENLIGHT_TENSORS(le_tensor_out, two(ctx, NumberOp::LessEqual, self, other, out))
PENLIGHT_NUMBER(le_scalar_out, two(ctx, NumberOp::LessEqual, self, other, out))
PENLIGHT_TENSORS(gt_tensor_out, two(ctx, NumberOp::Less, other, self, out))
PENLIGHT_NUMBER(gt_scalar_out, two(ctx, NumberOp::Less, other, self, out))
PENLIGHT_TENSORS(ge_tensor_out, two(ctx, NumberOp::LessEqual, other, self, out))
PENLIGHT_NUMBER(ge_scalar_out, two(ctx, NumberOp::LessEqual, other, self, out))

PENLIGHT_TENSORS(bitwise_and_tensor_out, two(ctx, NumberOp::And, self, other, out))
PENLIGHT_NUMBER(bitwise_and_scalar_out, two(ctx, NumberOp::And, self, other, out))
PENLIGHT_TENSORS(bitwise_or_tensor_out, two(ctx, NumberOp::Or, self, other, out))
PENLIGHT_NUMBER(bitwise_or_scalar_out, two(ctx, NumberOp::Or, self, other, out))
PENLIGHT_TENSORS(bitwise_xor_tensor_out, two(ctx, NumberOp::Xor, self, other, out))
PENLIGHT_NUMBER(bitwise_xor_scalar_out, two(ctx, NumberOp::Xor, self, other, out))
PENLIGHT_TENSORS(bitwise_left_shift_tensor_out, two(ctx, NumberOp::ShiftLeft, self, other, out))
PENLIGHT_NUMBER(bitwise_left_shift_tensor_scalar_out, two(ctx, NumberOp::ShiftLeft, self, other, out))
PENLIGHT_TENSORS(bitwise_right_shift_tensor_out, two(ctx, NumberOp::ShiftRight, self, other, out))
PENLIGHT_NUMBER(bitwise_right_shift_tensor_scalar_out, two(ctx, NumberOp::ShiftRight, self, other, out))

PENLIGHT_TENSORS(logical_and_out, logical(ctx, NumberOp::And, self, other, out))
PENLIGHT_TENSORS(logical_or_out, logical(ctx, NumberOp::Or, self, other, out))
PENLIGHT_TENSORS(logical_xor_out, logical(ctx, NumberOp::Xor, self, other, out))

PENLIGHT_NUMBER(clamp_min_out, two(ctx, NumberOp::Maximum, self, other, out))
PENLIGHT_NUMBER(clamp_max_out, two(ctx, NumberOp::Minimum, self, other, out))

Tensor& bitwise_not_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  const bool truths = self.scalar_type() == ScalarType::Bool;
  const Scalar ones = truths ? Scalar(true) : Scalar(int64_t{-1});
  return two(ctx, NumberOp::Xor, self, ones, out);
}

Tensor& logical_not_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return logical(ctx, NumberOp::Xor, self, Scalar(true), out);
}

Tensor& clamp_tensor_out(KernelContext& ctx, const Tensor& self, const Optional<Tensor>& min,
                         const Optional<Tensor>& max, Tensor& out) {
  Operand low, high;
  if (min) low = *min;
  if (max) high = *max;
  return or_decline(ctx, numbers_within(ctx, self, min ? &low : nullptr, max ? &high : nullptr, out), out);
}

Tensor& any_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  return fold(ctx, NumberFold::Greatest, self, ArrayRef<int64_t>(&dim, 1), keepdim, out);
}

Tensor& any_dims_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                     Tensor& out) {
  return fold(ctx, NumberFold::Greatest, self, dim, keepdim, out);
}

Tensor& any_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return fold(ctx, NumberFold::Greatest, self, nullopt, false, out);
}

Tensor& all_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  return fold(ctx, NumberFold::Least, self, ArrayRef<int64_t>(&dim, 1), keepdim, out);
}

Tensor& all_dims_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                     Tensor& out) {
  return fold(ctx, NumberFold::Least, self, dim, keepdim, out);
}

Tensor& all_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return fold(ctx, NumberFold::Least, self, nullopt, false, out);
}

#undef PENLIGHT_NUMBER
#undef PENLIGHT_TENSORS

}  // namespace penlight::optimized
