// Gradients of convolution with respect to input, weight and bias.
//
// A convolution joins a tensor of few positions to one of many: position i and
// kernel position k meet at i * stride - padding + k * dilation. The few are the
// outputs of an ordinary convolution and the inputs of a transposed one, so one
// walk over all meetings serves both.
#include "axis_argument.h"
#include "kernels/common/checks.h"
#include "kernels/common/span.h"

namespace penlight::portable {

namespace {

struct ConvAxis {
  dim_t few = 1, many = 1, kernel = 1, stride = 1, padding = 0, dilation = 1;

  // Of the many; -1 outside.
  dim_t met(dim_t i, dim_t tap) const {
    const dim_t at = i * stride - padding + tap * dilation;
    return at < many ? at : -1;
  }
};

// visit(offset of the few, of the many, of the kernel), within one channel.
template <class Visit>
void for_each_meeting(const ConvAxis& d, const ConvAxis& h, const ConvAxis& w, Visit&& visit) {
  for (dim_t tap = 0; tap < d.kernel * h.kernel * w.kernel; ++tap) {
    for (dim_t row = 0; row < d.few * h.few; ++row) {
      const dim_t z = d.met(row / h.few, tap / w.kernel / h.kernel);
      const dim_t y = h.met(row % h.few, tap / w.kernel % h.kernel);
      for (dim_t i = 0; z >= 0 && y >= 0 && i < w.few; ++i) {
        const dim_t x = w.met(i, tap % w.kernel);
        if (x >= 0) visit(row * w.few + i, (z * h.many + y) * w.many + x, tap);
      }
    }
  }
}

}  // namespace

void convolution_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& input,
                              const Tensor& weight, Optional<IntArrayRef>, IntArrayRef stride,
                              IntArrayRef padding, IntArrayRef dilation, bool transposed, IntArrayRef,
                              int64_t groups, ArrayRef<bool> output_mask, Tensor& out0, Tensor& out1,
                              Tensor& out2) {
  const dim_t dims = input.dim() - 2;
  if (dims < 1 || dims > 3 || weight.dim() != input.dim() || grad_output.dim() != input.dim() ||
      output_mask.size() != 3)
    return ctx.fail("gradient, input and weight have {}, {} and {} dimensions", grad_output.dim(),
                    input.dim(), weight.dim());
  const Tensor& few = transposed ? input : grad_output;
  const Tensor& many = transposed ? grad_output : input;
  if (groups < 1 || few.size(1) != weight.size(0) || many.size(1) != weight.size(1) * groups ||
      few.size(1) % groups != 0 || few.size(0) != many.size(0))
    return ctx.fail("a weight of [{}, {}, ...] in {} groups does not fit {} and {} channels", weight.size(0),
                    weight.size(1), groups, input.size(1), grad_output.size(1));
  ConvAxis axes[3];
  dim_t few_plane = 1, many_plane = 1, taps = 1;
  for (dim_t d = 0; d < dims; ++d) {
    ConvAxis& axis = axes[3 - dims + d];
    if (!axis_argument(ctx, "stride", stride, dims, d, 1, axis.stride) ||
        !axis_argument(ctx, "padding", padding, dims, d, 0, axis.padding) ||
        !axis_argument(ctx, "dilation", dilation, dims, d, 1, axis.dilation))
      return;
    few_plane *= axis.few = few.size(2 + d);
    many_plane *= axis.many = many.size(2 + d);
    taps *= axis.kernel = weight.size(2 + d);
  }
  const dim_t outputs = grad_output.size(1), planes = grad_output.numel() ? grad_output.numel() / outputs : 0;
  if (output_mask[0] && !ctx.resize(out0, input.sizes())) return;
  if (output_mask[1] && !ctx.resize(out1, weight.sizes())) return;
  if (output_mask[2] && !ctx.resize(out2, SizesRef(&outputs, 1))) return;
  const double *s = dense_copy(ctx, few), *b = dense_copy(ctx, many), *w = dense_copy(ctx, weight);
  double *input_grad = dense_zeros(ctx, input.numel()), *weight_grad = dense_zeros(ctx, weight.numel());
  double* bias_grad = dense_zeros(ctx, outputs);
  if (!ctx.ok()) return;
  const dim_t group_rows = weight.size(0) / static_cast<dim_t>(groups), group_columns = weight.size(1);
  for (dim_t n = 0; n < few.size(0); ++n) {
    for (dim_t row = 0; row < weight.size(0); ++row) {
      for (dim_t column = 0; column < group_columns; ++column) {
        const dim_t s_at = (n * few.size(1) + row) * few_plane;
        const dim_t b_at = (n * many.size(1) + row / group_rows * group_columns + column) * many_plane;
        const dim_t w_at = (row * group_columns + column) * taps;
        for_each_meeting(axes[0], axes[1], axes[2], [&](dim_t i, dim_t j, dim_t tap) {
          weight_grad[w_at + tap] += s[s_at + i] * b[b_at + j];
          if (transposed) {
            input_grad[s_at + i] += b[b_at + j] * w[w_at + tap];
          } else {
            input_grad[b_at + j] += s[s_at + i] * w[w_at + tap];
          }
        });
      }
    }
  }
  const double* grad = transposed ? b : s;
  const dim_t plane = transposed ? many_plane : few_plane;
  for (dim_t i = 0; i < planes / (plane ? plane : 1) * outputs; ++i) {
    for (dim_t k = 0; k < plane; ++k) bias_grad[i % outputs] += grad[i * plane + k];
  }
  if (output_mask[0]) dense_store(input_grad, out0);
  if (output_mask[1]) dense_store(weight_grad, out1);
  if (output_mask[2]) dense_store(bias_grad, out2);
}

}  // namespace penlight::portable
