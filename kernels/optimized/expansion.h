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

// Layers around are cut by rows, and what another processor wrote or read is slow to reach: to read and write
// the same rows as there is worth so many times the work.
inline constexpr double kWorthOfSameRows = 1.25;

// Parts are of channels, panels together that are computed so, or of rows, which compute the lines at their
// edges once more.
inline void run_by_panels(KernelContext& ctx, const Expansion& e, size_t scratch) {
  const Geometry& g = e.windows.geometry;
  const dim_t rows = e.windows.last_row, channels = e.windows.last_channel;
  const dim_t step = e.wide_tiles ? 2 * kPanel : kPanel, panels = (channels + step - 1) / step;
  const dim_t row_parts = parts_of_expansion(ctx, e, rows), panel_parts = parts_of_expansion(ctx, e, panels);
  // What the longest part has of all work. One of two parts ends at one edge, those between others at two.
  const auto longest = [](dim_t steps, dim_t parts) {
    return static_cast<double>((steps + parts - 1) / parts);
  };
  const double edges = row_parts > 2 ? 2 : row_parts > 1 ? 1 : 0;
  const double more =
      edges / 2 * static_cast<double>(g.taps_h - g.stride_h) / static_cast<double>(g.stride_h);
  const double share_of_rows = (longest(rows, row_parts) + more) / static_cast<double>(rows);
  const double share_of_channels = longest(panels, panel_parts) / static_cast<double>(panels);
  const bool by_rows = share_of_rows < kWorthOfSameRows * share_of_channels;
  const dim_t parts = by_rows ? row_parts : panel_parts;
  const bool asks = parts > 1 && asks_for_output();
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
    mine.asks = asks;
    routines().expand_depthwise(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

}  // namespace penlight::optimized
