#include "blocks.h"

#include "isa.h"

namespace penlight::optimized {

namespace {

// Where loads delay products, the smaller tiles of blocks, which load more, lose what a multiplication less
// gains. Of less than this, sums of blocks take more time than the multiplication that they save.
struct Least {
  dim_t rows, channels, outputs;
};
Least least_by_blocks() { return cores() == Cores::Zen5 ? Least{96, 192, 192} : Least{32, 64, 128}; }
// Rows of a part, at least, beside which the next columns can be prepared.
constexpr dim_t kRowsOfPart = 2 * kUnitRows;

// So much more of the products may one part have, if parts are of rows that most likely it wrote itself.
constexpr double kWorthOfRows = 1.05;

// Rows that no part may split: of units and, where columns are left over, of tiles.
dim_t rows_together(const Product& p) {
  if (p.outputs % (kUnitPanels * kPanel) == 0) return kUnitRows;
  dim_t rows = kUnitRows;
  while (rows % routines().tile_rows != 0) rows += kUnitRows;
  return rows;
}

// What the largest part has of `count` items.
double largest_share(dim_t parts, dim_t count, dim_t step) {
  dim_t most = 0;
  for (dim_t i = 0; i < parts; ++i) {
    const Range range = range_of(static_cast<size_t>(i), parts, count, step);
    if (range.last - range.first > most) most = range.last - range.first;
  }
  return static_cast<double>(most) / static_cast<double>(count);
}

}  // namespace

bool is_by_blocks(const Product& p) {
  const Least least = least_by_blocks();
  return p.blocks && routines().strassen && !loads_delay_products() && p.format == Format::Float32 &&
         is_matrix(p.geometry) && !p.parts && p.last_group == 1 && p.rows >= least.rows &&
         p.outputs >= least.outputs && p.channels >= least.channels && p.channels % 2 == 0;
}

bool run_by_blocks(KernelContext& ctx, const Product& product, ProductScratch& scratch) {
  const dim_t rows = product.last_row, panels = product.last_panel, row_step = rows_together(product);
  // One part for each thread: every part makes all sums of its rows, and of its weights.
  const double worth = 2.0 * static_cast<double>(rows) * static_cast<double>(product.outputs) *
                       static_cast<double>(product.channels) / kOperationsOfPart;
  dim_t parts = static_cast<dim_t>(ctx.threads());
  if (worth < static_cast<double>(parts)) parts = worth < 1 ? 1 : static_cast<dim_t>(worth);
  // Where rows are more than columns, they are the more to read, and to make sums of.
  const double worth_of_rows = rows > product.outputs ? kWorthOfRows : 1.0;
  const bool by_rows =
      rows >= parts * kRowsOfPart &&
      largest_share(parts, rows, row_step) <= worth_of_rows * largest_share(parts, panels, kUnitPanels);
  const dim_t count = by_rows ? rows : panels, step = by_rows ? row_step : kUnitPanels;
  const dim_t steps = (count + step - 1) / step;
  if (parts > steps) parts = steps;
  return run_parts(ctx, product, scratch, routines().strassen_scratch(product), parts, by_rows, step,
                   routines().strassen);
}

}  // namespace penlight::optimized
