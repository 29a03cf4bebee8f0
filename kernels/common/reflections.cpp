#include "reflections.h"

namespace penlight {

// An update by one reflection waits for the next one's vector: both then pass over the matrix together.

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

void reduce_to_triangle(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, double* tau,
                        double* spare) {
  const dim_t steps = rows < columns ? rows : columns;
  // What waits: rows from the last step's on lose v times w.
  double *v = spare, *next = v + rows, *w = next + rows, *sums = w + columns;
  set_zeros(spare, 2 * rows + 2 * columns);
  for (dim_t k = 0; k < steps; ++k) {
    double* const corner = a + k * columns + k;
    const dim_t below = rows - k, right = columns - k - 1;
    const double* const waiting = k > 0 ? v + 1 : v;
    for (dim_t i = 0; i < below; ++i) next[i] = corner[i * columns] - waiting[i] * w[0];
    double beta;
    tau[k] = find_reflection(loops, next, below, beta);
    corner[0] = beta;
    for (dim_t i = 1; i < below; ++i) corner[i * columns] = next[i];
    if (right == 0) continue;
    set_zeros(sums, right);
    RowUpdate update = {};
    update.a = {corner + 1, columns};
    update.rows = below;
    update.columns = right;
    update.p = {waiting, 1};
    update.first = w + 1;
    update.with = {next, 1};
    update.sums = sums;
    loops.update(update);
    for (dim_t c = 0; c < right; ++c) {
      sums[c] *= tau[k];
      corner[1 + c] -= sums[c];
    }
    swap_pointers(v, next);
    swap_pointers(w, sums);
  }
}

void expand_reflections(const DenseLoops& loops, const Reflections& reflections, Rows q, dim_t rows,
                        dim_t columns, double* spare) {
  for (dim_t i = 0; i < rows; ++i) set_zeros(q.data + i * q.stride, columns);
  for (dim_t i = 0; i < rows && i < columns; ++i) q.data[i * q.stride + i] = 1;
  double *v = spare, *next = v + rows, *w = next + rows, *sums = w + columns;
  RowUpdate update = {};
  for (dim_t k = reflections.count; k-- > 0;) {
    const double* const from = reflections.data + k * reflections.next;
    const dim_t below = rows - k, right = columns - k;
    next[0] = 1;
    for (dim_t i = 1; i < below; ++i) next[i] = from[i * reflections.step];
    // Row and column k are still those of the identity.
    set_zeros(sums, right);
    sums[0] = 1;
    update.with = {next + 1, 1};
    update.sums = sums + 1;
    if (k + 1 == reflections.count) {
      set_zeros(v, below);
      set_zeros(w, right);
      update.a = {q.data + (k + 1) * q.stride + k + 1, q.stride};
      update.rows = below - 1;
      update.columns = right - 1;
      update.p = {v, 1};
      update.first = w;
    }
    if (update.columns > 0) loops.update(update);
    for (dim_t c = 0; c < right; ++c) sums[c] *= reflections.tau[k];
    swap_pointers(v, next);
    swap_pointers(w, sums);
    update.a = {q.data + k * q.stride + k, q.stride};
    update.rows = below;
    update.columns = right;
    update.p = {v, 1};
    update.first = w;
  }
  update.sums = nullptr;
  if (reflections.count > 0) loops.update(update);
}

}  // namespace penlight
