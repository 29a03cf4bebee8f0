// Steps over integers and truth values, and conversions of any numbers, whatever their types and strides.
#pragma once

#include <penlight/kernel.h>

#include "kernels/common/elementwise.h"
#include "vector/numbers.h"

namespace penlight::optimized {

// Operands are read as a type of the caller's choice; steps name them, and results of steps before, by
// number.
struct NumberChain {
  static constexpr int kOperands = 3, kSteps = 2;

  Operand operands[kOperands];
  ScalarType as[kOperands];
  int operand_count = 0;
  struct Step {
    NumberOp op;
    ScalarType type;  // of its operands
    int from[2];
  } steps[kSteps];
  int step_count = 0;

  int add(const Operand& operand, ScalarType type) {
    operands[operand_count] = operand;
    as[operand_count] = type;
    return operand_count++;
  }
  int step(NumberOp op, ScalarType type, int a, int b) {
    steps[step_count] = {op, type, {a, b}};
    return kOperands + step_count++;
  }
};

constexpr dim_t kBlockBytes = 4096;  // what a step works on at a time where types or strides differ

inline NumberType number_type(ScalarType type) {
  return type == ScalarType::Bool ? NumberType::UInt8 : static_cast<NumberType>(type);
}

// The block at `from` as `to`: there already, in one of the `buffers`, or in `last` if that is not null.
const void* convert_block(ScalarType from_type, const void* from, ScalarType to, dim_t count,
                          char (*buffers)[kBlockBytes], void* last = nullptr);

// Computes `out`: the last step, or the operand where there is none. False, with nothing written, where that
// is for the portable kernels.
bool run_numbers(KernelContext& ctx, const NumberChain& chain, Tensor& out);

// `op` of two operands that promote to an integer or bool, computed in that type.
bool numbers_of_two(KernelContext& ctx, NumberOp op, const Operand& a, const Operand& b, Tensor& out);

// x within limits, either of which may be missing (null).
bool numbers_within(KernelContext& ctx, const Operand& x, const Operand* low, const Operand* high,
                    Tensor& out);

// Of integers, without their sign.
bool absolute_numbers(KernelContext& ctx, const Tensor& x, Tensor& out);

}  // namespace penlight::optimized
