#include "factors.h"

namespace penlight {

namespace {

dim_t least(dim_t a, dim_t b) { return a < b ? a : b; }

// Numbers `step` apart, divided by a pivot. The reciprocal of one near zero would be infinite.
void divide(double* x, dim_t step, dim_t count, double pivot) {
  const double factor = 1 / pivot;
  const bool by_factor = factor - factor == 0;
  for (dim_t i = 0; i < count; ++i) x[i * step] = by_factor ? x[i * step] * factor : x[i * step] / pivot;
}

// Rows [first, last) of x = inverse(a) x, that depend on no others any more.
void solve_block(const DenseLoops& loops, const Triangle& a, dim_t first, dim_t last, Rows x, dim_t columns) {
  for (dim_t step = 0; step < last - first; ++step) {
    const dim_t i = a.upper ? last - 1 - step : first + step;
    const dim_t below = a.upper ? first : i + 1, count = a.upper ? i - first : last - i - 1;
    double* const row = x.data + i * x.stride;
    if (!a.unit) divide(row, 1, columns, a.data[i * a.stride + i]);
    if (count == 0) continue;
    RowUpdate update = {};
    update.a = {x.data + below * x.stride, x.stride};
    update.rows = count;
    update.columns = columns;
    update.p = {a.data + below * a.stride + i, a.stride};
    update.first = row;
    loops.update(update);
  }
}

// c -= a b
void subtract_product(const DenseLoops& loops, Rows c, dim_t rows, dim_t columns, dim_t depth,
                      const double* a, dim_t a_stride, const double* b, dim_t b_stride) {
  if (rows > 0 && columns > 0 && depth > 0)
    loops.multiply({c, rows, columns, depth, a, a_stride, 1, b, b_stride, -1});
}

// The first `steps` columns of `a`, with those beside them. Pivots count from 0.
void factorise_panel(const DenseLoops& loops, Rows a, dim_t rows, dim_t columns, dim_t steps, bool search,
                     int64_t* pivots, int64_t& info) {
  for (dim_t k = 0; k < steps; ++k) {
    double *const column = a.data + k, *const row = a.data + k * a.stride;
    dim_t best = k;
    double most = math::fabs(row[k]);
    for (dim_t i = k + 1; i < rows && search; ++i) {
      const double size = math::fabs(column[i * a.stride]);
      if (!(size > most)) continue;
      most = size;
      best = i;
    }
    pivots[k] = best;
    if (best != k) exchange(row, a.data + best * a.stride, columns);
    const double pivot = row[k];
    if (pivot == 0) {
      if (info == 0) info = k + 1;
      continue;
    }
    divide(column + (k + 1) * a.stride, a.stride, rows - k - 1, pivot);
    if (k + 1 == columns || k + 1 == rows) continue;
    RowUpdate update = {};
    update.a = {row + a.stride + k + 1, a.stride};
    update.rows = rows - k - 1;
    update.columns = columns - k - 1;
    update.p = {column + (k + 1) * a.stride, a.stride};
    update.first = row + k + 1;
    loops.update(update);
  }
}

void copy_rows(Rows from, Rows to, dim_t rows, dim_t columns) {
  for (dim_t i = 0; i < rows; ++i)
    memcpy(to.data + i * to.stride, from.data + i * from.stride,
           static_cast<size_t>(columns) * sizeof(double));
}

}  // namespace

int64_t factorise(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, int64_t* pivots,
                  double* spare, bool search) {
  const dim_t steps = least(rows, columns);
  // Below a pivot of 0 that was not searched for there may be others: what takes part in no block.
  const dim_t block = search ? kFactorBlock : steps;
  int64_t info = 0;
  for (dim_t first = 0, last; first < steps; first = last) {
    last = least(first + block, steps);
    const dim_t end = search ? last : columns, rest = columns - end;
    double *const corner = a + first * columns + first, *const below = a + last * columns;
    // Of long columns a copy is factorised: rows that are far from each other do not stay in the cache.
    constexpr dim_t many = 2 * kFactorBlock;
    const bool copied = search && rows - first > many;
    const Rows place = {corner, columns}, panel = copied ? Rows{spare, kFactorBlock} : place;
    if (copied) copy_rows(place, panel, rows - first, last - first);
    int64_t zero = 0;
    factorise_panel(loops, panel, rows - first, end - first, last - first, search, pivots + first, zero);
    if (copied) copy_rows(panel, place, rows - first, last - first);
    if (info == 0 && zero != 0) info = first + zero;
    for (dim_t k = first; k < last; ++k) {
      double *const row = a + k * columns, *const with = row + (pivots[k] + first - k) * columns;
      pivots[k] += first + 1;
      if (row == with) continue;
      exchange(row, with, first);
      exchange(row + end, with + end, rest);
    }
    if (rest == 0) continue;
    const Triangle triangle = {corner, last - first, columns, false, true};
    solve_block(loops, triangle, 0, last - first, {corner + end - first, columns}, rest);
    subtract_product(loops, {below + end, columns}, rows - last, rest, last - first, below + first, columns,
                     corner + end - first, columns);
  }
  return info;
}

void solve_triangle(const DenseLoops& loops, const Triangle& a, Rows x, dim_t columns) {
  for (dim_t done = 0; done < a.n; done += kFactorBlock) {
    const dim_t next = least(done + kFactorBlock, a.n);
    const dim_t first = a.upper ? a.n - next : done, last = a.upper ? a.n - done : next;
    const dim_t known = a.upper ? last : 0;  // the first row that is solved
    subtract_product(loops, {x.data + first * x.stride, x.stride}, last - first, columns, done,
                     a.data + first * a.stride + known, a.stride, x.data + known * x.stride, x.stride);
    solve_block(loops, a, first, last, x, columns);
  }
}

void solve_factorised(const DenseLoops& loops, const double* lu, dim_t n, const int64_t* pivots, double* x,
                      dim_t columns) {
  for (dim_t k = 0; k < n; ++k) swap_rows(x, columns, k, static_cast<dim_t>(pivots[k]) - 1);
  solve_triangle(loops, {lu, n, n, false, true}, {x, columns}, columns);
  solve_triangle(loops, {lu, n, n, true, false}, {x, columns}, columns);
}

void invert_factorised(const DenseLoops& loops, const double* lu, dim_t n, const int64_t* pivots, double* x) {
  set_identity(x, n, n);
  // The inverse of the lower triangle is one: rows end where those of the triangle do.
  const Triangle lower = {lu, n, n, false, true};
  for (dim_t first = 0; first < n; first += kFactorBlock) {
    const dim_t last = least(first + kFactorBlock, n);
    subtract_product(loops, {x + first * n, n}, last - first, first, first, lu + first * n, n, x, n);
    solve_block(loops, lower, first, last, {x, n}, last);
  }
  solve_triangle(loops, {lu, n, n, true, false}, {x, n}, n);
  for (dim_t r = 0; r < n; ++r) {
    double* const row = x + r * n;
    for (dim_t k = n; k-- > 0;) {
      const dim_t with = static_cast<dim_t>(pivots[k]) - 1;
      const double kept = row[k];
      row[k] = row[with];
      row[with] = kept;
    }
  }
}

int64_t factorise_positive(const DenseLoops& loops, double* a, dim_t n, double* spare) {
  int64_t failed = 0;
  for (dim_t first = 0, last; first < n; first = last) {
    last = least(first + kFactorBlock, n);
    for (dim_t k = first; k < last; ++k) {
      double* const column = a + k;
      double& pivot = column[k * n];
      if (!(pivot > 0) && failed == 0) failed = k + 1;
      pivot = math::sqrt(pivot);
      divide(column + (k + 1) * n, n, n - k - 1, pivot);
      if (k + 1 == last) continue;
      double row[kFactorBlock];
      for (dim_t j = k + 1; j < last; ++j) row[j - k - 1] = column[j * n];
      RowUpdate update = {};
      update.a = {column + (k + 1) * n + 1, n};
      update.rows = n - k - 1;
      update.columns = last - k - 1;
      update.p = {column + (k + 1) * n, n};
      update.first = row;
      loops.update(update);
    }
    transpose_part(a + last * n + first, n, n - last, last - first, spare, n);
    // Only as far to the right as the triangle reaches.
    for (dim_t i = last; i < n; i += kFactorBlock) {
      const dim_t end = least(i + kFactorBlock, n);
      subtract_product(loops, {a + i * n + last, n}, end - i, end - last, last - first, a + i * n + first, n,
                       spare, n);
    }
  }
  for (dim_t r = 0; r < n; ++r) {
    for (dim_t c = r + 1; c < n; ++c) a[r * n + c] = 0;
  }
  return failed;
}

}  // namespace penlight
