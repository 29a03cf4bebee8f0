// One axis of an image that is resampled: where in the input an output lies.
#pragma once

#include <math.h>
#include <penlight/kernel.h>

namespace penlight {

struct ResampleAxis {
  dim_t in = 1, out = 1;
  double scale = 0;  // output over input as the caller gave it; 0: from the sizes
  bool align_corners = false;
};

// A position that scales from outside may have made anything, NaN too, as an index.
template <class T>
inline dim_t resampled_index(T position, dim_t limit) {
  if (!(position > T(0))) return 0;
  return position < static_cast<T>(limit) ? static_cast<dim_t>(position) : limit;
}

inline dim_t clamp_to_axis(dim_t position, dim_t size) {
  return position < 0 ? 0 : position >= size ? size - 1 : position;
}

// Input elements for one step of the output.
template <class T>
inline T resample_step(const ResampleAxis& axis) {
  if (axis.align_corners) {
    return axis.out > 1 ? static_cast<T>(axis.in - 1) / static_cast<T>(axis.out - 1) : T(0);
  }
  return axis.scale > 0 ? static_cast<T>(1 / axis.scale) : static_cast<T>(axis.in) / static_cast<T>(axis.out);
}

template <class T>
inline T resampled_position(const ResampleAxis& axis, T step, dim_t i) {
  return axis.align_corners ? step * static_cast<T>(i) : step * (static_cast<T>(i) + T(0.5)) - T(0.5);
}

// The input nearest to output `i`; `exact` says that pixels have middles. `step` is of float
// whatever the element type, as ATen has it.
inline dim_t nearest_input(const ResampleAxis& axis, float step, bool exact, dim_t i) {
  dim_t at;
  if (exact) {
    at = resampled_index(floorf((static_cast<float>(i) + 0.5f) * step), axis.in);
  } else if (axis.out == axis.in) {
    at = i;
  } else if (axis.out == 2 * axis.in) {
    at = i / 2;
  } else {
    at = resampled_index(floorf(static_cast<float>(i) * step), axis.in);
  }
  return clamp_to_axis(at, axis.in);
}

// Between `first` and `second`, which may be the same, by `rest` of 0 to 1.
template <class T>
struct BetweenInputs {
  dim_t first, second;
  T rest;
};

template <class T>
inline BetweenInputs<T> between_inputs(const ResampleAxis& axis, T step, dim_t i) {
  T source = axis.in == axis.out ? static_cast<T>(i) : resampled_position(axis, step, i);
  if (source < 0) source = 0;
  const dim_t first = clamp_to_axis(resampled_index(source, axis.in), axis.in);
  const T rest = source - static_cast<T>(first);
  return {first, clamp_to_axis(first + 1, axis.in), rest > 1 ? T(1) : rest};
}

}  // namespace penlight
