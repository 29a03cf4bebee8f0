// Sum, and sum of squared distances, of a row: the statistics of normalisation.
//
// Blocks are summed in vectors of T and the blocks in double, so that rows of a
// million elements keep their last digits.
#pragma once

#include "vector.h"

namespace penlight::portable {

constexpr dim_t kMomentBlock = 512;

// The sum of f(x[i] - center), f given a vector or one element.
template <class T, class Fn>
double sum_of(const T* x, dim_t count, T center, Fn&& fn) {
  constexpr int lanes = VectorOf<T>::lanes;
  const Vector<T> centers = splat(center);
  double total = 0;
  for (dim_t begin = 0; begin < count; begin += kMomentBlock) {
    const dim_t end = count - begin < kMomentBlock ? count : begin + kMomentBlock;
    Vector<T> sums{};
    dim_t i = begin;
    for (; i + lanes <= end; i += lanes) sums += fn(load_vector(x + i) - centers);
    T sum = sum_lanes<T>(sums);
    for (; i < end; ++i) sum += fn(x[i] - center);
    total += static_cast<double>(sum);
  }
  return total;
}

template <class T>
double row_sum(const T* x, dim_t count) {
  return sum_of(x, count, T(0), [](auto v) { return v; });
}

// The sum of (x[i] - center)^2.
template <class T>
double row_square_sum(const T* x, dim_t count, T center) {
  return sum_of(x, count, center, [](auto v) { return v * v; });
}

}  // namespace penlight::portable
