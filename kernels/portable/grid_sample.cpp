// Sampling an image or a volume at the positions of a grid.
#include <math.h>

#include "kernels/common/checks.h"
#include "kernels/common/span.h"
#include "resample.h"
#include "volume.h"

namespace penlight::portable {

namespace {

enum Mode : int64_t { kLinear = 0, kNearest = 1, kCubic = 2 };
enum Padding : int64_t { kZeros = 0, kBorder = 1, kReflection = 2 };

// From [-1, 1] over the whole of an axis to an index into it.
template <class T>
T position_of(T coordinate, dim_t size, bool align_corners) {
  const T length = static_cast<T>(size);
  return align_corners ? (coordinate + 1) / 2 * (length - 1) : ((coordinate + 1) * length - 1) / 2;
}

// Back and forth between the ends; the ends are given as twice their position.
template <class T>
T reflect(T x, dim_t twice_low, dim_t twice_high) {
  if (twice_low == twice_high) return 0;
  const T low = static_cast<T>(twice_low) / 2, length = static_cast<T>(twice_high - twice_low) / 2;
  x = x < low ? low - x : x - low;
  const T rest = static_cast<T>(fmod(x, length));
  const T flips = static_cast<T>(floor(x / length));
  return fmod(flips, 2) == 0 ? rest + low : length - rest + low;
}

template <class T>
T pad_position(T x, dim_t size, int64_t padding, bool align_corners) {
  if (padding == kZeros) return x;
  if (padding == kReflection)
    x = align_corners ? reflect(x, 0, 2 * (size - 1)) : reflect(x, -1, 2 * size - 1);
  const T last = static_cast<T>(size - 1);
  return x > 0 ? (x < last ? x : last) : T(0);
}

// An index for a position that may be anything, NaN too: far outside is -1.
template <class T>
dim_t index_of(T position, dim_t size) {
  return position > T(-2) && position < static_cast<T>(size) + 1 ? static_cast<dim_t>(position) : -1;
}

struct Sampling {
  int64_t mode, padding;
  bool align_corners;
};

// The inputs along one axis that make one sample: at most four, -1 for outside.
template <class T>
struct Taps {
  int count;
  dim_t at[4];
  T weights[4];
  T none;  // 0, or no number where the position is none
};

template <class T>
Taps<T> taps_of(T coordinate, dim_t size, const Sampling& sampling) {
  const auto padded = [&](T x) { return pad_position(x, size, sampling.padding, sampling.align_corners); };
  const auto inside = [&](T position) {
    const dim_t i = index_of(position, size);
    return i >= 0 && i < size && position >= 0 ? i : dim_t{-1};
  };
  T x = position_of(coordinate, size, sampling.align_corners);
  if (sampling.mode != kCubic) x = padded(x);
  if (sampling.mode == kNearest) return {1, {inside(static_cast<T>(nearbyint(x)))}, {T(1)}, T(0)};
  const T below = static_cast<T>(floor(x)), rest = x - below;
  if (sampling.mode == kLinear) return {2, {inside(below), inside(below + 1)}, {1 - rest, rest}, x - x};
  Taps<T> taps = {4, {}, {}, x - x};
  cubic_weights(rest, T(-0.75), taps.weights);
  for (int i = 0; i < 4; ++i) taps.at[i] = inside(padded(below + static_cast<T>(i - 1)));
  return taps;
}

// Images are volumes of depth 1 that `z` never leaves.
template <class S>
void sample(const Tensor& input, const Tensor& grid, const Sampling& sampling, Tensor& out) {
  using T = Compute<S>;
  const bool is_volume = input.dim() == 5;
  const Volume from(input, is_volume ? 3 : 2);
  const Span places(grid, 0, grid.dim() - 1);
  Span outputs(out.dtype());
  for (dim_t d = 0; d < out.dim(); ++d) {
    if (d != 1) outputs.push(out.size(d), out.stride(d));
  }
  for (dim_t i = 0; i < outputs.count(); ++i) {
    const S* where = grid.const_data_ptr<S>() + places.offset(i);
    S* to = out.mutable_data_ptr<S>() + outputs.offset(i);
    const dim_t step = grid.stride(-1), image = i / (outputs.count() / out.size(0));
    const Taps<T> x = taps_of(static_cast<T>(where[0]), from.sizes[2], sampling);
    const Taps<T> y = taps_of(static_cast<T>(where[step]), from.sizes[1], sampling);
    Taps<T> z = {1, {0}, {T(1)}, T(0)};
    if (is_volume) z = taps_of(static_cast<T>(where[2 * step]), from.sizes[0], sampling);
    for (dim_t c = 0; c < input.size(1); ++c) {
      const S* plane = input.const_data_ptr<S>() + from.plane(image, c);
      T sum = is_volume ? T(0) : x.none + y.none;  // as ATen has it
      for (int k = 0; k < z.count; ++k) {
        for (int j = 0; j < y.count; ++j) {
          if (z.at[k] < 0 || y.at[j] < 0) continue;
          const S* row = plane + from.place(z.at[k], y.at[j], 0);
          T part = 0;
          for (int l = 0; l < x.count; ++l) {
            if (x.at[l] >= 0) part += x.weights[l] * static_cast<T>(row[x.at[l] * from.steps[2]]);
          }
          sum += z.weights[k] * y.weights[j] * part;
        }
      }
      to[c * out.stride(1)] = static_cast<S>(sum);
    }
  }
}

}  // namespace

void grid_sample_out(KernelContext& ctx, int dims, const Tensor& input, const Tensor& grid,
                     int64_t interpolation_mode, int64_t padding_mode, bool align_corners, Tensor& out) {
  const Sampling sampling = {interpolation_mode, padding_mode, align_corners};
  if (!check_rank(ctx, input, dims + 2, "input") || !check_rank(ctx, grid, dims + 2, "grid") ||
      !check_same_dtype(ctx, input, grid) || !check_same_dtype(ctx, input, out))
    return;
  bool empty = false;
  for (dim_t d = 0; d < dims; ++d) empty |= input.size(2 + d) == 0;
  if (grid.size(0) != input.size(0) || grid.size(-1) != dims || empty)
    return ctx.fail("a grid of [{}, ..., {}] does not fit a batch of {} images", grid.size(0), grid.size(-1),
                    input.size(0));
  if (sampling.mode < kLinear || sampling.mode > kCubic || (sampling.mode == kCubic && dims == 3) ||
      sampling.padding < kZeros || sampling.padding > kReflection)
    return ctx.fail("interpolation {} with padding {} is not known", sampling.mode, sampling.padding);
  dim_t sizes[5] = {input.size(0), input.size(1)};
  for (dim_t d = 0; d < dims; ++d) sizes[2 + d] = grid.size(1 + d);
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dims + 2)))) return;
  dispatch<Floats>(ctx, input.dtype(),
                   [&](auto tag) { sample<typename decltype(tag)::type>(input, grid, sampling, out); });
}

}  // namespace penlight::portable
