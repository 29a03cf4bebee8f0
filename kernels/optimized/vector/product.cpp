// Matrix products over packed weights of float32.
#include "product_of.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void multiply_strip(const Strip& strip) { multiply_columns(strip); }

size_t product_scratch(const Product& p) {
#ifndef PENLIGHT_FEW_TILES
  if (is_row(p)) return 0;
#endif
  const ptrdiff_t runs = runs_of(p), rows = rows_of_block(p);
  const ptrdiff_t folded = runs * folded_size(folded_columns_of(p), p.channels);
  const ptrdiff_t elements = has_few_outputs(p)     ? p.outputs * size_of_output(p)
                             : has_narrow_groups(p) ? size_of_groups(p)
                             : are_crowded(p)       ? round_up(spread_size(p), kLine) + folded
                                                    : folded;
  return static_cast<size_t>(round_up(rows * runs, kLine)) * sizeof(float*) +
         static_cast<size_t>(elements) * sizeof(float);
}

void product(const Product& p) { multiply_all<Singles>(p); }

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
