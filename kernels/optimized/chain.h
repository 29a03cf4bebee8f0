// A chain of elementwise operations over tensors and numbers, and what runs it.
#pragma once

#include <penlight/kernel.h>

#include "vector/elements.h"

namespace penlight::optimized {

struct Chain {
  ElementStep steps[kElementSteps];
  int step_count = 0, registers = 0;
  double cost = 0;  // operations an element
  // An operand is a tensor of float32 or bool, or a number.
  Tensor tensors[kElementOperands];
  float numbers[kElementOperands];
  int operand_count = 0;

  void add(const Tensor& tensor) { tensors[operand_count++] = tensor; }
  void add(double number) { numbers[operand_count++] = static_cast<float>(number); }
  void step(ElementOp op, int to, int a, int b = 0, int c = 0) {
    steps[step_count++] = {op, to, {a, b, c}};
    if (to >= registers) registers = to + 1;
    cost += op >= ElementOp::Exp ? 24 : 3;
  }
};

// The shape that all tensors broadcast to. False where they do not.
bool broadcast_shape(const Chain& chain, dim_t* sizes, int& dim);

// Writes `out`, which has that shape. False, with nothing written, if it has gaps.
bool run_chain(KernelContext& ctx, const Chain& chain, Tensor& out);

}  // namespace penlight::optimized
