// Sixteen bytes of T at a time, in the compiler's own vector types.
//
// No intrinsics: gcc and clang lower these to SSE, NEON or scalar code, whichever
// the target has. Loads and stores need no alignment.
#pragma once

#include "kernels/common/convert.h"

namespace penlight::portable {

template <class T>
struct VectorOf {
  static constexpr int lanes = 16 / sizeof(T);
  typedef T type __attribute__((vector_size(16)));
};

template <class T>
using Vector = typename VectorOf<T>::type;

template <class T>
inline Vector<T> load_vector(const T* from) {
  Vector<T> value;
  memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
inline void store_vector(T* to, Vector<T> value) {
  memcpy(to, &value, sizeof value);
}

template <class T>
inline Vector<T> splat(T value) {
  return value - Vector<T>{};
}

namespace detail {

// Four 16-bit patterns, each in the low half of a lane.
typedef uint32_t Lanes32 __attribute__((vector_size(16)));
inline Lanes32 load_patterns(const void* from) {
  uint64_t bits;
  memcpy(&bits, from, sizeof bits);
  const uint32_t low = static_cast<uint32_t>(bits), high = static_cast<uint32_t>(bits >> 32);
  const Lanes32 pairs = {low, low >> 16, high, high >> 16};
  return pairs & 0xffffu;
}

}  // namespace detail

// As many elements as a vector of T has, converted from S.
template <class S, class T>
inline Vector<T> load_vector_as(const S* from) {
  if constexpr (same_type<S, T>) {
    return load_vector(from);
  } else if constexpr (same_type<S, BFloat16> && same_type<T, float>) {
    return (Vector<float>)(detail::load_patterns(from) << 16);
  } else if constexpr (same_type<S, Half> && same_type<T, float>) {
    const detail::Lanes32 patterns = detail::load_patterns(from);
    const detail::Lanes32 magnitude = (patterns & 0x7fffu) << 13;
    // Moves the exponent's zero; right for subnormals too. Infinity and NaN keep
    // the largest exponent.
    const auto scaled = (detail::Lanes32)((Vector<float>)magnitude * splat(5.192296858534828e33f));
    const auto special = (detail::Lanes32)(magnitude >= 0x7c00u << 13) & 0x7f800000u;
    return (Vector<float>)(scaled | special | ((patterns & 0x8000u) << 16));
  } else {
    Vector<T> value{};
    for (int i = 0; i < VectorOf<T>::lanes; ++i) value[i] = static_cast<T>(from[i]);
    return value;
  }
}

// body(Index<0>()), body(Index<1>()), ... unrolled: arrays indexed by these stay in
// registers, which loops do not promise at -O2.
template <int value>
struct Index {
  constexpr operator int() const { return value; }
};
template <int count, int first = 0, class Body>
__attribute__((always_inline)) inline void repeat(Body&& body) {
  if constexpr (first < count) {
    body(Index<first>());
    repeat<count, first + 1>(body);
  }
}

// sums[i] += factor * from[i]
template <class S, class T>
inline void add_scaled(const S* from, T factor, ptrdiff_t count, T* sums) {
  constexpr int lanes = VectorOf<T>::lanes;
  const Vector<T> factors = splat(factor);
  ptrdiff_t i = 0;
  for (; i + lanes <= count; i += lanes)
    store_vector(sums + i, load_vector(sums + i) + factors * load_vector_as<S, T>(from + i));
  for (; i < count; ++i) sums[i] += factor * static_cast<T>(from[i]);
}

template <class T>
inline T sum_lanes(Vector<T> value) {
  T sum = value[0];
  for (int i = 1; i < VectorOf<T>::lanes; ++i) sum += value[i];
  return sum;
}

}  // namespace penlight::portable
