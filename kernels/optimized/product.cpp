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
  const double depth = static_cast<double>(product.taps_h * product.taps_w * product.channels);
  const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(product.outputs) * depth;
  const dim_t row_steps = (rows + kRowStep - 1) / kRowStep,
              panel_steps = (panels + kPanelStep - 1) / kPanelStep;
  // Each part of the rows reads all weights; with few rows parts of the weights are better.
  const bool by_rows = row_steps >= 2 * static_cast<dim_t>(ctx.threads());
  const dim_t parts = parts_of(ctx, operations, by_rows ? row_steps : panel_steps);
  const size_t scratch = (routines().product_scratch(product) + 63) / 64 * 64;
  if (scratch > SIZE_MAX / static_cast<size_t>(parts)) {
    ctx.fail(Status::OutOfMemory, "scratch of {} parts does not fit an address", parts);
    return false;
  }
  char* memory = static_cast<char*>(ctx.allocate_scratch(scratch * static_cast<size_t>(parts), 64));
  if (!memory) return false;
  const auto part = [&](size_t index) {
    Product mine = product;
    const dim_t i = static_cast<dim_t>(index);
    if (by_rows) {
      mine.first_row = part_begin(i, parts, rows, kRowStep);
      mine.last_row = part_begin(i + 1, parts, rows, kRowStep);
    } else {
      mine.first_panel = part_begin(i, parts, panels, kPanelStep);
      mine.last_panel = part_begin(i + 1, parts, panels, kPanelStep);
    }
    mine.scratch = memory + index * scratch;
    routines().product(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

}  // namespace penlight::optimized
