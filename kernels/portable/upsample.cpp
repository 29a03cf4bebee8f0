// Upsampling (and shrinking) of signals, images and volumes.
//
// All kinds are separable: each axis has a table of the inputs and weights that
// make one output (resample.h). Nearest neighbours are moved, not computed.
#include "kernels/common/checks.h"
#include "resample.h"
#include "vector.h"
#include "volume.h"

namespace penlight::portable {

namespace {

constexpr int64_t kLargestSize = 1 << 30;

struct Resample {
  const Tensor& input;
  Tensor& out;
  Volume from, to;
  ResampleAxis axes[3];
};

template <class Unit>
void move_nearest(const Resample& job, const AxisTaps<float> tables[3]) {
  for (dim_t i = 0; i < job.input.size(0) * job.input.size(1); ++i) {
    const dim_t n = i / job.input.size(1), c = i % job.input.size(1);
    for (dim_t d = 0; d < job.axes[0].out; ++d) {
      for (dim_t h = 0; h < job.axes[1].out; ++h) {
        const Unit* from = job.input.const_data_ptr<Unit>() + job.from.plane(n, c) +
                           job.from.place(tables[0].positions[d], tables[1].positions[h], 0);
        Unit* to = job.out.mutable_data_ptr<Unit>() + job.to.plane(n, c) + job.to.place(d, h, 0);
        for (dim_t w = 0; w < job.axes[2].out; ++w)
          to[w * job.to.steps[2]] = from[tables[2].positions[w] * job.from.steps[2]];
      }
    }
  }
}

// Each row of the result is a sum of rows of the input blended along themselves, which are kept for the
// next ones: as many as one needs.
template <class S>
void blend(KernelContext& ctx, const Resample& job, const AxisTaps<Compute<S>> tables[3]) {
  using T = Compute<S>;
  const AxisTaps<T>&planes = tables[0], &rows = tables[1], &columns = tables[2];
  const dim_t channels = job.input.size(1), width = job.axes[2].out, slots = planes.taps * rows.taps;
  dim_t total = 0;
  if (__builtin_mul_overflow(slots + 1, width, &total))
    return ctx.fail(Status::OutOfMemory, "{} rows of {} elements do not fit an address", slots + 1, width);
  T* const lines = ctx.allocate_scratch_array<T>(static_cast<size_t>(total));
  dim_t* const held = ctx.allocate_scratch_array<dim_t>(static_cast<size_t>(slots));
  if (!ctx.ok()) return;
  T* const sums = lines + slots * width;
  const auto blended_line = [&](const S* image, dim_t plane, dim_t row) {
    const dim_t slot = plane % planes.taps * rows.taps + row % rows.taps, key = plane * job.axes[1].in + row;
    T* line = lines + slot * width;
    if (held[slot] == key) return line;
    held[slot] = key;
    const S* from = image + job.from.place(plane, row, 0);
    for (dim_t w = 0; w < width; ++w) {
      T sum = 0;
      for (dim_t k = w * columns.taps; k < (w + 1) * columns.taps; ++k)
        sum += columns.weights[k] * static_cast<T>(from[columns.positions[k] * job.from.steps[2]]);
      line[w] = sum;
    }
    return line;
  };
  for (dim_t i = 0; i < job.input.size(0) * channels; ++i) {
    const S* image = job.input.const_data_ptr<S>() + job.from.plane(i / channels, i % channels);
    S* out = job.out.mutable_data_ptr<S>() + job.to.plane(i / channels, i % channels);
    for (dim_t slot = 0; slot < slots; ++slot) held[slot] = -1;
    for (dim_t d = 0; d < job.axes[0].out; ++d) {
      for (dim_t h = 0; h < job.axes[1].out; ++h) {
        for (dim_t w = 0; w < width; ++w) sums[w] = 0;
        for (dim_t p = d * planes.taps; p < (d + 1) * planes.taps; ++p) {
          for (dim_t r = h * rows.taps; r < (h + 1) * rows.taps; ++r) {
            add_scaled(blended_line(image, planes.positions[p], rows.positions[r]),
                       planes.weights[p] * rows.weights[r], width, sums);
          }
        }
        S* to = out + job.to.place(d, h, 0);
        for (dim_t w = 0; w < width; ++w) to[w * job.to.steps[2]] = static_cast<S>(sums[w]);
      }
    }
  }
}

// One axis of an image of bytes, in whole numbers as ATen has it: weights of 16 bits, of which `digits`
// are behind the point.
struct ByteTaps {
  dim_t taps;
  const dim_t* positions;
  int16_t* weights;
  int digits = 0;

