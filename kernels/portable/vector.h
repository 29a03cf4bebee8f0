// Sixteen bytes of T at a time, in the compiler's own vector types.
//
// No intrinsics: gcc and clang lower these to SSE, NEON or scalar code, whichever
// the target has. Loads and stores need no alignment.
#pragma once

#include <stdint.h>
#include <string.h>

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

template <class T>
inline T sum_lanes(Vector<T> value) {
  T sum = value[0];
  for (int i = 1; i < VectorOf<T>::lanes; ++i) sum += value[i];
  return sum;
}

}  // namespace penlight::portable
