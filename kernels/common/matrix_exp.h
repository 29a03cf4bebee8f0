// The exponential of square matrices, for the loops of either library.
#pragma once

#include "dense_loops.h"
#include "matrices.h"

namespace penlight::linear_algebra {

void matrix_exp(KernelContext& ctx, const DenseLoops& loops, const Tensor& self, Tensor& out);

}  // namespace penlight::linear_algebra
