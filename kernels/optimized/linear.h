// Linear layers over packed weights.
#pragma once

#include <penlight/kernel.h>

#include "vector/routines.h"

namespace penlight::optimized {

// activation(input * weight + bias + residual); `blocks` as of Product. False, with the failure
// recorded, where the arguments do not fit.
bool run_linear(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                const Optional<Tensor>& residual, int64_t outputs, int64_t activation, double low,
                double high, const Blocks* blocks, Tensor& out);

// What run_linear() does once sizes, weights, activation and residual are checked: dense `rows` of `depth`
// elements, to as many of `outputs`; neither of these is 0.
bool multiply_rows(KernelContext& ctx, const float* input, dim_t rows, dim_t depth, const Tensor& weight,
                   dim_t outputs, const Epilogue& epilogue, const Blocks* blocks, float* output);

}  // namespace penlight::optimized
