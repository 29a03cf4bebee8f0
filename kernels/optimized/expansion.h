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

// `last_row` of the windows is set.
inline double operations_of(const Expansion& e) {
  const Geometry& g = e.windows.geometry;
  const dim_t rows = e.windows.last_row, images = rows / g.out_height;
  return 2.0 * static_cast<double>(e.windows.channels) *
         (static_cast<double>(e.steps) * static_cast<double>(images * g.height) *
              static_cast<double>(g.width) +
          4.0 * static_cast<double>(g.taps_h * g.taps_w) * static_cast<double>(rows * g.out_width));
}

inline dim_t parts_of_expansion(const KernelContext& ctx, const Expansion& e, dim_t steps) {
  return one_a_thread(ctx, parts_of(ctx, operations_of(e), steps));
}

// Parts are of channels, panels together that are computed so, or of rows, which compute the lines at their
// edges once more: whichever is less.
inline void run_by_panels(KernelContext& ctx, const Expansion& e, size_t scratch) {
  const Geometry& g = e.windows.geometry;
  const dim_t rows = e.windows.last_row, channels = e.windows.last_channel;
  const dim_t step = e.wide_tiles ? 2 * kPanel : kPanel, panels = (channels + step - 1) / step;
  // Of `count` in `steps` of `each`, the last of which may have less: what the longest part has.
  const auto share = [&](dim_t count, dim_t steps, dim_t each, dim_t more) {
    const dim_t parts = parts_of_expansion(ctx, e, steps), longest = (steps + parts - 1) / parts * each;
    return static_cast<double>((longest < count ? longest : count) + (parts > 1 ? more : 0)) /
           static_cast<double>(count);
  };
  const bool by_rows = share(rows, rows, 1, g.taps_h / g.stride_h) < share(channels, panels, step, 0);
  const dim_t parts = parts_of_expansion(ctx, e, by_rows ? rows : panels);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, scratch, memory)) return;
  const auto part = [&](size_t index) {
    Expansion mine = e;
    if (by_rows) {
      const Range range = range_of(index, parts, rows);
      mine.windows.first_row = range.first;
      mine.windows.last_row = range.last;
    } else {
      const Range range = range_of(index, parts, channels, step);
      mine.windows.first_channel = range.first;
      mine.windows.last_channel = range.last;
    }
    mine.scratch = static_cast<float*>(memory.of(index));
    routines().expand_depthwise(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

}  // namespace penlight::optimized
