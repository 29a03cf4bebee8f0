// Resampling of float32 images, channels-last or row-major, bilinear and of the nearest pixel; the
// portable kernels take, and report, what these decline.
#include "image.h"
#include "isa.h"
#include "kernels/common/resample_axis.h"
#include "packed.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

constexpr int64_t kLargestSize = 1 << 30;
constexpr dim_t kBlock = 2048;  // elements of a row; two of these fit the nearest cache

// False where there is no memory for it. Past the last output are some that may be read and computed.
bool make_taps(KernelContext& ctx, const ResampleAxis& axis, bool blended, AxisBlend& taps) {
  const dim_t count = round_to_panel(axis.out);
  int32_t* places = ctx.allocate_scratch_array<int32_t>(static_cast<size_t>(blended ? 2 * count : count));
  float* rest = blended ? ctx.allocate_scratch_array<float>(static_cast<size_t>(count)) : nullptr;
  if (!places || (blended && !rest)) return false;
  const float step = resample_step<float>(axis);
  for (dim_t i = 0; i < count; ++i) {
    const dim_t output = i < axis.out ? i : axis.out - 1;
    if (!blended) {
      places[i] = static_cast<int32_t>(nearest_input(axis, step, false, output));
      continue;
    }
    const BetweenInputs<float> at = between_inputs(axis, step, output);
    places[i] = static_cast<int32_t>(at.first);
    places[count + i] = static_cast<int32_t>(at.second);
    rest[i] = at.rest;
  }
  taps = {places, blended ? places + count : nullptr, rest};
  return true;
}

// `scales` are 0 where there are none. False, with nothing written, if it is for the portable kernel.
bool upsample(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> output_size, const double scales[2],
              bool align_corners, bool blended, Tensor& out) {
  if (!is_float(input) || !is_float(out) || input.dim() != 4 || input.numel() == 0 || output_size.size() != 2)
    return false;
  ResampleAxis axes[2];
  for (dim_t d = 0; d < 2; ++d) {
    const int64_t wanted = output_size[static_cast<size_t>(d)];
    if (wanted < 1 || wanted > kLargestSize || input.size(2 + d) > kLargestSize) return false;
    axes[d] = {input.size(2 + d), static_cast<dim_t>(wanted), scales[d], align_corners};
  }
  const dim_t sizes[] = {input.size(0), input.size(1), axes[0].out, axes[1].out};
  if (!ctx.resize(out, SizesRef(sizes, 4))) return true;
  const bool planar = input.is_contiguous() && out.is_contiguous();
  if (!planar && !(is_channels_last(input) && is_channels_last(out))) return false;
  Resample job{};
  job.input = input.const_data_ptr<float>();
  job.output = out.mutable_data_ptr<float>();
  job.pixel = planar ? 1 : input.size(1);
  job.in_height = axes[0].in;
  job.in_width = axes[1].in;
  job.out_height = axes[0].out;
  job.out_width = axes[1].out;
  job.block = job.pixel >= kBlock ? 1 : kBlock / job.pixel;
  if (job.block > job.out_width) job.block = job.out_width;
  if (!make_taps(ctx, axes[0], blended, job.rows) || !make_taps(ctx, axes[1], blended, job.columns))
    return true;
  const dim_t rows = out.numel() / (job.out_width * job.pixel);
  const dim_t parts = parts_of(ctx, (blended ? 8.0 : 4.0) * static_cast<double>(out.numel()), rows);
  PartMemory memory = {};
  const size_t run = static_cast<size_t>(round_to_panel(job.block * job.pixel));
  if (blended && !allocate_parts(ctx, parts, 2 * run * sizeof(float), memory)) return true;
  const auto part = [&](size_t index) {
    Resample mine = job;
    const Range range = range_of(index, parts, rows);
    mine.first_row = range.first;
    mine.last_row = range.last;
    mine.scratch = blended ? static_cast<float*>(memory.of(index)) : nullptr;
    routines().resample(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return true;
}

// Sizes or factors, never both.
bool upsample(KernelContext& ctx, const Tensor& input, Optional<ArrayRef<int64_t>> output_size,
              Optional<ArrayRef<double>> scale_factors, bool align_corners, bool blended, Tensor& out) {
  double scales[2] = {};
  int64_t sizes[2] = {};
  if (output_size.has_value() == scale_factors.has_value() || input.dim() != 4) return false;
  if (output_size.has_value()) {
    return upsample(ctx, input, output_size.value(), scales, align_corners, blended, out);
  }
  if (scale_factors.value().size() != 2) return false;
  for (size_t d = 0; d < 2; ++d) {
    scales[d] = scale_factors.value()[d];
    const double wanted = static_cast<double>(input.size(2 + static_cast<dim_t>(d))) * scales[d];
    sizes[d] = wanted >= 1 && wanted <= static_cast<double>(kLargestSize) ? static_cast<int64_t>(wanted) : 0;
  }
  return upsample(ctx, input, ArrayRef<int64_t>(sizes, 2), scales, align_corners, blended, out);
}

}  // namespace

Tensor& upsample_bilinear2d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> output_size,
                                bool align_corners, Optional<double> scales_h, Optional<double> scales_w,
                                Tensor& out) {
  const double scales[] = {scales_h.value_or(0), scales_w.value_or(0)};
  if (!upsample(ctx, self, output_size, scales, align_corners, true, out)) ctx.decline();
  return out;
}

Tensor& upsample_bilinear2d_vec_out(KernelContext& ctx, const Tensor& input,
                                    Optional<ArrayRef<int64_t>> output_size, bool align_corners,
                                    Optional<ArrayRef<double>> scale_factors, Tensor& out) {
  if (!upsample(ctx, input, output_size, scale_factors, align_corners, true, out)) ctx.decline();
  return out;
}

Tensor& upsample_nearest2d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> output_size,
                               Optional<double> scales_h, Optional<double> scales_w, Tensor& out) {
  const double scales[] = {scales_h.value_or(0), scales_w.value_or(0)};
  if (!upsample(ctx, self, output_size, scales, false, false, out)) ctx.decline();
  return out;
}

Tensor& upsample_nearest2d_vec_out(KernelContext& ctx, const Tensor& input,
                                   Optional<ArrayRef<int64_t>> output_size,
                                   Optional<ArrayRef<double>> scale_factors, Tensor& out) {
  if (!upsample(ctx, input, output_size, scale_factors, false, false, out)) ctx.decline();
  return out;
}

}  // namespace penlight::optimized
