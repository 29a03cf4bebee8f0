// The mean over some dimensions.
#pragma once

#include <penlight/kernel.h>

namespace penlight::optimized {

Tensor& mean_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                 Optional<ScalarType> dtype, Tensor& out);

}  // namespace penlight::optimized
