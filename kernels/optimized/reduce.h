// Means over some dimensions.
#pragma once

#include <penlight/kernel.h>

#include "run.h"

namespace penlight::optimized {

Tensor& mean_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                 Optional<ScalarType> dtype, Tensor& out);

// Over the middle ones of a dense run of elements, of which there are some. False with a failure recorded.
bool mean_of_run(KernelContext& ctx, const Run& run, const float* input, float* output);

}  // namespace penlight::optimized
