// A product over packed weights, split between threads.
#pragma once

#include <penlight/kernel.h>

#include "parallel.h"
#include "vector/routines.h"

namespace penlight::optimized {

// Scratch that one product leaves to the next of its kernel.
struct ProductScratch {
  PartMemory memory = {nullptr, 0};
  dim_t parts = 0;

  // Has it `each` bytes for every part now? Else the failure is recorded.
  bool provide(KernelContext& ctx, dim_t wanted, size_t each) {
    if (each == 0 || (wanted <= parts && each <= memory.each)) return true;
    if (!allocate_parts(ctx, wanted, each, memory)) return false;
    parts = wanted;
    return true;
  }
};

// Of k, for each row.
inline dim_t depth_of(const Product& p) {
  return p.geometry.taps_h * p.geometry.taps_w * p.channels * p.part_count;
}

// Parts of the rows each read all weights; parts of the outputs all of the input, and the next kernel finds
// half of what it reads in the cache of another.
bool reads_less_by_rows(const Product& product);

// Has `multiply` compute a product in so many parts, of its rows or of its panels, of which none splits
// `step`, each with `each` bytes of scratch. False, with the failure recorded, for want of memory.
bool run_parts(KernelContext& ctx, const Product& product, ProductScratch& scratch, size_t each, dim_t parts,
               bool by_rows, dim_t step, void (*multiply)(const Product&));

// Panels that stay in one part, so that no split changes the order of a sum. Of one row, kWidePanels do.
constexpr dim_t kPanelStep = 2;

// How a product is computed whose parts are of panels, a multiple of `step` in each, and of the fastest
// tiles where they have multiples of `tile`.
struct PanelProduct {
  void (*multiply)(const Product&);
  size_t scratch;  // bytes of a part
  dim_t step, tile;
};

// How many parts have panels, and how many panels none splits: `tile`, or `step` where the threads have less
// unequal work then.
struct PanelParts {
  dim_t parts, step;
};
#ifdef __OPTIMIZE_SIZE__  // less code
inline PanelParts panel_parts_of(const KernelContext& ctx, dim_t panels, dim_t, dim_t tile,
                                 double operations) {
  return {parts_of(ctx, operations, (panels + tile - 1) / tile), tile};
}
#else
PanelParts panel_parts_of(const KernelContext& ctx, dim_t panels, dim_t step, dim_t tile, double operations);
#endif

// Makes `product` ready. No element depends on how it is cut, nor on whether run_product() computes it.
PanelProduct by_panels(Product& product);

// Makes `product` ready and computes all its rows and panels. Its scratch is provided, or found in `kept` and
// left there. What each element is does not depend on the split. False, with the failure
// recorded, for want of memory.
bool run_product(KernelContext& ctx, Product& product, ProductScratch* kept = nullptr);

}  // namespace penlight::optimized
