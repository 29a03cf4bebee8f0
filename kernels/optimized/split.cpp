#include "split.h"

#if defined(PENLIGHT_WITH_AMX)

namespace penlight::optimized {

namespace {

// Below, splitting takes more time than the unit saves: each weight is split once for all rows, each row once
// for all outputs.
constexpr dim_t kFewestRows = 32, kFewestOutputs = 96;
constexpr double kFewestWeights = 4096, kFewestProducts = 6 << 20;
// No more than one in so many k is to be multiplied for nothing.
constexpr dim_t kPadded = 6;

}  // namespace

bool is_split(const Product& p) {
  if (!has_matrix_unit() || !routines().split_product || p.last_group != 1 || p.last_row < kFewestRows) {
    return false;
  }
  const double weights = static_cast<double>(p.outputs) * static_cast<double>(depth_of(p));
  const dim_t padded = (p.channels + kSplitStep - 1) / kSplitStep * kSplitStep;
  return p.outputs >= kFewestOutputs && weights >= kFewestWeights &&
         weights * static_cast<double>(p.last_row) >= kFewestProducts &&
         padded - p.channels <= p.channels / kPadded;
}

bool run_split(KernelContext& ctx, const Product& product, ProductScratch& scratch) {
  const dim_t rows = product.last_row, panels = product.last_panel;
  const dim_t threads = static_cast<dim_t>(ctx.threads());
  const double operations = 2.0 * static_cast<double>(rows) * static_cast<double>(product.outputs) *
                            static_cast<double>(depth_of(product));
  const bool by_rows = rows >= 2 * threads * kSplitRows && reads_less_by_rows(product);
  const dim_t count = by_rows ? rows : panels, step = by_rows ? kSplitRows : kSplitPanels;
  // One part for each thread: every part splits all its rows, and all its weights.
  const dim_t parts = one_a_thread(ctx, parts_of(ctx, operations, (count + step - 1) / step));
  return run_parts(ctx, product, scratch, routines().split_scratch(product), parts, by_rows, step,
                   routines().split_product);
}

}  // namespace penlight::optimized

#endif
