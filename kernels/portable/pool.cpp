// Average and maximum pooling in one, two and three dimensions, fixed and adaptive.
#include "pool.h"

#include <penlight/kernel.h>

namespace penlight::portable {

void avg_pool_out(KernelContext& ctx, int dims, const Tensor& self, IntArrayRef kernel_size,
                  IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                  Optional<int64_t> divisor_override, Tensor& out) {
  PoolShape shape;
  const int64_t divisor = divisor_override.value_or(0);
  if (divisor_override && divisor == 0) return ctx.fail("divisor_override is 0");
  if (prepare_pool(ctx, dims, self, kernel_size, stride, padding, kNoDilation, ceil_mode, out, nullptr,
                   shape))
    average_pool(ctx, shape, {count_include_pad, divisor}, self, out);
}

void avg_pool1d_out(KernelContext& ctx, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                    IntArrayRef padding, bool ceil_mode, bool count_include_pad, Tensor& out) {
  avg_pool_out(ctx, 1, self, kernel_size, stride, padding, ceil_mode, count_include_pad, nullopt, out);
}

void max_pool_out(KernelContext& ctx, int dims, const Tensor& self, IntArrayRef kernel_size,
                  IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out,
                  Tensor& indices) {
  PoolShape shape;
  if (prepare_pool(ctx, dims, self, kernel_size, stride, padding, dilation, ceil_mode, out, &indices, shape))
    maximum_pool(ctx, shape, self, out, indices);
}

// Of one, two and three dimensions: as many as output_size has values.
void adaptive_avg_pool_out(KernelContext& ctx, const Tensor& self, IntArrayRef output_size, Tensor& out) {
  PoolShape shape;
  if (prepare_adaptive_pool(ctx, self, output_size, out, nullptr, shape))
    average_pool(ctx, shape, {false, 0}, self, out);
}

void adaptive_max_pool_out(KernelContext& ctx, const Tensor& self, IntArrayRef output_size, Tensor& out,
                           Tensor& indices) {
  PoolShape shape;
  if (prepare_adaptive_pool(ctx, self, output_size, out, &indices, shape))
    maximum_pool(ctx, shape, self, out, indices);
}

}  // namespace penlight::portable
