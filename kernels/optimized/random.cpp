// Random float32 numbers in vectors; the portable kernels take, and report, what this declines, and draw the
// same numbers.
#include <math.h>

#include "isa.h"
#include "kernels/common/broadcast.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

bool resize_to(KernelContext& ctx, Tensor& out, const Tensor& like) { return ctx.resize(out, like.sizes()); }

// out[i] = start + scale * the number of i, from [0, 1) or of the standard normal distribution.
// `size`: a list, or a tensor of that size.
template <class Size>
Tensor& draw(KernelContext& ctx, const Size& size, bool normal, double start, double scale, Tensor& out) {
  // Limits and deviations that are none are the portable kernels' to refuse.
  if (!is_float(out) || !(scale >= 0) || !(scale < HUGE_VAL)) return decline(ctx, out);
  if (!resize_to(ctx, out, size)) return out;
  if (!out.is_contiguous()) return decline(ctx, out);
  RandomState& state = ctx.random();
  Draw job{};
  job.seed = state.seed;
  job.call = state.calls++;
  job.output = out.mutable_data_ptr<float>();
  job.count = out.numel();
  job.normal = normal;
  job.start = start;
  job.scale = scale;
  in_parts(ctx, (job.count + 1) / 2, normal ? 60 : 20, [&](const Range& pairs) {
    Draw mine = job;
    mine.first = pairs.first;
    mine.last = pairs.last;
    routines().random(mine);
  });
  return out;
}

}  // namespace

Tensor& rand_out(KernelContext& ctx, ArrayRef<int64_t> size, Tensor& out) {
  return draw(ctx, size, false, 0, 1, out);
}

Tensor& rand_like_out(KernelContext& ctx, const Tensor& self, Optional<MemoryFormat>, Tensor& out) {
  return draw(ctx, self, false, 0, 1, out);
}

Tensor& uniform_out(KernelContext& ctx, const Tensor& self, double from, double to, Optional<Generator>,
                    Tensor& out) {
  return draw(ctx, self, false, from, to - from, out);
}

Tensor& randn_out(KernelContext& ctx, ArrayRef<int64_t> size, Tensor& out) {
  return draw(ctx, size, true, 0, 1, out);
}

Tensor& randn_like_out(KernelContext& ctx, const Tensor& self, Optional<MemoryFormat>, Tensor& out) {
  return draw(ctx, self, true, 0, 1, out);
}

Tensor& normal_functional_out(KernelContext& ctx, const Tensor& self, double mean, double std,
                              Optional<Generator>, Tensor& out) {
  return draw(ctx, self, true, mean, std, out);
}

Tensor& normal_float_float_out(KernelContext& ctx, double mean, double std, ArrayRef<int64_t> size,
                               Optional<Generator>, Tensor& out) {
  return draw(ctx, size, true, mean, std, out);
}

}  // namespace penlight::optimized