  bool prepare(KernelContext& ctx, const ResampleAxis& axis, Interpolation kind) {
    const Interpolation used = axis.in == axis.out ? Interpolation::Nearest : kind;
    const AxisTaps<double> exact = make_axis_taps<double>(ctx, axis, used);
    taps = exact.taps;
    positions = exact.positions;
    weights = ctx.allocate_scratch_array<int16_t>(static_cast<size_t>(axis.out * taps + 1));
    if (!ctx.ok()) return false;
    // What stands at the border several times has one weight, rounded once.
    const auto joined = [&](dim_t begin, dim_t t) {
      const dim_t* at = positions + begin;
      double weight = 0;
      for (dim_t s = t; s < taps && at[s] == at[t] && (t == 0 || at[t - 1] != at[t]); ++s)
        weight += exact.weights[begin + s];
      return weight;
    };
    double largest = 0;
    for (dim_t i = 0; i < axis.out * taps; ++i) {
      const double weight = joined(i - i % taps, i % taps);
      if (weight > largest) largest = weight;
    }
    while (digits < 22 && largest * (2 << digits) + 0.5 < 32768) ++digits;
    for (dim_t i = 0; i < axis.out * taps; ++i) {
      const double weight = joined(i - i % taps, i % taps) * (1 << digits);
      weights[i] = convert<int16_t>(weight < 0 ? weight - 0.5 : weight + 0.5);
    }
    return true;
  }

  uint8_t blend(const uint8_t* from, dim_t step, dim_t i) const {
    int64_t sum = (int64_t{1} << digits) / 2;
    for (dim_t k = i * taps; k < (i + 1) * taps; ++k) sum += weights[k] * int64_t{from[positions[k] * step]};
    sum >>= digits;
    return static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
  }
};

// Along rows first, rounded to bytes before columns are blended.
void blend_bytes(KernelContext& ctx, const Resample& job, Interpolation kind) {
  const dim_t height = job.axes[1].in, width = job.axes[2].out;
  dim_t blended = 0;
  if (__builtin_mul_overflow(height, width, &blended))
    return ctx.fail("{} lines of {} bytes each do not fit in memory", height, width);
  ByteTaps down, across;
  uint8_t* lines = ctx.allocate_scratch_array<uint8_t>(static_cast<size_t>(blended));
  if (!down.prepare(ctx, job.axes[1], kind) || !across.prepare(ctx, job.axes[2], kind)) return;
  for (dim_t n = 0; n < job.input.size(0); ++n) {
    for (dim_t c = 0; c < job.input.size(1); ++c) {
      const uint8_t* from = job.input.const_data_ptr<uint8_t>() + job.from.plane(n, c);
      uint8_t* to = job.out.mutable_data_ptr<uint8_t>() + job.to.plane(n, c);
      for (dim_t i = 0; i < blended; ++i)
        lines[i] = across.blend(from + i / width * job.from.steps[1], job.from.steps[2], i % width);
      for (dim_t i = 0; i < job.axes[1].out * width; ++i) {
        const dim_t h = i / width, w = i % width;
        to[h * job.to.steps[1] + w * job.to.steps[2]] = down.blend(lines + w, width, h);
      }
    }
  }
}

// `scales` holds one for each of `dims` axes.
void upsample_axes(KernelContext& ctx, int dims, const Tensor& input, IntArrayRef output_size,
                   const Optional<double>* scales, bool align_corners, Interpolation kind, Tensor& out) {
  if (!check_rank(ctx, input, dims + 2, "input") || !check_same_dtype(ctx, input, out)) return;
  if (output_size.size() != static_cast<size_t>(dims))
    return ctx.fail("output_size has {} values, {} are wanted", output_size.size(), dims);
  Resample job = {input, out, {}, {}, {}};
  dim_t sizes[5] = {input.size(0), input.size(1)};
  for (int d = 0; d < dims; ++d) {
    ResampleAxis& axis = job.axes[3 - dims + d];
    axis.in = input.size(2 + d);
    const int64_t wanted = output_size[static_cast<size_t>(d)];
    axis.out = sizes[2 + d] = wanted > kLargestSize ? 0 : static_cast<dim_t>(wanted);
    axis.scale = scales[d].value_or(0);
    axis.align_corners = align_corners;
    if (axis.in < 1 || axis.out < 1)
      return ctx.fail("sizes have to be from 1 to {}, got {} and {}", kLargestSize, axis.in, wanted);
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dims + 2))) || out.numel() == 0) return;
  job.from = Volume(input, dims);
  job.to = Volume(out, dims);
  if (kind == Interpolation::Nearest || kind == Interpolation::NearestExact) {
    AxisTaps<float> tables[3];
    for (int d = 0; d < 3; ++d) tables[d] = make_axis_taps<float>(ctx, job.axes[d], kind);
    if (!ctx.ok()) return;
    dispatch_bytes(ctx, input.dtype(),
                   [&](auto tag) { move_nearest<typename decltype(tag)::type>(job, tables); });
    return;
  }
  if (dims == 2 && input.dtype() == ScalarType::Byte) return blend_bytes(ctx, job, kind);
  dispatch<Floats>(ctx, input.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    AxisTaps<Compute<S>> tables[3];
    for (int d = 0; d < 3; ++d) {
      // Axes that are only there to make a volume have one tap.
      const Interpolation along = d < 3 - dims ? Interpolation::Nearest : kind;
      tables[d] = make_axis_taps<Compute<S>>(ctx, job.axes[d], along);
    }
    if (ctx.ok()) blend<S>(ctx, job, tables);
  });
}

