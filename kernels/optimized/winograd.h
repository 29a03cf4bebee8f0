// Convolutions by rows or columns of taps, or by three by three, with fewer products: when that pays, and how
// it is split.
#pragma once

#include <penlight/kernel.h>

#include "vector/routines.h"

namespace penlight::optimized {

// Computes `product`, a convolution over `batch` images, if it is of the
// right kind and this is expected to be faster. False, with `output` to be computed again,
// if it is not, or if a result is not finite. Want of memory is recorded in the context.
#ifdef PENLIGHT_WITHOUT_WINOGRAD  // by a build whose tables of routines lack it
inline bool run_winograd(KernelContext&, const Product&, dim_t) { return false; }
#else
bool run_winograd(KernelContext& ctx, const Product& product, dim_t batch);
#endif

}  // namespace penlight::optimized
