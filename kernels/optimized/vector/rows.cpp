// Normalisation of each row of a matrix.
#include "routines.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

void finish_row(const NormRows& p, const float* x, float* out, float mean, float rstd) {
  const Floats means = splat(mean), factors = splat(rstd);
  for (ptrdiff_t i = 0; i < p.count; i += kLanes) {
    const ptrdiff_t left = p.count - i;
    Floats value = (load_part(x + i, left) - means) * factors;
    if (p.weight) value *= load_part(p.weight + i, left);
    if (p.bias) value += load_part(p.bias + i, left);
    store_part(out + i, value, left);
  }
}

}  // namespace

void norm_rows(const NormRows& p) {
  // Several rows at once: the steps of one wait for each other, those of several do not.
  constexpr ptrdiff_t kTogether = 4;
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
      finish_row(p, x + j * p.count, p.output + (first + j) * p.count, means[j], rstds[j]);
      if (p.means) p.means[first + j] = means[j];
      if (p.rstds) p.rstds[first + j] = rstds[j];
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
