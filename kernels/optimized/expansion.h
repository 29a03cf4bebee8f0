// Convolutions whose result only depthwise windows read, computed with them (vector/expansion.cpp).
#pragma once

#include "isa.h"
#include "parallel.h"

namespace penlight::optimized {

// Scratch of a part; 0: there is no code for its windows. Small builds have none at all.
inline size_t panels_scratch(const Expansion& e) {
#ifdef __OPTIMIZE_SIZE__
  (void)e;
  return 0;
#else
  return routines().expansion_scratch(e);
#endif
}

// One part a thread: each computes the lines at its edges once more. `last_row` of the windows is set.
inline dim_t parts_of_expansion(KernelContext& ctx, const Expansion& e) {
  const Geometry& g = e.windows.geometry;
  const dim_t rows = e.windows.last_row, images = rows / g.out_height;
  const double operations =
      2.0 * static_cast<double>(e.windows.channels) *
      (static_cast<double>(e.steps) * static_cast<double>(images * g.height) * static_cast<double>(g.width) +
       4.0 * static_cast<double>(g.taps_h * g.taps_w) * static_cast<double>(rows * g.out_width));
  const dim_t most = static_cast<dim_t>(ctx.threads()), several = parts_of(ctx, operations, rows);
  return several < most ? several : most;
}

inline void run_by_panels(KernelContext& ctx, const Expansion& e, size_t scratch) {
  const dim_t parts = parts_of_expansion(ctx, e);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, scratch, memory)) return;
  const auto part = [&](size_t index) {
    const Range range = range_of(index, parts, e.windows.last_row);
    Expansion mine = e;
    mine.windows.first_row = range.first;
    mine.windows.last_row = range.last;
    mine.scratch = static_cast<float*>(memory.of(index));
    routines().expand_depthwise(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

}  // namespace penlight::optimized
