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

namespace detail {

// Never defined: only their types count.
float compute_type(float);
float compute_type(Half);
float compute_type(BFloat16);
double compute_type(double);
template <class Integer>
int64_t compute_type(Integer);

}  // namespace detail

// The type sums and products of T are made in: float for 16-bit floats, int64
// for integers (wrap-around modulo a power of two survives the narrowing store).
template <class T>
using Compute = decltype(detail::compute_type(T()));

}  // namespace penlight
