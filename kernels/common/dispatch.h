// What kernels of ours add to penlight/dispatch.h.
#pragma once

#include <penlight/kernel.h>

// PENLIGHT_SMALL=1: one way through each kernel, the smallest, where there are faster
// ones beside it. For boards whose flash counts for more than time.
#ifndef PENLIGHT_SMALL
#define PENLIGHT_SMALL 0
#endif

namespace penlight {

constexpr bool kSmallCode = PENLIGHT_SMALL != 0;

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
