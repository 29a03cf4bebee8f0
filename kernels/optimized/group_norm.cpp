// Normalisation of groups of channels, and of each channel of each image (instance norm), of float32;
// the portable kernels take, and report, what these decline.
#include "image.h"
#include "isa.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

struct Results {
  Tensor &out, &means, &rstds;
};

// `items` groups in all, `groups` of each image.
void normalize(KernelContext& ctx, const Tensor& input, const Optional<Tensor>& weight,
               const Optional<Tensor>& bias, dim_t items, dim_t groups, bool planar, double eps,
               const Results& to) {
  GroupNorm norm{};
  norm.input = input.const_data_ptr<float>();
  norm.weight = data_of(weight);
  norm.bias = data_of(bias);
  norm.output = to.out.mutable_data_ptr<float>();
  norm.means = to.means.mutable_data_ptr<float>();
  norm.rstds = to.rstds.mutable_data_ptr<float>();
  norm.groups = groups;
  norm.channels = input.size(1) / groups;
  norm.pixels = input.numel() / (input.size(0) * input.size(1));
  norm.planar = planar;
  norm.eps = eps;
  const dim_t count = norm.channels * norm.pixels, channels = norm.groups * norm.channels;
  // Channels of a part that are less than a line of the cache would be fetched by two threads.
  const dim_t step = norm.planar ? 1 : (kPanel + norm.channels - 1) / norm.channels;
  const double operations = 12.0 * static_cast<double>(items) * static_cast<double>(count);
  const dim_t parts = parts_of(ctx, operations, (items + step - 1) / step);
  PartMemory memory = {};
  if (!norm.planar &&
      !allocate_parts(ctx, parts, static_cast<size_t>(channels) * (sizeof(double) + 3 * sizeof(float)),
                      memory))
    return;
  const auto part = [&](size_t index) {
    GroupNorm mine = norm;
    const Range range = range_of(index, parts, items, step);
    mine.first = range.first;
    mine.last = range.last;
    mine.scratch = norm.planar ? nullptr : memory.of(index);
    routines().norm_groups(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

}  // namespace

void native_group_norm_out(KernelContext& ctx, const Tensor& input, const Optional<Tensor>& weight,
                           const Optional<Tensor>& bias, int64_t N, int64_t C, int64_t HxW, int64_t group,
                           double eps, Tensor& out0, Tensor& out1, Tensor& out2) {
  const dim_t dim = input.dim();
  if (!is_float(input) || !is_float(out0) || !is_float(out1) || !is_float(out2) || dim < 2 ||
      input.numel() == 0 || input.size(0) != N || input.size(1) != C || group < 1 || C % group != 0 ||
      input.numel() / (input.size(0) * input.size(1)) != HxW || !is_row(weight, input.size(1)) ||
      !is_row(bias, input.size(1))) {
    ctx.decline();
    return;
  }
  const dim_t groups = static_cast<dim_t>(group), moments[] = {input.size(0), groups};
  if (!ctx.resize(out0, input.sizes()) || !ctx.resize(out1, SizesRef(moments, 2)) ||
      !ctx.resize(out2, SizesRef(moments, 2)))
    return;
  const bool planar = input.is_contiguous() && out0.is_contiguous();
  const bool pixels = !planar && dim == 4 && is_channels_last(input) && is_channels_last(out0);
  if ((!planar && !pixels) || !out1.is_contiguous() || !out2.is_contiguous()) {
    ctx.decline();
    return;
  }
  normalize(ctx, input, weight, bias, input.size(0) * groups, groups, planar, eps, {out0, out1, out2});
}

// What instance norm is made of: a batch of one, whose channels are all channels of all images.
void native_batch_norm_legit_no_stats_out(KernelContext& ctx, const Tensor& input,
                                          const Optional<Tensor>& weight, const Optional<Tensor>& bias,
                                          bool training, double momentum, double eps, Tensor& out,
                                          Tensor& save_mean, Tensor& save_invstd) {
  (void)momentum;  // there is nothing that it would move
  if (!training || !is_float(input) || !is_float(out) || !is_float(save_mean) || !is_float(save_invstd) ||
      input.dim() < 2 || input.size(0) != 1 || input.numel() == 0 || !input.is_contiguous() ||
      !is_row(weight, input.size(1)) || !is_row(bias, input.size(1))) {
    ctx.decline();
    return;
  }
  const dim_t channels = input.size(1);
  if (!ctx.resize(out, input.sizes()) || !ctx.resize(save_mean, SizesRef(&channels, 1)) ||
      !ctx.resize(save_invstd, SizesRef(&channels, 1)))
    return;
  if (!out.is_contiguous()) {
    ctx.decline();
    return;
  }
  normalize(ctx, input, weight, bias, channels, channels, true, eps, {out, save_mean, save_invstd});
}

}  // namespace penlight::optimized
