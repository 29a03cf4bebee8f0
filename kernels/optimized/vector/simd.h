// One vector of floats as wide as the instruction set that a file is compiled for.
//
// The files of this folder are compiled once for each instruction set, into a
// namespace of its own. They hold no inline function with a name that other
// files share: the linker would keep one copy of it, perhaps the one that an
// older machine cannot run. So everything here is `static` and always inlined.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PENLIGHT_INLINE static inline __attribute__((always_inline))

namespace penlight::optimized {
namespace PENLIGHT_ISA {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));

PENLIGHT_INLINE Floats load(const float* from) {
  Floats value;
  memcpy(&value, from, sizeof value);
  return value;
}

PENLIGHT_INLINE void store(float* to, Floats value) { memcpy(to, &value, sizeof value); }

// Subtracting zero, not adding it, keeps the sign of -0.
PENLIGHT_INLINE Floats splat(float value) { return value - Floats{}; }
PENLIGHT_INLINE Ints splat_int(int32_t value) { return value - Ints{}; }

// The first `count` lanes; the others are zero, and their memory is not touched.
PENLIGHT_INLINE Floats load_some(const float* from, ptrdiff_t count) {
  float lanes[kLanes] = {};
  for (ptrdiff_t i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
}

PENLIGHT_INLINE void store_some(float* to, Floats value, ptrdiff_t count) {
  float lanes[kLanes];
  store(lanes, value);
  for (ptrdiff_t i = 0; i < count; ++i) to[i] = lanes[i];
}

// Lane by lane where `mask` is set (all bits), from `yes`, else from `no`.
PENLIGHT_INLINE Floats select(Ints mask, Floats yes, Floats no) {
  return (Floats)(((Ints)yes & mask) | ((Ints)no & ~mask));
}

PENLIGHT_INLINE float sum_lanes(Floats value) {
  float lanes[kLanes];
  store(lanes, value);
  // Pairwise, so that the error does not grow with the width.
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}

PENLIGHT_INLINE float max_lanes(Floats value) {
  float lanes[kLanes];
  store(lanes, value);
  float most = lanes[0];
  for (int i = 1; i < kLanes; ++i) most = lanes[i] > most ? lanes[i] : most;
  return most;
}

// A NaN in `x` comes out, as clamp and relu of PyTorch have it.
PENLIGHT_INLINE Floats at_least(Floats x, Floats low) { return select(x < low, low, x); }
PENLIGHT_INLINE Floats at_most(Floats x, Floats high) { return select(x > high, high, x); }

// Index<0>(), Index<1>(), ... unrolled: arrays indexed by these stay in registers.
template <int value>
struct Index {
  constexpr operator int() const { return value; }
};
template <int count, int first = 0, class Body>
PENLIGHT_INLINE void repeat(Body&& body) {
  if constexpr (first < count) {
    body(Index<first>());
    repeat<count, first + 1>(body);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
