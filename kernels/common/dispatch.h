// What kernels of ours add to penlight/dispatch.h.
#pragma once

#include <penlight/kernel.h>

namespace penlight {

// The type sums and products of T are made in: float for 16-bit floats, int64
// for integers (wrap-around modulo a power of two survives the narrowing store).
template <class T>
struct ComputeOf {
  using type = int64_t;
};
template <>
struct ComputeOf<float> {
  using type = float;
};
template <>
struct ComputeOf<Half> {
  using type = float;
};
template <>
struct ComputeOf<BFloat16> {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

}  // namespace penlight
