// How kernels cut their work into parts.
#pragma once

#include <penlight/kernel.h>

namespace penlight::optimized {

// A part is worth a thread from about this many operations on; telling one that waits costs a
// microsecond or two.
constexpr double kOperationsOfPart = 4e5;

// Is that too little for several parts, or are there no threads for them? Where work is as little as that,
// cutting it, even into one part, takes much of the time.
inline bool is_one_part(double operations, dim_t threads) {
  return threads < 2 || operations < 2 * kOperationsOfPart;
}

// Parts for work of `operations` that can be cut into `steps`: one or several for each
// thread, whichever leaves the least waiting when all threads are equally fast, and
// several where that is equal, so that one that was held up keeps the others less.
inline dim_t parts_of(const KernelContext& ctx, double operations, dim_t steps) {
  const dim_t threads = static_cast<dim_t>(ctx.threads());
  if (is_one_part(operations, threads) || steps < 2) return 1;
  const double worth = operations / kOperationsOfPart;
  const dim_t most = worth < 4.0 * static_cast<double>(threads) ? static_cast<dim_t>(worth) : 4 * threads;
  dim_t best = 1, longest = steps;
  for (dim_t parts = 2; parts <= most && parts <= steps; ++parts) {
    const dim_t rounds = (parts + threads - 1) / threads, length = rounds * ((steps + parts - 1) / parts);
    if (length > longest) continue;
    longest = length;
    best = parts;
  }
  return best;
}

// No more parts than threads: those that have much memory of their own, or do something again for each part.
inline dim_t one_a_thread(const KernelContext& ctx, dim_t parts) {
  const dim_t threads = static_cast<dim_t>(ctx.threads());
  return parts < threads ? parts : threads;
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

// Calls `body` with the ranges of `count` items, which take `operations` each.
template <class Body>
void in_parts(KernelContext& ctx, dim_t count, double operations, Body&& body) {
  operations *= static_cast<double>(count);
  if (is_one_part(operations, static_cast<dim_t>(ctx.threads()))) return body(Range{0, count});
  const dim_t parts = parts_of(ctx, operations, count);
  const auto part = [&](size_t index) { body(range_of(index, parts, count)); };
  ctx.parallel(static_cast<size_t>(parts), part);
}

// Bytes from the memory of one part to that of the next, where there is room and it needs less.
constexpr size_t kApart = 1 << 22;

// Memory of its own for each part, rounded up so that no two share a line of the cache.
struct PartMemory {
  char* base;
  size_t each;
  void* of(size_t index) const { return base + index * each; }
};

// False, with the failure recorded, where there is not so much memory. A part begins where that of the kernel
// before did, if there is room: what another processor has written is slow to write.
inline bool allocate_parts(KernelContext& ctx, dim_t parts, size_t each, PartMemory& memory) {
  constexpr size_t line = 64;
  const bool huge = each > SIZE_MAX - line;
  each = (each + line - 1) / line * line;
  size_t total = 0;
  if (huge || __builtin_mul_overflow(each, static_cast<size_t>(parts), &total))
    return ctx.refuse(Status::OutOfMemory, "scratch of {} parts does not fit an address", parts);
#ifndef __OPTIMIZE_SIZE__
  if (parts > 1 && static_cast<size_t>(parts) <= ctx.threads() && each > 0 && each < kApart) {
    memory = {static_cast<char*>(ctx.find_scratch(kApart * static_cast<size_t>(parts), line)), kApart};
    if (memory.base) return true;
  }
#endif
  char* base = static_cast<char*>(ctx.allocate_scratch(total, line));
  if (!base) return false;
  memory = {base, each};
  return true;
}

}  // namespace penlight::optimized
