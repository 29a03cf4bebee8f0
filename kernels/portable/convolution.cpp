// Convolution in one, two and three dimensions, transposed or not, in groups.
#include "convolution.h"

#include "axis_argument.h"
#include "kernels/common/checks.h"

namespace penlight::portable {

namespace {

// One spatial dimension as the arguments give it.
struct Axis {
  dim_t in, kernel, out;
  dim_t stride, padding, dilation, output_padding;
  dim_t in_step, out_step;  // of the input and of the output in a pass: the stride is one of them

  // Outputs first, first + out_step, ...
  dim_t outputs_from(dim_t first) const { return out > first ? (out - first - 1) / out_step + 1 : 0; }
};

bool output_size(KernelContext& ctx, bool transposed, Axis& axis) {
  const dim_t reach = axis.dilation * (axis.kernel - 1) + 1;
  if (transposed) {
    axis.out = (axis.in - 1) * axis.stride - 2 * axis.padding + reach + axis.output_padding;
  } else {
    const dim_t room = axis.in + 2 * axis.padding - reach;
    axis.out = room < 0 ? -1 : room / axis.stride + 1;
  }
  if (axis.out >= 0 && axis.kernel > 0) return true;
  return ctx.refuse("input size {} with padding {} does not hold a kernel of {} with dilation {}", axis.in,
                    axis.padding, axis.kernel, axis.dilation);
}

// Outputs of one input channel up to which they are computed one by one.
constexpr dim_t kFewOutputs = 4;

// The pass over outputs remainder, remainder + out_step, ... along each axis.
void run_pass(KernelContext& ctx, const ConvShape& shape, const Axis axes[3], const Volume& kernel,
              bool transposed, const dim_t remainder[3], ConvTap* taps, ConvWorkspace& workspace) {
  ConvPass pass;
  pass.output_first = 0;
  for (int d = 0; d < 3; ++d) {
    pass.q[d] = axes[d].outputs_from(remainder[d]);
    pass.in_step[d] = axes[d].in_step;
    pass.input_step[d] = axes[d].in_step * shape.from.steps[d];
    pass.output_step[d] = axes[d].out_step * shape.to.steps[d];
    pass.output_first += remainder[d] * shape.to.steps[d];
  }
  dim_t count = 0;
  for (dim_t place = 0; place < axes[0].kernel * axes[1].kernel * axes[2].kernel; ++place) {
    ConvTap& tap = taps[count];
    dim_t rest = place;
    bool reaches = true;
    tap.input = tap.weight = 0;
    for (int d = 3; d-- > 0; rest /= axes[d].kernel) {
      const dim_t at = rest % axes[d].kernel, apart = at * axes[d].dilation - axes[d].padding;
      const dim_t shift = transposed ? remainder[d] - apart : apart;
      reaches &= shift % axes[d].out_step == 0;
      tap.delta[d] = shift / axes[d].out_step;
      tap.input += tap.delta[d] * shape.from.steps[d];
      tap.weight += at * kernel.steps[d];
    }
    count += reaches;
  }
  pass.taps = taps;
  pass.tap_count = count;
  if (pass.positions() == 0) return;
  // One channel for many is a product: every patch is used as often as there are outputs.
  const bool depthwise =
      !kSmallCode && shape.in_channels == 1 && shape.out_channels <= kFewOutputs && !shape.exact;
  if (!depthwise || !convolve_depthwise(ctx, shape, pass, workspace))
    convolve_gemm(ctx, shape, pass, workspace);
}

}  // namespace

void convolution_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, Optional<Tensor> bias,
                     IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                     IntArrayRef output_padding, int64_t groups, Tensor& out) {
  const dim_t dims = input.dim() - 2;
  if (dims < 1 || dims > 3 || weight.dim() != input.dim())
    return ctx.fail("input has {} dimensions and weight {}: both need 3, 4 or 5", input.dim(), weight.dim());
  if (!check_same_dtype(ctx, input, weight) || !check_same_dtype(ctx, input, out)) return;
  if (groups < 1 || input.size(1) % groups != 0 || weight.size(0) % groups != 0)
    return ctx.fail("{} groups do not divide {} input channels and a weight of {}", groups, input.size(1),
                    weight.size(0));
  ConvShape shape;
  shape.batch = input.size(0);
  shape.groups = static_cast<dim_t>(groups);
  shape.in_channels = input.size(1) / shape.groups;
  shape.out_channels = transposed ? weight.size(1) : weight.size(0) / shape.groups;
  if ((transposed ? weight.size(0) / shape.groups : weight.size(1)) != shape.in_channels)
    return ctx.fail("a weight of [{}, {}, ...] in {} groups does not fit {} input channels", weight.size(0),
                    weight.size(1), groups, input.size(1));
  const dim_t all_out = shape.out_channels * shape.groups;
  if (bias) {
    if (!check_same_dtype(ctx, input, bias.value())) return;
    if (bias->dim() != 1 || bias->size(0) != all_out)
      return ctx.fail("bias of {} elements for {} output channels", bias->numel(), all_out);
  }

  Axis axes[3];
  dim_t out_sizes[5] = {shape.batch, all_out, 0, 0, 0};
  for (dim_t d = 0; d < 3; ++d) {
    Axis& axis = axes[d];
    const dim_t at = d - (3 - dims);
    if (at < 0) {
      axis = {1, 1, 1, 1, 0, 1, 0, 1, 1};
      continue;
    }
    axis.in = input.size(2 + at);
    axis.kernel = weight.size(2 + at);
    axis.output_padding = 0;
    if (!axis_argument(ctx, "stride", stride, dims, at, 1, axis.stride) ||
        !axis_argument(ctx, "padding", padding, dims, at, 0, axis.padding) ||
        !axis_argument(ctx, "dilation", dilation, dims, at, 1, axis.dilation) ||
        (transposed &&
         !axis_argument(ctx, "output_padding", output_padding, dims, at, 0, axis.output_padding)) ||
        !output_size(ctx, transposed, axis))
      return;
    out_sizes[2 + at] = axis.out;
    axis.in_step = transposed ? 1 : axis.stride;
    axis.out_step = transposed ? axis.stride : 1;
  }
  if (!ctx.resize(out, SizesRef(out_sizes, static_cast<size_t>(dims + 2)))) return;
  if (out.numel() == 0) return;

  shape.from = Volume(input, static_cast<int>(dims));
  shape.to = Volume(out, static_cast<int>(dims));
  const Volume kernel(weight, static_cast<int>(dims));
  const dim_t taps = axes[0].kernel * axes[1].kernel * axes[2].kernel;
  shape.weight_in = weight.stride(transposed ? 0 : 1);
  shape.weight_out = weight.stride(transposed ? 1 : 0);
  shape.weight_group = weight.stride(0) * (weight.size(0) / shape.groups);
  shape.dtype = out.dtype();
  shape.input = input.const_data_ptr();
  shape.weight = weight.const_data_ptr();
  shape.bias = bias ? bias->const_data_ptr() : nullptr;
  shape.bias_stride = bias ? bias->stride(0) : 0;
  shape.out = out.mutable_data_ptr();

  const Tensor& multiplied = transposed ? input : out;
  const double products = static_cast<double>(multiplied.numel()) * static_cast<double>(taps) *
                          static_cast<double>(transposed ? shape.out_channels : shape.in_channels);
  shape.exact = shape.dtype == ScalarType::Float && products <= kFewProducts;

  ConvTap* storage = ctx.allocate_scratch_array<ConvTap>(static_cast<size_t>(taps));
  if (!storage) return;
  ConvWorkspace workspace;
  shape.most_taps = taps;
  shape.most_positions = 1;
  dim_t passes[3];
  for (int d = 0; d < 3; ++d) {
    shape.most_positions *= axes[d].outputs_from(0);
    passes[d] = axes[d].out_step < axes[d].out ? axes[d].out_step : axes[d].out;
  }
  for (dim_t i = 0; i < passes[0] * passes[1] * passes[2] && ctx.ok(); ++i) {
    const dim_t remainder[3] = {i / passes[2] / passes[1], i / passes[2] % passes[1], i % passes[2]};
    run_pass(ctx, shape, axes, kernel, transposed, remainder, storage, workspace);
  }
}

}  // namespace penlight::portable