template <size_t dims>
void upsample(KernelContext& ctx, const Tensor& input, IntArrayRef output_size,
              const Optional<double> (&scales)[dims], bool align_corners, Interpolation kind, Tensor& out) {
  upsample_axes(ctx, dims, input, output_size, scales, align_corners, kind, out);
}

Interpolation nearest(bool exact) { return exact ? Interpolation::NearestExact : Interpolation::Nearest; }

// The .vec overloads give a size or factors, never both.
void upsample_vec(KernelContext& ctx, const Tensor& input, Optional<IntArrayRef> output_size,
                  Optional<ArrayRef<double>> scale_factors, bool align_corners, Interpolation kind,
                  Tensor& out) {
  if (output_size.has_value() == scale_factors.has_value() || !check_rank(ctx, input, 4, "input") ||
      (scale_factors.has_value() && scale_factors->size() != 2))
    return ctx.fail("give output_size or {} scale_factors", 2);
  if (output_size.has_value())
    return upsample(ctx, input, output_size.value(), {nullopt, nullopt}, align_corners, kind, out);
  const double scales[] = {scale_factors.value()[0], scale_factors.value()[1]};
  int64_t sizes[2];
  for (dim_t d = 0; d < 2; ++d) {
    const double wanted = static_cast<double>(input.size(2 + d)) * scales[d];
    sizes[d] = wanted >= 1 && wanted <= kLargestSize ? static_cast<int64_t>(wanted) : 0;
  }
  upsample(ctx, input, sizes, {scales[0], scales[1]}, align_corners, kind, out);
}

}  // namespace

// `exact` says that pixels have middles, `smoothed` that the filter widens where the image shrinks
// (antialias=True).
void upsample_nearest1d_out(KernelContext& ctx, bool exact, const Tensor& self, IntArrayRef output_size,
                            Optional<double> scale, Tensor& out) {
  upsample(ctx, self, output_size, {scale}, false, nearest(exact), out);
}

void upsample_nearest2d_out(KernelContext& ctx, bool exact, const Tensor& self, IntArrayRef output_size,
                            Optional<double> h, Optional<double> w, Tensor& out) {
  upsample(ctx, self, output_size, {h, w}, false, nearest(exact), out);
}

void upsample_nearest3d_out(KernelContext& ctx, bool exact, const Tensor& self, IntArrayRef output_size,
                            Optional<double> d, Optional<double> h, Optional<double> w, Tensor& out) {
  upsample(ctx, self, output_size, {d, h, w}, false, nearest(exact), out);
}

void upsample_linear1d_out(KernelContext& ctx, const Tensor& self, IntArrayRef output_size,
                           bool align_corners, Optional<double> scale, Tensor& out) {
  upsample(ctx, self, output_size, {scale}, align_corners, Interpolation::Linear, out);
}

void upsample_image_out(KernelContext& ctx, bool cubic, bool smoothed, const Tensor& self,
                        IntArrayRef output_size, bool align_corners, Optional<double> h, Optional<double> w,
                        Tensor& out) {
  constexpr Interpolation kKinds[][2] = {{Interpolation::Linear, Interpolation::LinearSmoothed},
                                         {Interpolation::Cubic, Interpolation::CubicSmoothed}};
  upsample(ctx, self, output_size, {h, w}, align_corners, kKinds[cubic][smoothed], out);
}

void upsample_trilinear3d_out(KernelContext& ctx, const Tensor& self, IntArrayRef output_size,
                              bool align_corners, Optional<double> d, Optional<double> h, Optional<double> w,
                              Tensor& out) {
  upsample(ctx, self, output_size, {d, h, w}, align_corners, Interpolation::Linear, out);
}

void upsample_nearest2d_vec_out(KernelContext& ctx, const Tensor& input, Optional<IntArrayRef> output_size,
                                Optional<ArrayRef<double>> scale_factors, Tensor& out) {
  upsample_vec(ctx, input, output_size, scale_factors, false, Interpolation::Nearest, out);
}

void upsample_bilinear2d_vec_out(KernelContext& ctx, const Tensor& input, Optional<IntArrayRef> output_size,
                                 bool align_corners, Optional<ArrayRef<double>> scale_factors, Tensor& out) {
  upsample_vec(ctx, input, output_size, scale_factors, align_corners, Interpolation::Linear, out);
}

}  // namespace penlight::portable
