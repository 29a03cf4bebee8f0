// Products that split_product() computes, split between threads.
#pragma once

#include "isa.h"
#include "product.h"

namespace penlight::optimized {

// May `product` be computed so here, and is it expected to gain? Not a matter of threads: what each element
// is does not depend on them.
#if defined(PENLIGHT_WITH_AMX)
bool is_split(const Product& product);

// As run_product().
bool run_split(KernelContext& ctx, const Product& product, ProductScratch& scratch);
#else
inline bool is_split(const Product&) { return false; }
inline bool run_split(KernelContext&, const Product&, ProductScratch&) { return false; }
#endif

}  // namespace penlight::optimized
