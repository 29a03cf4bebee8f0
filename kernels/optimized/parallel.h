// How kernels cut their work into parts.
#pragma once

#include <penlight/kernel.h>

namespace penlight::optimized {

// A part is worth a thread from about this many operations on; waking one costs a few
// microseconds.
constexpr double kOperationsOfPart = 1e6;

// Parts for work of `operations`: several for each thread, so that one that was held up
// does not keep the others waiting.
inline dim_t parts_of(const KernelContext& ctx, double operations, dim_t most) {
  const dim_t threads = static_cast<dim_t>(ctx.threads());
  if (threads < 2 || most < 2) return 1;
  const double worth = operations / kOperationsOfPart;
  dim_t parts = worth < 4.0 * static_cast<double>(threads) ? static_cast<dim_t>(worth) : 4 * threads;
  if (parts > most) parts = most;
  return parts < 2 ? 1 : parts;
}

// Where part `index` of `parts` begins, of `count` items in steps of `step`.
inline dim_t part_begin(dim_t index, dim_t parts, dim_t count, dim_t step) {
  const dim_t steps = (count + step - 1) / step;
  const dim_t begin = steps * index / parts * step;
  return begin < count ? begin : count;
}

}  // namespace penlight::optimized
