// Resampling one axis: which inputs, with which weights, make one output.
#pragma once

#include "kernels/common/resample_axis.h"

namespace penlight::portable {

enum class Interpolation : uint8_t { Nearest, NearestExact, Linear, Cubic, LinearSmoothed, CubicSmoothed };

// For output i: weights[i * taps + t] times input[positions[i * taps + t]], summed over t.
template <class T>
struct AxisTaps {
  dim_t taps;
  dim_t* positions;
  T* weights;
};

// Weights of the four neighbours at distance `t` behind the second of them, with
// Keys' parameter `a`.
template <class T>
inline void cubic_weights(T t, T a, T weights[4]) {
  const T far = t + 1, near = 1 - t, beyond = 2 - t;
  weights[0] = ((a * far - 5 * a) * far + 8 * a) * far - 4 * a;
  weights[1] = ((a + 2) * t - (a + 3)) * t * t + 1;
  weights[2] = ((a + 2) * near - (a + 3)) * near * near + 1;
  weights[3] = ((a * beyond - 5 * a) * beyond + 8 * a) * beyond - 4 * a;
}

inline void fill_nearest(const ResampleAxis& axis, bool exact, dim_t* positions) {
  const float step = resample_step<float>(axis);
  for (dim_t i = 0; i < axis.out; ++i) positions[i] = nearest_input(axis, step, exact, i);
}

template <class T>
void fill_linear(const ResampleAxis& axis, const AxisTaps<T>& tables) {
  const T step = resample_step<T>(axis);
  for (dim_t i = 0; i < axis.out; ++i) {
    const BetweenInputs<T> taps = between_inputs(axis, step, i);
    tables.positions[2 * i] = taps.first;
    tables.positions[2 * i + 1] = taps.second;
    tables.weights[2 * i] = 1 - taps.rest;
    tables.weights[2 * i + 1] = taps.rest;
  }
}

template <class T>
void fill_cubic(const ResampleAxis& axis, const AxisTaps<T>& tables) {
  const T step = resample_step<T>(axis);
  for (dim_t i = 0; i < axis.out; ++i) {
    const T source = resampled_position(axis, step, i);
    const T below = static_cast<T>(floor(static_cast<double>(source)));
    // Half a pixel before the image at most, so shifted to be positive.
    const dim_t first = resampled_index(below + 1, axis.in + 1) - 2;
    for (dim_t t = 0; t < 4; ++t) tables.positions[4 * i + t] = clamp_to_axis(first + t, axis.in);
    cubic_weights(source - below, T(-0.75), tables.weights + 4 * i);
  }
}

template <class T>
T triangle(T x) {
  x = x < 0 ? -x : x;
  return x < 1 ? 1 - x : T(0);
}

template <class T>
T keys_cubic(T x) {
  const T a = T(-0.5);
  x = x < 0 ? -x : x;
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

// When shrinking, the filter is stretched over all the inputs that an output covers.
template <class T>
struct Smoothing {
  T step, support, inverse;
  bool cubic;

  Smoothing(const ResampleAxis& axis, bool is_cubic) : step(resample_step<T>(axis)), cubic(is_cubic) {
    const T half = cubic ? T(2) : T(1);
    support = step >= 1 ? half * step : half;
    inverse = step >= 1 ? 1 / step : T(1);
  }
  // At most as many as there are inputs.
  dim_t taps(dim_t in) const { return 2 * resampled_index(ceil(static_cast<double>(support)), in) + 1; }
};

template <class T>
void fill_smoothed(const ResampleAxis& axis, const Smoothing<T>& smoothing, const AxisTaps<T>& tables) {
  const dim_t taps = tables.taps;
  for (dim_t i = 0; i < axis.out; ++i) {
    const T center = smoothing.step * (static_cast<T>(i) + T(0.5));
    const dim_t first = resampled_index(center - smoothing.support + T(0.5), axis.in);
    dim_t end = resampled_index(center + smoothing.support + T(0.5), axis.in);
    if (end - first > taps) end = first + taps;
    T total = 0;
    for (dim_t t = 0; t < taps; ++t) {
      const dim_t at = first + t;
      T weight = 0;
      if (at < end) {
        const T distance = (static_cast<T>(at) - center + T(0.5)) * smoothing.inverse;
        weight = smoothing.cubic ? keys_cubic(distance) : triangle(distance);
      }
      total += weight;
      tables.positions[i * taps + t] = clamp_to_axis(at, axis.in);
      tables.weights[i * taps + t] = weight;
    }
    if (total != 0) {
      for (dim_t t = 0; t < taps; ++t) tables.weights[i * taps + t] /= total;
    }
  }
}

// Tables in scratch; all the positions lie inside the input. Null positions when
// there is not enough scratch.
template <class T>
AxisTaps<T> make_axis_taps(KernelContext& ctx, const ResampleAxis& axis, Interpolation kind) {
  const bool smoothed = kind == Interpolation::LinearSmoothed || kind == Interpolation::CubicSmoothed;
  const Smoothing<T> smoothing(axis, kind == Interpolation::CubicSmoothed);
  const dim_t taps = smoothed                        ? smoothing.taps(axis.in)
                     : kind == Interpolation::Linear ? 2
                     : kind == Interpolation::Cubic  ? 4
                                                     : 1;
  const size_t count = static_cast<size_t>(axis.out * taps + 1);
  const AxisTaps<T> tables = {taps, ctx.allocate_scratch_array<dim_t>(count),
                              ctx.allocate_scratch_array<T>(count)};
  if (!ctx.ok()) return {0, nullptr, nullptr};
  if (smoothed) {
    fill_smoothed(axis, smoothing, tables);
  } else if (kind == Interpolation::Linear) {
    fill_linear(axis, tables);
  } else if (kind == Interpolation::Cubic) {
    fill_cubic(axis, tables);
  } else {
    fill_nearest(axis, kind == Interpolation::NearestExact, tables.positions);
    for (dim_t i = 0; i < axis.out; ++i) tables.weights[i] = 1;
  }
  return tables;
}

}  // namespace penlight::portable
