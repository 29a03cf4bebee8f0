// What is done to a vector of finished sums before it is stored.
#pragma once

#include "functions.h"
#include "routines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

struct Bounds {
  Floats low, high;
};

template <Activation activation>
PENLIGHT_INLINE Floats activated(Floats x, const Bounds& bounds) {
  const Floats zero = splat(0.0f), one = splat(1.0f);
  if constexpr (activation == Activation::Relu) return at_least(x, zero);
  if constexpr (activation == Activation::Clamp) return at_most(at_least(x, bounds.low), bounds.high);
  if constexpr (activation == Activation::Sigmoid) return sigmoid_of(x);
  if constexpr (activation == Activation::Tanh) return tanh_of(x);
  if constexpr (activation == Activation::Silu) return x * sigmoid_of(x);
  if constexpr (activation == Activation::Gelu) {
    return splat(0.5f) * x * (one + erf_of(x * splat(0.707106781f)));
  }
  if constexpr (activation == Activation::GeluTanh) {
    const Floats inner = splat(0.797884561f) * (x + splat(0.044715f) * x * x * x);
    return splat(0.5f) * x * (one + tanh_of(inner));
  }
  if constexpr (activation == Activation::HardSigmoid || activation == Activation::HardSwish) {
    const Floats gate = at_most(at_least(x + splat(3.0f), zero), splat(6.0f)) * splat(1.0f / 6.0f);
    return activation == Activation::HardSwish ? x * gate : gate;
  }
  if constexpr (activation == Activation::LeakyRelu) return select(x < zero, x * bounds.low, x);
  return x;
}

// Calls `body` with the activation as a constant.
template <class Body>
PENLIGHT_INLINE void with_activation(Activation activation, Body&& body) {
  switch (activation) {
#define PENLIGHT_ACTIVATION(name)                        \
  case Activation::name:                                 \
    if constexpr (is_compiled(Activation::name)) {       \
      body(Index<static_cast<int>(Activation::name)>()); \
    }                                                    \
    return;
    PENLIGHT_ACTIVATION(Relu)
    PENLIGHT_ACTIVATION(Clamp)
    PENLIGHT_ACTIVATION(Sigmoid)
    PENLIGHT_ACTIVATION(Tanh)
    PENLIGHT_ACTIVATION(Silu)
    PENLIGHT_ACTIVATION(Gelu)
    PENLIGHT_ACTIVATION(GeluTanh)
    PENLIGHT_ACTIVATION(HardSigmoid)
    PENLIGHT_ACTIVATION(HardSwish)
    PENLIGHT_ACTIVATION(LeakyRelu)
    PENLIGHT_ACTIVATION(None)
#undef PENLIGHT_ACTIVATION
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
