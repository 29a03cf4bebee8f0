// A product over packed weights, split between threads.
#pragma once

#include <penlight/kernel.h>

#include "vector/routines.h"

namespace penlight::optimized {

// Computes all rows and panels of `product`, whose scratch it provides. What each element
// is does not depend on the split. False, with the failure recorded, for want of memory.
bool run_product(KernelContext& ctx, const Product& product);

}  // namespace penlight::optimized
