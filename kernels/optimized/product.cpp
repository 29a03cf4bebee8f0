#include "product.h"

#include "blocks.h"
#include "isa.h"
#include "parallel.h"
#include "split.h"

namespace penlight::optimized {

namespace {

// How many groups no part splits: those that end with a line of the cache, if each thread has some then.
dim_t group_step_of(const Product& p, dim_t threads) {
  dim_t step = 1;
  while (step * p.outputs % kPanel != 0) step *= 2;
  return p.last_group >= step * threads ? step : 1;
}

void make_ready(Product& p) {
  p.rows = p.last_row;
  p.has_room = true;
  p.wide_tiles = prefers_wide_tiles();
  p.few_sums = stores_delay_products();
}

// Row by row and panel by panel.
PanelProduct directly(const Product& p) {
  return {p.format == Format::Float32 ? routines().product : routines().short_product,
          routines().product_scratch(p), p.rows == 1 ? kWidePanels : kPanelStep,
          p.rows == 1 || p.wide_tiles ? kWidePanels : kPanelStep};
}

}  // namespace

bool reads_less_by_rows(const Product& p) {
  const double outputs = static_cast<double>(p.outputs);
  return outputs * static_cast<double>(depth_of(p)) <
         static_cast<double>(p.last_row) * (static_cast<double>(p.channels) + outputs / 2);
}

bool run_parts(KernelContext& ctx, const Product& product, ProductScratch& scratch, size_t each, dim_t parts,
               bool by_rows, dim_t step, void (*multiply)(const Product&)) {
  if (!scratch.provide(ctx, parts, each)) return false;
  const dim_t count = by_rows ? product.last_row : product.last_panel;
  const auto part = [&](size_t index) {
    Product mine = product;
    const Range range = range_of(index, parts, count, step);
    (by_rows ? mine.first_row : mine.first_panel) = range.first;
    (by_rows ? mine.last_row : mine.last_panel) = range.last;
    mine.scratch = scratch.memory.of(index);
    multiply(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

PanelProduct by_panels(Product& product) {
  make_ready(product);
  if (!is_split(product)) return directly(product);
  return {routines().split_product, routines().split_scratch(product), kSplitPanels, kSplitPanels};
}

#ifndef __OPTIMIZE_SIZE__
PanelParts panel_parts_of(const KernelContext& ctx, dim_t panels, dim_t step, dim_t tile, double operations) {
  const dim_t threads = static_cast<dim_t>(ctx.threads());
  const auto longest = [](dim_t parts, dim_t steps) { return (steps + parts - 1) / parts; };
  const dim_t tiles = (panels + tile - 1) / tile, several = parts_of(ctx, operations, tiles);
  // Of few tiles one thread may have twice as many as another: some that are narrower make up for it.
  const dim_t steps = (panels + step - 1) / step, parts = one_a_thread(ctx, parts_of(ctx, operations, steps));
  const dim_t rounds = (several + threads - 1) / threads;
  if (longest(parts, steps) * step >= rounds * longest(several, tiles) * tile) return {several, tile};
  return {parts, step};
}
#endif

bool run_product(KernelContext& ctx, Product& product, ProductScratch* kept) {
  make_ready(product);
#ifndef __OPTIMIZE_SIZE__
  if (ctx.threads() > 1 && asks_for_output() && product.last_group == 1) {
    product.asked = product.output;
    product.asked_pitch = product.output_pitch;
  }
#endif
  ProductScratch own;
  ProductScratch& scratch = kept ? *kept : own;
  if (is_split(product)) return run_split(ctx, product, scratch);
  if (is_by_blocks(product)) return run_by_blocks(ctx, product, scratch);
  const dim_t rows = product.last_row, panels = product.last_panel, groups = product.last_group;
  const dim_t threads = static_cast<dim_t>(ctx.threads()), row_step = routines().tile_rows;
  const PanelProduct by = directly(product);
  const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(product.outputs * groups) *
                            static_cast<double>(depth_of(product));
  // With few rows it is reading the weights that takes the time.
  const double work = rows < row_step ? operations * static_cast<double>(row_step / rows) : operations;
  if (is_one_part(work, threads)) {
    if (!scratch.provide(ctx, 1, by.scratch)) return false;
    product.scratch = scratch.memory.of(0);
    by.multiply(product);
    return true;
  }
  const dim_t row_steps = (rows + row_step - 1) / row_step;
  const bool few_panels = panels <= (threads - 1) * by.tile;
  const bool by_rows = row_steps >= threads && (few_panels || reads_less_by_rows(product));
  // Parts of the groups write pieces of each row, and wait where two write one line of the cache.
  const bool by_groups = groups >= 2 * threads && row_steps < 4 * threads;
  const dim_t group_step = by_groups ? group_step_of(product, threads) : 1;
  const dim_t steps = by_groups ? (groups + group_step - 1) / group_step : row_steps;
  const bool by_panels = !by_groups && !by_rows && groups == 1;
  const PanelParts cut = by_panels ? panel_parts_of(ctx, panels, by.step, by.tile, work)
                                   : PanelParts{parts_of(ctx, work, steps), 1};
  const dim_t parts = cut.parts;
  if (!scratch.provide(ctx, parts, by.scratch)) return false;
  const auto part = [&](size_t index) {
    Product mine = product;
    if (by_groups) {
      const Range range = range_of(index, parts, groups, group_step);
      mine.first_group = range.first;
      mine.last_group = range.last;
    } else if (by_rows || groups > 1) {
      const Range range = range_of(index, parts, rows, row_step);
      mine.first_row = range.first;
      mine.last_row = range.last;
    } else {
      const Range range = range_of(index, parts, panels, cut.step);
      mine.first_panel = range.first;
      mine.last_panel = range.last;
    }
    mine.scratch = scratch.memory.of(index);
    by.multiply(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

}  // namespace penlight::optimized
