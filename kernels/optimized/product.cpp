#include "product.h"

#include "isa.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

// Rows and panels of a part: multiples of the largest tile of any instruction set.
constexpr dim_t kRowStep = 24;
constexpr dim_t kPanelStep = 2;

}  // namespace

bool run_product(KernelContext& ctx, const Product& product) {
  const dim_t rows = product.last_row, panels = product.last_panel;
  const double depth =
      static_cast<double>(product.geometry.taps_h * product.geometry.taps_w * product.channels);
  const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(product.outputs) * depth;
  const dim_t row_steps = (rows + kRowStep - 1) / kRowStep,
              panel_steps = (panels + kPanelStep - 1) / kPanelStep;
  // Each part of the rows reads all weights; with few rows parts of the weights are better.
  const bool by_rows = row_steps >= 2 * static_cast<dim_t>(ctx.threads());
  const dim_t parts = parts_of(ctx, operations, by_rows ? row_steps : panel_steps);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, routines().product_scratch(product), memory)) return false;
  const auto part = [&](size_t index) {
    Product mine = product;
    if (by_rows) {
      const Range range = range_of(index, parts, rows, kRowStep);
      mine.first_row = range.first;
      mine.last_row = range.last;
    } else {
      const Range range = range_of(index, parts, panels, kPanelStep);
      mine.first_panel = range.first;
      mine.last_panel = range.last;
    }
    mine.scratch = memory.of(index);
    routines().product(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

}  // namespace penlight::optimized
