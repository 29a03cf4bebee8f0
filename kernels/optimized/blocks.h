// Products that strassen() computes, split between threads.
#pragma once

#include "product.h"

namespace penlight::optimized {

// May `product` be computed so here, and is it expected to gain? Not a matter of threads: what each element
// is does not depend on them.
bool is_by_blocks(const Product& product);

// As run_product().
bool run_by_blocks(KernelContext& ctx, const Product& product, ProductScratch& scratch);

}  // namespace penlight::optimized
