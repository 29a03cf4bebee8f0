// What is done to a vector of finished sums before it is stored.
#pragma once

#include "functions.h"
#include "routines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

struct Bounds {
  Floats low, high;
};

template <Activation activation, class F>
PENLIGHT_INLINE F activated(F x, const Bounds& bounds) {
  const F zero = splat(0.0f);
  if constexpr (activation == Activation::Relu) return at_least(x, zero);
  if constexpr (activation == Activation::Clamp) return at_most(at_least(x, F(bounds.low)), F(bounds.high));
  if constexpr (activation == Activation::Sigmoid) return sigmoid_of(x);
  if constexpr (activation == Activation::Tanh) return tanh_of(x);
  if constexpr (activation == Activation::Silu) return times_sigmoid(x, x);
  if constexpr (activation == Activation::Gelu) return gelu_of(x);
  if constexpr (activation == Activation::GeluTanh) {
    // (1 + tanh(y)) / 2 is the sigmoid function of 2 y.
    return times_sigmoid(x, x * (splat(1.59576912f) + splat(0.0713548163f) * (x * x)));
  }
  if constexpr (activation == Activation::HardSigmoid || activation == Activation::HardSwish) {
    const F gate = at_most(at_least(x + splat(3.0f), zero), F(splat(6.0f)));
    // In this order a hardswish overflows where PyTorch's does.
    return (activation == Activation::HardSwish ? x * gate : gate) * splat(1.0f / 6.0f);
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

// Does an activation only bound a sum, if that? Between which numbers: nothing is below or above what is
// infinite.
PENLIGHT_INLINE bool is_bounded(const Epilogue& epilogue) {
  const Activation which = epilogue.activation;
  return which == Activation::None || which == Activation::Relu || which == Activation::Clamp;
}
PENLIGHT_INLINE Bounds bounds_of(const Epilogue& epilogue) {
  const bool clamps = epilogue.activation == Activation::Clamp;
  const float least = epilogue.activation == Activation::Relu ? 0.0f : -__builtin_inff();
  return {splat(clamps ? epilogue.low : least), splat(clamps ? epilogue.high : __builtin_inff())};
}

// Any activation, of values in memory: those that take longer than storing and loading them.
template <int count>
__attribute__((noinline)) void activate_in_memory(const Epilogue& epilogue, Floats* values) {
  const Bounds bounds = {splat(epilogue.low), splat(epilogue.high)};
  with_activation(epilogue.activation, [&](auto which) __attribute__((always_inline)) {
    constexpr Activation chosen = static_cast<Activation>(static_cast<int>(decltype(which)()));
    const auto of = [&](auto x) __attribute__((always_inline)) { return activated<chosen>(x, bounds); };
    constexpr int kWhole = kByFours ? count / 4 * 4 : 0;
    float* const first = reinterpret_cast<float*>(values);
    apply_together(first, kLanes, first, kWhole * kLanes, of);
    for (int i = kWhole; i < count; ++i) values[i] = of(values[i]);
  });
}

// The activation of `count` sums, of which `sum(Index<k>())` is one. They stay in registers for
// the usual ones.
template <int count, class Sum>
PENLIGHT_INLINE void activate(const Epilogue& epilogue, Sum&& sum) {
  if (!kFewTiles) {  // small builds have one way for the three that bound a sum, if that
    if (epilogue.activation == Activation::None) return;
    if (epilogue.activation == Activation::Relu) {
      repeat<count>([&](auto k) __attribute__((always_inline)) {
        sum(k) = activated<Activation::Relu>(sum(k), Bounds{});
      });
      return;
    }
  }
  if (is_bounded(epilogue)) {
    const Bounds bounds = bounds_of(epilogue);
    repeat<count>([&](auto k) __attribute__((always_inline)) {
      sum(k) = activated<Activation::Clamp>(sum(k), bounds);
    });
    return;
  }
  if constexpr (is_compiled(Activation::HardSwish)) {
    if (epilogue.activation == Activation::HardSwish) {
      repeat<count>([&](auto k) __attribute__((always_inline)) {
        sum(k) = activated<Activation::HardSwish>(sum(k), Bounds{});
      });
      return;
    }
  }
  Floats values[count];  // not the sums: an address of theirs would keep them in memory always
  repeat<count>([&](auto k) __attribute__((always_inline)) { values[k] = sum(k); });
  activate_in_memory<count>(epilogue, values);
  repeat<count>([&](auto k) __attribute__((always_inline)) { sum(k) = values[k]; });
}

// Where the finished sums of a tile go; its residual begins where its output does.
struct Finish {
  float* output;
  ptrdiff_t pitch, columns;  // elements from row to row; how many columns exist
  Epilogue epilogue;
};

// Calls body(row, vector) for the first `stored` rows.
template <int rows, int vectors, class Body>
PENLIGHT_INLINE void each_stored(ptrdiff_t stored, Body&& body) {
  repeat<rows>([&](auto i) __attribute__((always_inline)) {
    if (i < stored) repeat<vectors>([&](auto v) __attribute__((always_inline)) { body(i, v); });
  });
}

// Stores the sums of rows [row, row + stored) as they are.
template <int rows, int vectors>
PENLIGHT_INLINE void store_tile(const Finish& f, ptrdiff_t row, ptrdiff_t stored,
                                Floats (&sums)[rows][vectors]) {
  const ptrdiff_t pitch = f.pitch, columns = f.columns;  // no store can change these
  float* const output = f.output + row * pitch;
  if (columns >= vectors * kLanes && stored == rows) {
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      repeat<vectors>(
          [&](auto v) __attribute__((always_inline)) { store(output + i * pitch + v * kLanes, sums[i][v]); });
    });
  } else {
    each_stored<rows, vectors>(stored, [&](auto i, auto v) __attribute__((always_inline)) {
      store_part(output + i * pitch + v * kLanes, sums[i][v], columns - v * kLanes);
    });
  }
}

// Adds the residual, applies the activation, stores.
template <int rows, int vectors>
PENLIGHT_INLINE void finish_tile(const Finish& f, ptrdiff_t row, ptrdiff_t stored,
                                 Floats (&sums)[rows][vectors]) {
  if (f.epilogue.residual) {
    const float* residual = f.epilogue.residual + row * f.pitch;
    each_stored<rows, vectors>(stored, [&](auto i, auto v) __attribute__((always_inline)) {
      sums[i][v] += load_part(residual + i * f.pitch + v * kLanes, f.columns - v * kLanes);
    });
  }
  activate<rows * vectors>(f.epilogue, [&](auto k) __attribute__((always_inline)) -> Floats& {
    return sums[k / vectors][k % vectors];
  });
  store_tile(f, row, stored, sums);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
