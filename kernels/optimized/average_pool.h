// Averages over windows, once it is known where these are.
#pragma once

#include "pool.h"

namespace penlight::optimized {

// Where pixels lie, of planes or of a channels-last image, with the last `dims` dimensions of either. False,
// with nothing written, if it is for the portable kernel.
bool place(const Tensor& self, size_t dims, Tensor& out, AveragePool& pool);

// Computes all `rows` rows of `pool`, each by so many operations for an element, in parts that have a line
// each. False, with the failure recorded, where there is no memory for these.
bool average_rows(KernelContext& ctx, const AveragePool& pool, dim_t rows, double operations);

}  // namespace penlight::optimized
