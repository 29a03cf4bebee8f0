#include "spectrum.h"

namespace penlight {

namespace {

constexpr double kEpsilon = 2.2e-16;
constexpr int kMaxSteps = 60;  // for one value; one or two are usual

void swap_pointers(double*& a, double*& b) {
  double* const kept = a;
  a = b;
  b = kept;
}

// Turns (x, z) into (r, 0); returns r.
struct Turn {
  double c = 1, s = 0;
  double find(double x, double z) {
    const double r = math::sqrt(x * x + z * z);
    c = r > 0 ? x / r : 1;
    s = r > 0 ? z / r : 0;
    return r;
  }
};

// Turns of steps of QR, which wait until there are several steps: these pass over rows together.
constexpr dim_t kSweeps = 16;
constexpr dim_t kTurnRows = 2 * kSweeps + kPanelColumns;
class Turns {
 public:
  // `spare` has room for kTurnRows numbers for each of the rows; those of null are not turned.
  Turns(const DenseLoops& loops, double* rows, dim_t count, dim_t length, double* spare)
      : loops_(loops),
        turned_{{rows, length}, count, length, sweeps_, 0, spare},
        cosines_(spare + kPanelColumns * count),
        sines_(cosines_ + kSweeps * count) {}

  void put(dim_t k, Turn turn) {
    cosines_[turned_.count * turned_.rows + k] = turn.c;
    sines_[turned_.count * turned_.rows + k] = turn.s;
  }
  // After all of the turns of rows `first` to `last`.
  void end_step(dim_t first, dim_t last) {
    if (!turned_.a.data) return;
    const dim_t at = turned_.count * turned_.rows + first;
    sweeps_[turned_.count++] = {first, last - first, cosines_ + at, sines_ + at};
    if (turned_.count == kSweeps) apply();
  }
  void apply() {
    if (turned_.count > 0 && turned_.columns > 0) loops_.turn(turned_);
    turned_.count = 0;
  }

