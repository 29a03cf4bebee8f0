// Averages over windows, once it is known where these are.
#pragma once

#include "pool.h"

namespace penlight::optimized {

// Computes all `rows` rows of `pool`, each by so many operations for an element, in parts that have a line
// each. False, with the failure recorded, where there is no memory for these.
bool average_rows(KernelContext& ctx, const AveragePool& pool, dim_t rows, double operations);

}  // namespace penlight::optimized
