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

// Elements whose moments are taken while they are in a near cache; how they are cut hangs on the shape alone,
// so that any number of threads gives the same bits.
constexpr dim_t kElementsOfPart = 1 << 14;
// A thread's part is that of a few pixels at least: what is done once for each channel is worth as much as
// they.
constexpr dim_t kLeastPixels = 32, kPixelStep = 64;

constexpr double kOperations = 6.0;  // of each element, once for the moments and once for the rest

dim_t part_of(const GroupNorm& norm) {
  if (norm.planar) return kElementsOfPart;
  const dim_t pixels = kElementsOfPart / (norm.groups * norm.channels);
  return pixels < kPixelStep ? (pixels < kLeastPixels ? kLeastPixels : pixels)
                             : pixels / kPixelStep * kPixelStep;
}

// Of a group, whose parts' moments are `pitch` apart (Chan, Golub and LeVeque, "Updating formulae and a
// pairwise algorithm for computing sample variances", 1979).
void combine(const GroupNorm& norm, double eps, dim_t item, const Moments* moments, dim_t pitch) {
  const dim_t each = norm.planar ? 1 : norm.channels, all = norm.channels * norm.pixels;
  const double count = static_cast<double>(all), first = moments->mean;
  double apart = 0, squares = 0;
  const auto over_parts = [&](auto&& body) {
    const Moments* part = moments;
    for (dim_t begin = 0; begin < all; begin += norm.part * each, part += pitch) {
      const dim_t left = all - begin, size = norm.part * each;
      body(*part, static_cast<double>(left < size ? left : size));
    }
  };
  over_parts([&](const Moments& part, double size) { apart += (part.mean - first) * size; });
  const double mean = first + apart / count;
  over_parts([&](const Moments& part, double size) {
    squares += part.squares + (part.mean - mean) * (part.mean - mean) * size;
  });
  norm.means[item] = static_cast<float>(mean);
  norm.rstds[item] = static_cast<float>(1.0 / __builtin_sqrt(squares / count + eps));
}

// Groups that one thread has all of.
void normalize_groups(const GroupNorm& norm, double eps, dim_t parts, Range items, Moments* moments) {
  GroupNorm one = norm;
  one.moments = moments;
  for (dim_t item = items.first; item < items.last; ++item) {
    one.first = item * parts;
    one.last = one.first + parts;
    routines().group_moments(one);
    combine(one, eps, item, moments, 1);
    routines().norm_groups(one);
  }
}

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
  norm.part = part_of(norm);
  const dim_t count = norm.channels * norm.pixels, threads = static_cast<dim_t>(ctx.threads());
  const dim_t length = planar ? count : norm.pixels, parts = (length + norm.part - 1) / norm.part;
  const double operations = 2 * kOperations * static_cast<double>(count);
  if (planar && parts == 1) {
    return in_parts(ctx, items, operations, [&](Range range) {
      Moments moments;
      normalize_groups(norm, eps, 1, range, &moments);
    });
  }
  const dim_t of_part = planar ? 1 : groups, all = (planar ? items : items / groups) * parts;
  const size_t size = static_cast<size_t>(all * of_part) * sizeof(Moments);
  Moments* moments = static_cast<Moments*>(ctx.allocate_scratch(size, alignof(Moments)));
  if (!moments) return;
  // Groups that are as many as the threads are read again, and written, while they are in a near cache.
  if (planar && items % threads == 0) {
    return in_parts(ctx, items, operations, [&](Range range) {
      normalize_groups(norm, eps, parts, range, moments + range.first * parts);
    });
  }
  const dim_t cuts = parts_of(ctx, operations / 2 * static_cast<double>(items), all);
  PartMemory memory = {};
  const size_t room = static_cast<size_t>(room_of_group_norm(groups * norm.channels));
  if (!planar && !allocate_parts(ctx, cuts, room * (sizeof(double) + sizeof(float)), memory)) return;
  const auto in_cuts = [&](void (*routine)(const GroupNorm&)) {
    const auto part = [&](size_t index) {
      const Range range = range_of(index, cuts, all);
      GroupNorm mine = norm;
      mine.first = range.first;
      mine.last = range.last;
      mine.moments = moments + range.first * of_part;
      mine.scratch = planar ? nullptr : memory.of(index);
      routine(mine);
    };
    ctx.parallel(static_cast<size_t>(cuts), part);
  };
  in_cuts(routines().group_moments);
  in_parts(ctx, items, 2 * kOperations * static_cast<double>(parts), [&](Range range) {
    for (dim_t item = range.first; item < range.last; ++item) {
      const dim_t first = planar ? item * parts : item / groups * parts * groups + item % groups;
      combine(norm, eps, item, moments + first, of_part);
    }
  });
  in_cuts(routines().norm_groups);
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
