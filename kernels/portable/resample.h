// Resampling one axis: which inputs, with which weights, make one output.
#pragma once

#include <penlight/kernel.h>

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

// Tables in scratch; all the positions lie inside the input. Null positions when
// there is not enough scratch.
template <class T>
AxisTaps<T> make_axis_taps(KernelContext& ctx, const ResampleAxis& axis, Interpolation kind);

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

}  // namespace penlight::portable
