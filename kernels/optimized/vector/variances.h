// Variances and standard deviations: means first, then squares about them. What loses digits in float32 is
// summed in double.
#pragma once

#include "reduced_columns.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Smaller sums of squares have lost digits in float32.
constexpr double kLeastSquares = 1e-30;

// Stores what `mean`, and the sum of squares about it, make of so many numbers `step` apart.
PENLIGHT_INLINE void store_variance(const Reduce& p, const float* x, ptrdiff_t step, ptrdiff_t to,
                                    double mean, double squares) {
  if (!(squares > kLeastSquares && squares < __builtin_inf())) {
    squares = sum_in_double(x, p.count, step, [&](double v) { return (v - mean) * (v - mean); });
  }
  const double variance = squares / p.divisor;
  p.output[to] =
      static_cast<float>(p.reduction == Reduction::Deviation ? __builtin_sqrt(variance) : variance);
  if (p.means) p.means[to] = static_cast<float>(mean);
}

void variances_of_rows(const Reduce& p) {
  for (ptrdiff_t o = p.first; o < p.last; ++o) {
    const float* x = p.input + o * p.count;
    const double mean = mean_of(x, p.count), count = static_cast<double>(p.count);
    const float near = static_cast<float>(mean);
    const auto apart = [&](Floats v) __attribute__((always_inline)) { return v - near; };
    const auto square = [&](Floats v) __attribute__((always_inline)) { return (v - near) * (v - near); };
    const double off = mean - static_cast<double>(near);
    const double squares = sum_of(x, p.count, square) - count * off * off;
    // Of numbers that are far from the first one, nearer.
    const double wanted = p.means ? static_cast<double>(near) + sum_of(x, p.count, apart) / count : mean;
    store_variance(p, x, 1, o, wanted, squares);
  }
}

// Sums of how far the numbers of each column are from one near them, and of the squares of that.
template <int vectors>
struct ColumnMoments {
  Floats apart[vectors], squares[vectors];
};

template <int vectors>
PENLIGHT_INLINE ColumnMoments<vectors> moments_of_columns(const Reduce& p, const float* x, ptrdiff_t left,
                                                          const Floats* near) {
  ColumnMoments<vectors> totals = {};
  for (ptrdiff_t begin = 0; begin < p.count; begin += kLines) {
    const ptrdiff_t end = min_of(begin + kLines, p.count);
    ColumnMoments<vectors> some = {};
    for (ptrdiff_t i = begin; i < end; ++i) {
      repeat<vectors>([&](auto v) __attribute__((always_inline)) {
        const Floats apart = load_part(x + i * p.inner + v * kLanes, left - v * kLanes) - near[v];
        some.apart[v] += apart;
        some.squares[v] += apart * apart;
      });
    }
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      totals.apart[v] += some.apart[v];
      totals.squares[v] += some.squares[v];
    });
  }
  return totals;
}

// Some vectors of columns, as columns() has them.
template <int vectors>
PENLIGHT_INLINE void variances_of(const Reduce& p, const float* x, ptrdiff_t to, ptrdiff_t left) {
  const double count = static_cast<double>(p.count);
  Floats near[vectors];
  repeat<vectors>(
      [&](auto v) __attribute__((always_inline)) { near[v] = load_part(x + v * kLanes, left - v * kLanes); });
  const ColumnMoments<vectors> about_first = moments_of_columns<vectors>(p, x, left, near);
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    near[v] += about_first.apart[v] * splat(1.0f / static_cast<float>(p.count));
  });
  const ColumnMoments<vectors> found = moments_of_columns<vectors>(p, x, left, near);
  for (ptrdiff_t c = 0; c < min_of(left, vectors * kLanes); ++c) {
    const ptrdiff_t v = c / kLanes, lane = c % kLanes;
    const double apart = static_cast<double>(found.apart[v][lane]) / count;
    const double squares = static_cast<double>(found.squares[v][lane]) - apart * apart * count;
    store_variance(p, x + c, p.inner, to + c, static_cast<double>(near[v][lane]) + apart, squares);
  }
}

void variances_of_columns(const Reduce& p) {
  each_columns(p, [&](auto count, const float* x, float* out, ptrdiff_t left) __attribute__((always_inline)) {
    constexpr int vectors = decltype(count)();
    variances_of<vectors>(p, x, out - p.output, left);
  });
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
