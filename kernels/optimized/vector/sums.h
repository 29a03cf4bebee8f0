// Sums over rows of any length that keep the digits of float32.
#pragma once

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

// Elements that are summed in float32, in as many sums as a vector has lanes; the sums of
// longer rows' pieces are added in double.
constexpr ptrdiff_t kPiece = 1024;

// Sum of term(x) over a row. `term` of the lanes past the end is not counted.
template <class Term>
PENLIGHT_INLINE double sum_of(const float* x, ptrdiff_t count, Term&& term) {
  double total = 0;
  for (ptrdiff_t begin = 0; begin < count; begin += kPiece) {
    const ptrdiff_t end = min_of(begin + kPiece, count);
    Floats sums[4] = {};
    ptrdiff_t i = begin;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
      repeat<4>([&](auto u) __attribute__((always_inline)) { sums[u] += term(load(x + i + u * kLanes)); });
    }
    for (; i + kLanes <= end; i += kLanes) sums[0] += term(load(x + i));
    if (i < end) sums[1] += first_lanes(term(load_some(x + i, end - i)), end - i);
    total += static_cast<double>(sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])));
  }
  return total;
}

// Sum of term(x) over `count` elements, `step` apart, that is too large for float32, or no number.
template <class Term>
PENLIGHT_INLINE double sum_in_double(const float* x, ptrdiff_t count, ptrdiff_t step, Term&& term) {
  double total = 0;
  for (ptrdiff_t i = 0; i < count; ++i) total += term(static_cast<double>(x[i * step]));
  return total;
}

// Of a row that is not empty, from how far all of its numbers together are from the first.
PENLIGHT_INLINE double mean_from(const float* x, ptrdiff_t count, double apart) {
  const double mean = x[0] + apart / static_cast<double>(count);
  if (mean - mean == 0.0) return mean;
  const auto same = [](double v) { return v; };
  return sum_in_double(x, count, 1, same) / static_cast<double>(count);
}

// Of a row that is not empty: by how far its numbers are from the first, so that the mean of equal ones is
// that number, and of large ones that are close together has all digits.
PENLIGHT_INLINE double mean_of(const float* x, ptrdiff_t count) {
  const Floats first = splat(x[0]);
  const auto apart = [&](Floats v) __attribute__((always_inline)) { return v - first; };
  return mean_from(x, count, sum_of(x, count, apart));
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
