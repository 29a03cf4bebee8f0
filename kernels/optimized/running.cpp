// Running sums and products of dense float32 and int64; the portable kernels take what these decline.
#include "vector/running.h"

#include "isa.h"
#include "parallel.h"
#include "parameters.h"
#include "run.h"

namespace penlight::optimized {

namespace {

Tensor& running(KernelContext& ctx, bool products, const Tensor& self, int64_t dim, Tensor& out) {
  const int64_t rank = self.dim(), axis = dim < 0 ? dim + rank : dim;
  const bool integers = self.scalar_type() == ScalarType::Long;
  Run lies;
  if (axis < 0 || axis >= rank || (!integers && !is_float(self)) || out.scalar_type() != self.scalar_type() ||
      self.numel() == 0 || !read_run(self, 1u << axis, lies))
    return decline(ctx, out);
  if (!ctx.resize(out, self.sizes())) return out;
  if (!lies_alike(self, out)) return decline(ctx, out);
  Running run{};
  run.input = self.const_data_ptr();
  run.output = out.mutable_data_ptr();
  run.count = lies.count;
  run.inner = lies.inner;
  run.integers = integers;
  run.products = products;
  const dim_t blocks = (lies.inner + kRunningColumns - 1) / kRunningColumns, parts = lies.outer * blocks;
  in_parts(ctx, parts, 4.0 * static_cast<double>(self.numel()) / static_cast<double>(parts),
           [&](Range range) {
             Running mine = run;
             mine.first = range.first;
             mine.last = range.last;
             routines().running(mine);
           });
  return out;
}

}  // namespace

Tensor& cumsum_out(KernelContext& ctx, const Tensor& self, int64_t dim, Optional<ScalarType>, Tensor& out) {
  return running(ctx, false, self, dim, out);
}

Tensor& cumprod_out(KernelContext& ctx, const Tensor& self, int64_t dim, Optional<ScalarType>, Tensor& out) {
  return running(ctx, true, self, dim, out);
}

}  // namespace penlight::optimized
