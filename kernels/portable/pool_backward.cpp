// Gradients of pooling: each output's gradient goes back to the elements of its window.
#include "kernels/common/checks.h"
#include "kernels/common/span.h"
#include "likeness.h"
#include "pool.h"

namespace penlight::portable {

// grad_input += grad_output / divisor(window) over each window of two dimensions.
static void spread(KernelContext& ctx, const Tensor& grad_output, const Tensor& self, const PoolShape& shape,
                   const PoolAverage& average, Tensor& grad_input) {
  if (!ctx.resize(grad_input, self.sizes())) return;
  const PoolAxis &y = shape.axes[1], &x = shape.axes[2];
  const double* from = dense_copy(ctx, grad_output);
  double* sums = dense_zeros(ctx, self.numel());
  if (!ctx.ok()) return;
  for (dim_t plane = 0; plane < shape.batch * shape.channels; ++plane) {
    double* to = sums + plane * y.in * x.in;
    for (dim_t i = 0; i < y.out; ++i) {
      const PoolRange rows = y.range(i);
      for (dim_t j = 0; j < x.out; ++j) {
        const PoolRange columns = x.range(j);
        const dim_t inside = rows.count() * columns.count();
        const double divisor = average.divisor ? static_cast<double>(average.divisor)
                               : average.count_padding
                                   ? static_cast<double>(rows.padded) * static_cast<double>(columns.padded)
                                   : static_cast<double>(inside);
        const double part = *from++ / divisor;
        for (dim_t h = rows.first; h < rows.end; ++h) {
          for (dim_t w = columns.first; w < columns.end; ++w) to[h * x.in + w] += part;
        }
      }
    }
  }
  dense_store(sums, grad_input);
}

void avg_pool2d_backward_grad_input(KernelContext& ctx, const Tensor& grad_output, const Tensor& self,
                                    IntArrayRef kernel_size, IntArrayRef stride, IntArrayRef padding,
                                    bool ceil_mode, bool count_include_pad,
                                    Optional<int64_t> divisor_override, Tensor& grad_input) {
  PoolShape shape;
  Likeness output(grad_output);  // of the forward operator: it must have exactly its sizes
  if (!check(ctx, divisor_override.value_or(1) != 0, "divisor_override is 0") ||
      !prepare_pool(ctx, 2, self, kernel_size, stride, padding, kNoDilation, ceil_mode, output.tensor,
                    nullptr, shape))
    return;
  spread(ctx, grad_output, self, shape, {count_include_pad, divisor_override.value_or(0)}, grad_input);
}

void adaptive_avg_pool2d_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& self,
                                      Tensor& out) {
  PoolShape shape;
  Likeness output(grad_output);  // of the forward operator: it must have exactly its sizes
  if (!check(ctx, grad_output.dim() == self.dim() && self.dim() >= 2, "gradient and input differ in rank"))
    return;
  const int64_t size[] = {grad_output.size(-2), grad_output.size(-1)};
  if (!prepare_adaptive_pool(ctx, self, size, output.tensor, nullptr, shape)) return;
  spread(ctx, grad_output, self, shape, {false, 0}, out);
}

void max_pool2d_with_indices_backward_grad_input(KernelContext& ctx, const Tensor& grad_output,
                                                 const Tensor& self, IntArrayRef kernel_size,
                                                 IntArrayRef stride, IntArrayRef padding,
                                                 IntArrayRef dilation, bool ceil_mode, const Tensor& indices,
                                                 Tensor& grad_input) {
  PoolShape shape;
  Likeness output(grad_output);  // of the forward operator: it must have exactly its sizes
  if (!prepare_pool(ctx, 2, self, kernel_size, stride, padding, dilation, ceil_mode, output.tensor, nullptr,
                    shape) ||
      !check_same_sizes(ctx, indices, grad_output) || !ctx.resize(grad_input, self.sizes()))
    return;
  const double* from = dense_copy(ctx, grad_output);
  double* sums = dense_zeros(ctx, self.numel());
  const int64_t* where = dense_copy<int64_t>(ctx, indices);
  if (!ctx.ok()) return;
  const dim_t pixels = shape.axes[1].in * shape.axes[2].in, places = shape.axes[1].out * shape.axes[2].out;
  for (dim_t plane = 0; plane < shape.batch * shape.channels; ++plane) {
    for (dim_t i = 0; i < places; ++i) {
      const int64_t at = where[plane * places + i];
      if (at < 0 || at >= pixels)
        return ctx.fail(Status::KernelFailed, "index {} is out of range for a plane of {}", at, pixels);
      sums[plane * pixels + static_cast<dim_t>(at)] += from[plane * places + i];
    }
  }
  dense_store(sums, grad_input);
}

}  // namespace penlight::portable
