// Softmax of dense float32 over one dimension, in any order of dimensions; the portable kernels
// take what these decline.
#include "isa.h"
#include "parallel.h"
#include "parameters.h"
#include "run.h"

namespace penlight::optimized {

namespace {

Tensor& softmax(KernelContext& ctx, const Tensor& self, int64_t dim, bool logarithm, Tensor& out) {
  const dim_t rank = self.dim(), d = static_cast<dim_t>(dim < 0 ? dim + rank : dim);
  Run lies{};
  if (!is_float(self) || !is_float(out) || d < 0 || d >= rank || !read_run(self, 1u << d, lies)) {
    ctx.decline();
    return out;
  }
  if (!lies_alike(self, out)) {
    if (!ctx.resize(out, self.sizes()) || out.numel() == 0) return out;
    if (!lies_alike(self, out)) {
      ctx.decline();
      return out;
    }
  }
  const Softmax run = {
      self.const_data_ptr<float>(), out.mutable_data_ptr<float>(), lies.count, lies.inner, 0, 0, logarithm};
  const dim_t blocks = (lies.inner + kReducedColumns - 1) / kReducedColumns;
  const double operations = 30.0 * static_cast<double>(self.numel());
  const dim_t parts = lies.outer * blocks;
  in_parts(ctx, parts, operations / static_cast<double>(parts), [&](Range range) {
    Softmax mine = run;
    mine.first = range.first;
    mine.last = range.last;
    routines().softmax(mine);
  });
  return out;
}

}  // namespace

Tensor& softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  (void)half_to_float;  // what `out` is says it already
  return softmax(ctx, self, dim, false, out);
}

Tensor& log_softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float,
                        Tensor& out) {
  (void)half_to_float;
  return softmax(ctx, self, dim, true, out);
}

}  // namespace penlight::optimized
