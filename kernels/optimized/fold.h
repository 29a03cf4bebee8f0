// Sums and extremes of integers and truth values.
#pragma once

#include <penlight/kernel.h>

#include "vector/numbers.h"

namespace penlight::optimized {

// False, with nothing written, where that is for the portable kernels: of other types, of tensors that are
// not dense, or over dimensions that do not lie beside each other.
bool fold_numbers(KernelContext& ctx, NumberFold fold, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
                  bool keepdim, Tensor& out);

}  // namespace penlight::optimized
