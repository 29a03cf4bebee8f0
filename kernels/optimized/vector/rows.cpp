// Normalisation of each row of a matrix.
#include "routines.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// The vector of a row at element `at`, whole or in part. Are there weights, and biases?
template <bool weights, bool biases, bool whole>
PENLIGHT_INLINE void finish_part(const NormRows& p, const float* x, float* out, Floats mean, Floats factor,
                                 ptrdiff_t at) {
  const ptrdiff_t left = whole ? kLanes : p.count - at;
  Floats value = (load_part(x + at, left) - mean) * factor;
  if constexpr (weights) value *= load_part(p.weight + at, left);
  if constexpr (biases) value += load_part(p.bias + at, left);
  store_part(out + at, value, left);
}

template <bool weights, bool biases>
void finish_row(const NormRows& p, const float* x, float* out, float mean, float rstd) {
  const Floats means = splat(mean), factors = splat(rstd);
  ptrdiff_t i = 0;
  for (; i + kLanes <= p.count; i += kLanes) finish_part<weights, biases, true>(p, x, out, means, factors, i);
  if (i < p.count) finish_part<weights, biases, false>(p, x, out, means, factors, i);
}

using FinishRow = void (*)(const NormRows&, const float*, float*, float, float);

FinishRow finish_row_of(const NormRows& p) {
  if (p.weight) return p.bias ? finish_row<true, true> : finish_row<true, false>;
  return p.bias ? finish_row<false, true> : finish_row<false, false>;
}

}  // namespace

void norm_rows(const NormRows& p) {
  // Several rows at once: the steps of one wait for each other, those of several do not.
  constexpr ptrdiff_t kTogether = 4;
  const FinishRow finish = finish_row_of(p);
  const double share = 1.0 / static_cast<double>(p.count);
  for (ptrdiff_t first = p.first_row; first < p.last_row; first += kTogether) {
    const ptrdiff_t rows = min_of(kTogether, p.last_row - first);
    const float* x = p.input + first * p.count;
    float means[kTogether] = {}, rstds[kTogether];
    double variances[kTogether];
    for (ptrdiff_t j = 0; p.centered && j < rows; ++j) {
      means[j] = static_cast<float>(mean_of(x + j * p.count, p.count));
    }
    for (ptrdiff_t j = 0; j < rows; ++j) {
      const Floats mean = splat(means[j]);
      const auto square = [&](Floats v) __attribute__((always_inline)) { return (v - mean) * (v - mean); };
      variances[j] = sum_of(x + j * p.count, p.count, square) * share;
    }
    for (ptrdiff_t j = 0; j < rows; ++j) {
      rstds[j] = static_cast<float>(1.0 / __builtin_sqrt(variances[j] + p.eps));
    }
    for (ptrdiff_t j = 0; j < rows; ++j) {
      finish(p, x + j * p.count, p.output + (first + j) * p.count, means[j], rstds[j]);
      if (p.means) p.means[first + j] = means[j];
      if (p.rstds) p.rstds[first + j] = rstds[j];
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