 private:
  const DenseLoops& loops_;
  Sweep sweeps_[kSweeps];
  RowTurns turned_;
  double *cosines_, *sines_;
};

double largest_of(const double* d, const double* e, dim_t n) {
  double largest = 0;
  for (dim_t i = 0; i < n; ++i) {
    if (math::fabs(d[i]) > largest) largest = math::fabs(d[i]);
    if (i + 1 < n && math::fabs(e[i]) > largest) largest = math::fabs(e[i]);
  }
  return largest;
}

// From where to `last` no element beside the diagonal is a rounding error. What is is set to 0.
dim_t block_before(const double* d, double* e, dim_t last, double floor) {
  dim_t first = last;
  for (; first > 0; --first) {
    const double beside = math::fabs(d[first - 1]) + math::fabs(d[first]);
    if (math::fabs(e[first - 1]) > kEpsilon * (beside > floor ? beside : floor)) continue;
    e[first - 1] = 0;
    break;
  }
  return first;
}

// Calls step(first, last) for what is left between zeros of `e`, until all are. False when that takes too
// long.
template <class Step>
bool iterate(double* d, double* e, dim_t n, Step&& step) {
  const double floor = largest_of(d, e, n) * 0.01;
  int steps = 0;
  for (dim_t last = n - 1; last > 0;) {
    const dim_t first = block_before(d, e, last, floor);
    if (first == last) {
      --last;
      steps = 0;
    } else if (++steps > kMaxSteps) {
      return false;
    } else {
      step(first, last);
    }
  }
  return true;
}

// One step of the symmetric matrix with diagonal d and e beside it, shifted by the eigenvalue of the last two
// rows that is nearer to the last element.
void step_symmetric(double* d, double* e, dim_t first, dim_t last, Turns& turns) {
  const double half = (d[last - 1] - d[last]) / 2, beside = e[last - 1];
  const double root = math::hypot(half, beside);
  const double shift = d[last] - beside * (beside / (half + math::copysign(root, half)));
  double x = d[first] - shift, z = e[first];
  Turn turn;
  for (dim_t k = first; k < last; ++k) {
    const double r = turn.find(x, z);
    if (k > first) e[k - 1] = r;
    const double across = turn.s * (d[k + 1] - d[k]) + 2 * turn.c * e[k];
    x = turn.c * across - e[k];
    e[k] = x;
    d[k] += turn.s * across;
    d[k + 1] -= turn.s * across;
    if (k + 1 < last) {
      z = turn.s * e[k + 1];
      e[k + 1] *= turn.c;
    }
    turns.put(k, turn);
  }
}

// One step of the matrix with diagonal d and e above it, turned from the right and from the left.
void step_bidiagonal(double* d, double* e, dim_t first, dim_t last, double shift, Turns& right, Turns& left) {
  const double begin = d[first];
  double x = (math::fabs(begin) - shift) * (math::copysign(1.0, begin) + shift / begin), z = e[first];
  Turn turn;
  for (dim_t k = first; k < last; ++k) {
    const double r = turn.find(x, z);
    if (k > first) e[k - 1] = r;
    right.put(k, turn);
    x = turn.c * d[k] + turn.s * e[k];
    e[k] = turn.c * e[k] - turn.s * d[k];
    z = turn.s * d[k + 1];
    d[k + 1] *= turn.c;
    d[k] = turn.find(x, z);
    left.put(k, turn);
    x = turn.c * e[k] + turn.s * d[k + 1];
    d[k + 1] = turn.c * d[k + 1] - turn.s * e[k];
    e[k] = x;
    if (k + 1 < last) {
      z = turn.s * e[k + 1];
      e[k + 1] *= turn.c;
    }
  }
}

// The same without a shift, and without a subtraction (Demmel & Kahan 1990): small values keep their digits,
// and one that is 0 comes out at the end.
void step_unshifted(double* d, double* e, dim_t first, dim_t last, Turns& right, Turns& left) {
  Turn from_right, from_left;
  for (dim_t k = first; k < last; ++k) {
    const double r = from_right.find(d[k] * from_right.c, e[k]);
    if (k > first) e[k - 1] = from_left.s * r;
    right.put(k, from_right);
    d[k] = from_left.find(from_left.c * r, from_right.s * d[k + 1]);
    left.put(k, from_left);
  }
  const double end = d[last] * from_right.c;
  e[last - 1] = end * from_left.s;
  d[last] = end * from_left.c;
}

// The smaller singular value of the last two rows; 0 where shifting by it would change nothing.
double shift_of(const double* d, const double* e, dim_t first, dim_t last) {
  for (dim_t k = first; k <= last; ++k) {
    if (d[k] == 0) return 0;
  }
  const double f = math::fabs(d[last - 1]), g = e[last - 1], h = math::fabs(d[last]);
  const double larger = (math::sqrt((f + h) * (f + h) + g * g) + math::sqrt((f - h) * (f - h) + g * g)) / 2;
  const double shift = f / larger * h, of_first = shift / d[first];
  return of_first * of_first < kEpsilon ? 0 : shift;
}

// Calls swap(i, j) until values[i] * sign ascend; it exchanges them, and what goes with them.
template <class Swap>
void sort_values(const double* values, dim_t count, double sign, Swap&& swap) {
  for (dim_t i = 0; i < count; ++i) {
    dim_t least = i;
    for (dim_t j = i + 1; j < count; ++j) {
      if (values[j] * sign < values[least] * sign) least = j;
    }
    swap(i, least);
  }
}

// `a` becomes the reflections that leave of it the diagonal d and e beside it, in rows.
void reduce_symmetric(const DenseLoops& loops, double* a, dim_t n, double* d, double* e, double* tau,
                      double* spare) {
  // What waits: from row k on, a loses v w^T + w v^T.
  double *v = spare, *w = v + n, *next = w + n, *sums = next + n;
  set_zeros(spare, 4 * n);
  for (dim_t k = 0; k < n; ++k) {
    double* const row = a + k * n + k;
    const dim_t rest = n - k - 1;
    for (dim_t j = 0; j <= rest; ++j) row[j] -= v[0] * w[j] + w[0] * v[j];
    d[k] = row[0];
    if (rest == 0) return;
    memcpy(next, row + 1, static_cast<size_t>(rest) * sizeof(double));
    tau[k] = find_reflection(loops, next, rest, e[k]);
    memcpy(row + 1, next, static_cast<size_t>(rest) * sizeof(double));
    set_zeros(sums, rest);
    loops.update({{row + n + 1, n}, rest, rest, {v + 1, 1}, w + 1, {w + 1, 1}, v + 1, {next, 1}, sums});
    double common;
    loops.dots({sums, 0}, 1, rest, next, &common);
    common *= tau[k] * tau[k] / 2;
    for (dim_t j = 0; j < rest; ++j) sums[j] = tau[k] * sums[j] - common * next[j];
    swap_pointers(v, next);
    swap_pointers(w, sums);
  }
}

// The diagonal d and e above it are what reflections leave of `a`, which becomes those from the right, in
// rows; those from the left become rows of `left` unless that is null.
void reduce_to_bidiagonal(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, double* d, double* e,
                          double* tau_left, double* tau_right, double* left, double* spare) {
  // What waits: from column k on, a loses v y^T, of which v began a row before, and x u^T.
  double *v = spare, *next_v = v + rows + 1, *x = next_v + rows + 1;
  double *y = x + rows, *u = y + columns, *next_u = u + columns, *sums = next_u + columns;
  set_zeros(spare, 3 * rows + 2 + 4 * columns);
  for (dim_t k = 0; k < columns; ++k) {
    double* const corner = a + k * columns + k;
    const dim_t below = rows - k, right = columns - k - 1;
    for (dim_t i = 0; i < below; ++i) next_v[i] = corner[i * columns] - v[1 + i] * y[0] - x[i] * u[0];
    tau_left[k] = find_reflection(loops, next_v, below, d[k]);
    if (left) memcpy(left + k * rows + k, next_v, static_cast<size_t>(below) * sizeof(double));
    if (right == 0) return;
    set_zeros(sums, right);
    loops.update({{corner + 1, columns}, below, right, {v + 1, 1}, y + 1, {x, 1}, u + 1, {next_v, 1}, sums});
    for (dim_t c = 0; c < right; ++c) {
      sums[c] *= tau_left[k];
      next_u[c] = corner[1 + c] - sums[c];
    }
    tau_right[k] = find_reflection(loops, next_u, right, e[k]);
    memcpy(corner + 1, next_u, static_cast<size_t>(right) * sizeof(double));
    double common;
    loops.dots({sums, 0}, 1, right, next_u, &common);
    loops.dots({corner + columns + 1, columns}, below - 1, right, next_u, x);
    for (dim_t i = 0; i + 1 < below; ++i) x[i] = tau_right[k] * (x[i] - next_v[1 + i] * common);
    swap_pointers(v, next_v);
    swap_pointers(y, sums);
    swap_pointers(u, next_u);
  }
}

// The product of reflections in rows of `a`, right of its diagonal: the first row and column take no part.
void expand_beside_first(const DenseLoops& loops, const double* a, dim_t n, const double* tau, double* v) {
  for (dim_t i = 0; i < n; ++i) v[i] = v[i * n] = i == 0 ? 1 : 0;
  expand_reflections(loops, {a + 1, n, tau, n - 1}, {v + n + 1, n}, n - 1, n - 1);
}

}  // namespace

static_assert(2 + kTurnRows <= eigenvalue_spare(1), "two diagonals and turns have room");
static_assert(7 + 2 * kTurnRows <= singular_spare(0, 1) - 2, "as many, and what waits");

bool diagonalise(const DenseLoops& loops, double* a, dim_t n, double* v, double* values, double* spare) {
  double *e = spare, *tau = e + n, *rest = tau + n;
  if (n == 0) return true;
  reduce_symmetric(loops, a, n, values, e, tau, rest);
  if (v) expand_beside_first(loops, a, n, tau, v);
  Turns turns(loops, v, n, n, rest);
  const bool converges = iterate(values, e, n, [&](dim_t first, dim_t last) {
    step_symmetric(values, e, first, last, turns);
    turns.end_step(first, last);
  });
  turns.apply();
  sort_values(values, n, 1, [=](dim_t i, dim_t j) {
    swap_rows(values, 1, i, j);
    if (v) swap_rows(v, n, i, j);
  });
  return converges;
}

bool decompose(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, dim_t kept, double* u,
               double* v, double* values, double* square, double* spare) {
  const dim_t n = columns;
  double *e = spare, *tau_left = e + n, *tau_right = tau_left + n, *rest = tau_right + n;
  if (n > 0)
    reduce_to_bidiagonal(loops, a, rows, n, values, e, tau_left, tau_right, u ? square : nullptr, rest);
  if (u) expand_reflections(loops, {square, rows, tau_left, n}, {u, rows}, kept, rows);
  if (v && n > 0) expand_beside_first(loops, a, n, tau_right, v);
  Turns right(loops, v, n, n, rest), left(loops, u, n, rows, rest + kTurnRows * n);
  const bool converges = iterate(values, e, n, [&](dim_t first, dim_t last) {
    const double shift = shift_of(values, e, first, last);
    if (shift == 0) {
      step_unshifted(values, e, first, last, right, left);
    } else {
      step_bidiagonal(values, e, first, last, shift, right, left);
    }
    right.end_step(first, last);
    left.end_step(first, last);
  });
  right.apply();
  left.apply();
  for (dim_t i = 0; i < n; ++i) {
    if (!math::is_negative(values[i])) continue;
    values[i] = -values[i];
    for (dim_t j = 0; v && j < n; ++j) v[i * n + j] = -v[i * n + j];
  }
  sort_values(values, n, -1, [=](dim_t i, dim_t j) {
    swap_rows(values, 1, i, j);
    if (u) swap_rows(u, rows, i, j);
    if (v) swap_rows(v, n, i, j);
  });
  return converges;
}

bool decompose_long(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, dim_t kept, double* u,
                    double* v, double* values, double* square, double* spare) {
  const dim_t n = columns;
  double *tau = spare, *beta = tau + n, *triangle = beta + n, *vectors = triangle + n * n;
  double *small = vectors + n * n, *rest = small + n * n;
  reduce_to_triangle(loops, a, n, rows, tau, beta);
  transpose_part(a, rows, n, n, triangle, n);
  for (dim_t i = 0; i < n; ++i) {
    set_zeros(triangle + i * n, i);
    triangle[i * n + i] = beta[i];
  }
  if (!decompose(loops, triangle, n, n, n, u ? vectors : nullptr, v, values, small, rest)) return false;
  if (!u) return true;
  // Left vectors are those of the triangle, in terms of the columns that the reflections give.
  expand_reflections(loops, {a, rows, tau, n}, {square, rows}, kept, rows);
  set_zeros(u, n * rows);
  loops.multiply({{u, rows}, n, rows, n, vectors, n, 1, square, rows, 1});
  memcpy(u + n * rows, square + n * rows, static_cast<size_t>((kept - n) * rows) * sizeof(double));
  return true;
}

}  // namespace penlight
