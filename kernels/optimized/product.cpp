#include "product.h"

#include "isa.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

// Panels that stay in one part: as many as the widest tile has, and for one row as many
// as are multiplied at once, so that no split changes the order of a sum.
constexpr dim_t kPanelStep = 2, kPanelStepOfRow = 4;

// Below, sums of blocks take more time than the multiplication that they save.
constexpr dim_t kFewestRows = 32, kFewestChannels = 64, kFewestOutputs = 128;

// Is a row of the output made from one of the input, in their order?
bool is_over_matrix(const Product& p) {
  const Geometry& g = p.geometry;
  return g.taps_h == 1 && g.taps_w == 1 && g.stride_h == 1 && g.stride_w == 1 && g.out_height == g.height &&
         g.out_width == g.width && !p.parts && p.last_group == 1;
}

bool is_by_blocks(const Product& p) {
  return p.blocks && routines().strassen && p.format == Format::Float32 && is_over_matrix(p) &&
         p.rows >= kFewestRows && p.outputs >= kFewestOutputs && p.channels >= kFewestChannels &&
         p.channels % 2 == 0;
}

// Rows that no part may split: of units and, where columns are left over, of tiles.
dim_t rows_of_blocks(const Product& p) {
  if (p.outputs % (kUnitPanels * kPanel) == 0) return kUnitRows;
  dim_t rows = kUnitRows;
  while (rows % routines().tile_rows != 0) rows += kUnitRows;
  return rows;
}

}  // namespace

bool run_product(KernelContext& ctx, const Product& given, ProductScratch* kept) {
  Product product = given;
  const dim_t rows = product.rows = product.last_row, panels = product.last_panel;
  product.has_room = true;
  const double depth = static_cast<double>(product.geometry.taps_h * product.geometry.taps_w *
                                           product.channels * product.part_count);
  const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(product.outputs) * depth;
  // Parts of the rows each read all weights; parts of the outputs all of the input, and the next
  // kernel finds half of what it reads in the cache of another.
  const bool by_blocks = is_by_blocks(product);
  const dim_t row_step = by_blocks ? rows_of_blocks(product) : routines().tile_rows;
  const dim_t panel_step = by_blocks ? kUnitPanels : rows == 1 ? kPanelStepOfRow : kPanelStep;
  const dim_t row_steps = (rows + row_step - 1) / row_step,
              panel_steps = (panels + panel_step - 1) / panel_step;
  const bool few_panels = panel_steps < static_cast<dim_t>(ctx.threads());
  const double read_by_rows = static_cast<double>(product.outputs) * depth;
  const double read_by_panels = static_cast<double>(rows) * (static_cast<double>(product.channels) +
                                                             static_cast<double>(product.outputs) / 2);
  const bool by_rows =
      row_steps >= static_cast<dim_t>(ctx.threads()) && (few_panels || read_by_rows < read_by_panels);
  // With few rows it is reading the weights that takes the time.
  const double work = rows < row_step ? operations * static_cast<double>(row_step / rows) : operations;
  const dim_t groups = product.last_group;
  const bool by_groups = groups >= 2 * static_cast<dim_t>(ctx.threads());
  const dim_t steps = by_groups ? groups : by_rows || groups > 1 ? row_steps : panel_steps;
  const dim_t parts = parts_of(ctx, work * static_cast<double>(groups), steps);
  ProductScratch own;
  ProductScratch& scratch = kept ? *kept : own;
  const auto scratch_of = by_blocks ? routines().strassen_scratch : routines().product_scratch;
  if (!scratch.provide(ctx, parts, scratch_of(product))) return false;
  const auto multiply = by_blocks                           ? routines().strassen
                        : product.format == Format::Float32 ? routines().product
                                                            : routines().short_product;
  const auto part = [&](size_t index) {
    Product mine = product;
    if (by_groups) {
      const Range range = range_of(index, parts, groups);
      mine.first_group = range.first;
      mine.last_group = range.last;
    } else if (by_rows || groups > 1) {
      const Range range = range_of(index, parts, rows, row_step);
      mine.first_row = range.first;
      mine.last_row = range.last;
    } else {
      const Range range = range_of(index, parts, panels, panel_step);
      mine.first_panel = range.first;
      mine.last_panel = range.last;
    }
    mine.scratch = scratch.memory.of(index);
    multiply(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

}  // namespace penlight::optimized
