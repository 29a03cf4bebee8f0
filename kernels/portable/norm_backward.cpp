// Gradients of layer and group normalisation, and of embedding tables.
#include "kernels/common/checks.h"
#include "kernels/common/span.h"

namespace penlight::portable {

namespace {

// Both normalisations work on rows of `channels` times `plane` elements, which have
// one mean and deviation each; weights are shared by the rows r, r + groups, ...
struct NormRows {
  dim_t rows, groups, channels, plane;
};

//   x_hat = (x - mean) * rstd,  a = grad * weight
//   grad_input = rstd * (a - mean(a) - x_hat * mean(a * x_hat))
void normalize_backward(KernelContext& ctx, const NormRows& norm, const Tensor& grad_out, const Tensor& input,
                        const Tensor& mean, const Tensor& rstd, Optional<Tensor> weight,
                        SizesRef weight_sizes, ArrayRef<bool> mask, Tensor& out0, Tensor& out1,
                        Tensor& out2) {
  const dim_t count = norm.channels * norm.plane;
  if (mask.size() != 3 || mean.numel() != norm.rows || rstd.numel() != norm.rows ||
      grad_out.numel() != input.numel() || (weight && weight->numel() != norm.groups * norm.channels))
    return ctx.fail("the gradient's arguments do not fit {} rows of {}", norm.rows, count);
  if (mask[0] && !ctx.resize(out0, input.sizes())) return;
  if (mask[1] && !ctx.resize(out1, weight_sizes)) return;
  if (mask[2] && !ctx.resize(out2, weight_sizes)) return;
  const double *grad = dense_copy(ctx, grad_out), *x = dense_copy(ctx, input);
  const double *means = dense_copy(ctx, mean), *rstds = dense_copy(ctx, rstd);
  const double* scale = weight ? dense_copy(ctx, *weight) : nullptr;
  double* result = dense_zeros(ctx, input.numel());
  double* scale_grad = dense_zeros(ctx, norm.groups * norm.channels);
  double* shift_grad = dense_zeros(ctx, norm.groups * norm.channels);
  if (!ctx.ok()) return;
  for (dim_t row = 0; row < norm.rows; ++row) {
    const dim_t first = row * count, parameter = row % norm.groups * norm.channels;
    double sum = 0, product = 0;
    for (dim_t i = 0; i < count; ++i) {
      const dim_t p = parameter + i / norm.plane;
      const double x_hat = (x[first + i] - means[row]) * rstds[row], g = grad[first + i];
      const double a = scale ? g * scale[p] : g;
      scale_grad[p] += g * x_hat;
      shift_grad[p] += g;
      sum += a;
      product += a * x_hat;
    }
    sum /= static_cast<double>(count);
    product /= static_cast<double>(count);
    for (dim_t i = 0; i < count; ++i) {
      const double x_hat = (x[first + i] - means[row]) * rstds[row], g = grad[first + i];
      const double a = scale ? g * scale[parameter + i / norm.plane] : g;
      result[first + i] = rstds[row] * (a - sum - x_hat * product);
    }
  }
  if (mask[0]) dense_store(result, out0);
  if (mask[1]) dense_store(scale_grad, out1);
  if (mask[2]) dense_store(shift_grad, out2);
}

}  // namespace

void native_layer_norm_backward_out(KernelContext& ctx, const Tensor& grad_out, const Tensor& input,
                                    IntArrayRef normalized_shape, const Tensor& mean, const Tensor& rstd,
                                    Optional<Tensor> weight, const Optional<Tensor>&,
                                    ArrayRef<bool> output_mask, Tensor& out0, Tensor& out1, Tensor& out2) {
  const dim_t axis = input.dim() - static_cast<dim_t>(normalized_shape.size());
  if (!check(ctx, axis >= 0, "normalized_shape is longer than the input's shape")) return;
  NormRows norm = {1, 1, 1, 1};
  for (dim_t d = 0; d < input.dim(); ++d) (d < axis ? norm.rows : norm.channels) *= input.size(d);
  normalize_backward(ctx, norm, grad_out, input, mean, rstd, weight,
                     input.sizes().slice(static_cast<size_t>(axis), normalized_shape.size()), output_mask,
                     out0, out1, out2);
}

void native_group_norm_backward_out(KernelContext& ctx, const Tensor& grad_out, const Tensor& input,
                                    const Tensor& mean, const Tensor& rstd, Optional<Tensor> weight,
                                    int64_t N, int64_t C, int64_t HxW, int64_t group,
                                    ArrayRef<bool> output_mask, Tensor& out0, Tensor& out1, Tensor& out2) {
  dim_t spatial = 1;
  for (dim_t d = 2; d < input.dim(); ++d) spatial *= input.size(d);
  if (input.dim() < 2 || input.size(0) != N || input.size(1) != C || spatial != HxW || group < 1 ||
      C % group != 0)
    return ctx.fail("an input of {} elements is not [{}, {}, {}] in {} groups", input.numel(), N, C, HxW,
                    group);
  const dim_t groups = static_cast<dim_t>(group);
  normalize_backward(ctx, {input.size(0) * groups, groups, input.size(1) / groups, spatial}, grad_out, input,
                     mean, rstd, weight, input.sizes().slice(1, 1), output_mask, out0, out1, out2);
}

void embedding_dense_backward_out(KernelContext& ctx, const Tensor& grad_output, const Tensor& indices,
                                  int64_t num_weights, int64_t padding_idx, bool scale_grad_by_freq,
                                  Tensor& out) {
  if (!check(ctx, grad_output.dim() >= 1, "the gradient of an embedding has dimensions")) return;
  const dim_t width = grad_output.size(-1), places = indices.numel();
  const dim_t sizes[] = {static_cast<dim_t>(num_weights), width};
  if (grad_output.numel() != places * width)
    return ctx.fail("a gradient of {} elements for {} rows of {}", grad_output.numel(), places, width);
  if (!ctx.resize(out, sizes)) return;
  const double* from = dense_copy(ctx, grad_output);
  double* sums = dense_zeros(ctx, sizes[0] * width);
  const int64_t* rows = dense_copy<int64_t>(ctx, indices);
  dim_t* counts = scratch<dim_t>(ctx, sizes[0]);
  if (!ctx.ok()) return;
  memset(counts, 0, static_cast<size_t>(sizes[0]) * sizeof(dim_t));
  for (dim_t i = 0; i < places; ++i) {
    if (rows[i] == padding_idx) continue;
    if (rows[i] < 0 || rows[i] >= num_weights)
      return ctx.fail(Status::KernelFailed, "index {} is out of range for a table of {} rows", rows[i],
                      num_weights);
    ++counts[rows[i]];
  }
  for (dim_t i = 0; i < places; ++i) {
    if (rows[i] == padding_idx) continue;
    const double share = scale_grad_by_freq ? 1 / static_cast<double>(counts[rows[i]]) : 1;
    for (dim_t k = 0; k < width; ++k) sums[rows[i] * width + k] += from[i * width + k] * share;
  }
  dense_store(sums, out);
}

}  // namespace penlight::portable
