// Sum, and sum of squared distances, of a row: the statistics of normalisation.
//
// Blocks are summed in vectors of T and the blocks in double, so that rows of a
// million elements keep their last digits.
#pragma once

#include <penlight/kernel.h>

#include "vector.h"

namespace penlight::portable {

constexpr dim_t kMomentBlock = 512;

// The sum of f(x[i]), f given for a vector and for one element.
template <class T, class VectorFn, class Fn>
double sum_of(const T* x, dim_t count, VectorFn&& of_vector, Fn&& of_one) {
  constexpr int lanes = VectorOf<T>::lanes;
  double total = 0;
  for (dim_t begin = 0; begin < count; begin += kMomentBlock) {
    const dim_t end = count - begin < kMomentBlock ? count : begin + kMomentBlock;
    Vector<T> sums{};
    dim_t i = begin;
    for (; i + lanes <= end; i += lanes) sums += of_vector(load_vector(x + i));
    T sum = sum_lanes<T>(sums);
    for (; i < end; ++i) sum += of_one(x[i]);
    total += static_cast<double>(sum);
  }
  return total;
}

template <class T>
double row_sum(const T* x, dim_t count) {
  return sum_of(x, count, [](Vector<T> v) { return v; }, [](T v) { return v; });
}

// The sum of (x[i] - center)^2.
template <class T>
double row_square_sum(const T* x, dim_t count, T center) {
  const Vector<T> centers = splat(center);
  return sum_of(
      x, count, [&](Vector<T> v) { return (v - centers) * (v - centers); },
      [&](T v) { return (v - center) * (v - center); });
}

}  // namespace penlight::portable
