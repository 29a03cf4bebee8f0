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

struct Range {
  dim_t first, last;
};

// What part `index` of `parts` has of `count` items, in steps of `step`.
inline Range range_of(size_t index, dim_t parts, dim_t count, dim_t step = 1) {
  const dim_t steps = (count + step - 1) / step, i = static_cast<dim_t>(index);
  const dim_t first = steps * i / parts * step, last = steps * (i + 1) / parts * step;
  return {first < count ? first : count, last < count ? last : count};
}

// Memory of its own for each part, rounded up so that no two share a line of the cache.
struct PartMemory {
  char* base;
  size_t each;
  void* of(size_t index) const { return base + index * each; }
};

// False, with the failure recorded, where there is not so much memory. `shared` bytes before
// that of the parts, if any, begin at `base` - `shared`.
inline bool allocate_parts(KernelContext& ctx, dim_t parts, size_t each, PartMemory& memory,
                           size_t shared = 0) {
  constexpr size_t line = 64;
  each = (each + line - 1) / line * line;
  shared = (shared + line - 1) / line * line;
  size_t total = 0;
  if (__builtin_mul_overflow(each, static_cast<size_t>(parts), &total) ||
      __builtin_add_overflow(total, shared, &total)) {
    ctx.fail(Status::OutOfMemory, "scratch of {} parts does not fit an address", parts);
    return false;
  }
  char* base = static_cast<char*>(ctx.allocate_scratch(total, line));
  if (!base) return false;
  memory = {base + shared, each};
  return true;
}

}  // namespace penlight::optimized
