#include "reflections.h"

namespace penlight {

namespace {

// Numbers below the square of this have fewer digits than others: what cancels twice and thrice may be such.
constexpr double kSmallest = 0x1p-500;

// By squares where these neither overflow nor vanish.
double length_of(const DenseLoops& loops, const double* x, dim_t count) {
  double sum = 0;
  loops.dots({const_cast<double*>(x), 0}, 1, count, x, &sum);
  if (sum > 1e-200 && sum < 1e200) return math::sqrt(sum);
  double length = 0;
  for (dim_t i = 0; i < count; ++i) length = math::hypot(length, x[i]);
  return length;
}

}  // namespace

double find_reflection(const DenseLoops& loops, double* x, dim_t count, double& beta) {
  const double alpha = x[0], below = length_of(loops, x + 1, count - 1);
  x[0] = 1;
  beta = alpha;
  if (below == 0) return 0;
  const double length = math::hypot(alpha, below);
  if (length < kSmallest) {
    x[0] = alpha;
    for (dim_t i = 0; i < count; ++i) x[i] *= 1 / (kSmallest * kSmallest);
    const double tau = find_reflection(loops, x, count, beta);
    beta *= kSmallest * kSmallest;
    return tau;
  }
  beta = alpha > 0 ? -length : length;
  const double divisor = alpha - beta, factor = 1 / divisor;
  const bool by_factor = factor - factor == 0;
  for (dim_t i = 1; i < count; ++i) x[i] = by_factor ? x[i] * factor : x[i] / divisor;
  return (beta - alpha) / beta;
}

// Rows that are reflected together, by all that come before them.
static constexpr dim_t kTogether = 8;

void reduce_to_triangle(const DenseLoops& loops, double* a, dim_t count, dim_t length, double* tau,
                        double* beta) {
  const dim_t steps = count < length ? count : length;
  for (dim_t first = 0; first < count; first += kTogether) {
    const dim_t last = first + kTogether < count ? first + kTogether : count;
    const dim_t known = first < steps ? first : steps;
    loops.reflect({{a + first * length, length}, last - first, length, a, length, tau, known, false});
    for (dim_t k = first; k < last && k < steps; ++k) {
      double* const vector = a + k * length + k;
      tau[k] = find_reflection(loops, vector, length - k, beta[k]);
      loops.reflect({{vector + length, length}, last - k - 1, length - k, vector, length, tau + k, 1, false});
    }
  }
}

void expand_reflections(const DenseLoops& loops, const Reflections& reflections, Rows q, dim_t rows,
                        dim_t length) {
  for (dim_t first = 0; first < rows; first += kTogether) {
    const dim_t last = first + kTogether < rows ? first + kTogether : rows;
    for (dim_t i = first; i < last; ++i) {
      set_zeros(q.data + i * q.stride, length);
      if (i < length) q.data[i * q.stride + i] = 1;
    }
    // Reflections that begin after the 1 of a row leave it.
    const dim_t count = last < reflections.count ? last : reflections.count;
    loops.reflect({{q.data + first * q.stride, q.stride},
                   last - first,
                   length,
                   reflections.data,
                   reflections.stride,
                   reflections.tau,
                   count,
                   true});
  }
}

}  // namespace penlight
