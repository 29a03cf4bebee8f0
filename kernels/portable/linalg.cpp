// Factorisations of small matrices: LU, Cholesky, and what is solved with them.
//
// In double whatever the dtype, matrix by matrix, each copied into scratch.
#include "kernels/common/matrices.h"

namespace penlight::portable {

namespace {

// Factorises `a` in place with the largest pivot of each column; pivots count from 1.
// The number of the first pivot that is 0, or 0.
int64_t factorise(double* a, dim_t rows, dim_t columns, int64_t* pivots, bool search = true) {
  int64_t info = 0;
  for (dim_t k = 0; k < rows && k < columns; ++k) {
    dim_t best = k;
    for (dim_t i = k + 1; i < rows && search; ++i) {
      if (math::fabs(a[i * columns + k]) > math::fabs(a[best * columns + k])) best = i;
    }
    pivots[k] = best + 1;
    swap_rows(a, columns, k, best);
    const double pivot = a[k * columns + k];
    if (pivot == 0) {
      if (info == 0) info = k + 1;
      continue;
    }
    for (dim_t i = k + 1; i < rows; ++i) {
      const double factor = a[i * columns + k] /= pivot;
      for (dim_t j = k + 1; j < columns; ++j) a[i * columns + j] -= factor * a[k * columns + j];
    }
  }
  return info;
}

// x = inverse(triangle of a) x, for `columns` right-hand sides side by side.
void solve_triangle(const double* a, dim_t n, bool upper, bool unit, double* x, dim_t columns) {
  for (dim_t step = 0; step < n; ++step) {
    const dim_t i = upper ? n - 1 - step : step;
    for (dim_t c = 0; c < columns; ++c) {
      double value = x[i * columns + c];
      for (dim_t j = upper ? i + 1 : 0; j < (upper ? n : i); ++j) value -= a[i * n + j] * x[j * columns + c];
      x[i * columns + c] = unit ? value : value / a[i * n + i];
    }
  }
}

void solve_factorised(const double* lu, dim_t n, const int64_t* pivots, double* x, dim_t columns) {
  for (dim_t k = 0; k < n; ++k) swap_rows(x, columns, k, static_cast<dim_t>(pivots[k]) - 1);
  solve_triangle(lu, n, false, true, x, columns);
  solve_triangle(lu, n, true, false, x, columns);
}

// The same with the solution on the other side of the matrix: `solve` is of the transposed matrix then.
template <class Solve>
void solve_from(bool left, dim_t n, dim_t columns, double* x, double* spare, Solve&& solve) {
  if (left) return solve(x);
  transpose(x, columns, n, spare);
  solve(spare);
  transpose(spare, n, columns, x);
}

// The determinant: by itself, and as a sign and a logarithm.
struct Determinant {
  double product, sign = 1, log = 0;

  // Of the factors that replace the matrix.
  Determinant(double* a, dim_t n, int64_t* pivots) {
    factorise(a, n, n, pivots);
    for (dim_t k = 0; k < n; ++k) sign = pivots[k] == k + 1 ? sign : -sign;
    product = sign;
    for (dim_t k = 0; k < n; ++k) {
      const double d = a[k * n + k];
      product *= d;
      log += math::log(math::fabs(d));
      sign *= d == 0 ? 0 : math::is_nan(d) ? d : math::copysign(1.0, d);
    }
  }
};

// ATen factorises rows as if they were columns: the determinant is the same.
void copy_by_columns(const Tensor& a, const double* from, dim_t n, double* to) {
  if (a.is_contiguous()) return transpose(from, n, n, to);
  memcpy(to, from, static_cast<size_t>(n * n) * sizeof(double));
}

void check_singular(KernelContext& ctx, int64_t info, bool check_errors) {
  if (info != 0 && check_errors)
    ctx.fail(Status::KernelFailed, "the matrix has no inverse: pivot {} is 0", info);
}

}  // namespace

// Of each matrix the factors, and what put(determinant) makes of them.
template <class Put>
static void write_determinants(Batch& batch, const Tensor& A, Tensor& LU, Tensor& pivots, Put&& put) {
  const dim_t n = A.size(-1);
  double *a = batch.read(A), *lu = batch.write(LU, {n, n});
  int64_t* order = batch.write<int64_t>(pivots, {n});
  batch.for_each([&] {
    copy_by_columns(A, a, n, lu);
    put(Determinant(lu, n, order));
  });
}

void linalg_det_result(KernelContext& ctx, const Tensor& A, Tensor& result, Tensor& LU, Tensor& pivots) {
  if (!check_square(ctx, A)) return;
  Batch batch(ctx, A);
  double* product = batch.write(result);
  write_determinants(batch, A, LU, pivots, [&](const Determinant& of) { *product = of.product; });
}

void linalg_slogdet_sign(KernelContext& ctx, const Tensor& A, Tensor& sign, Tensor& logabsdet, Tensor& LU,
                         Tensor& pivots) {
  if (!check_square(ctx, A)) return;
  Batch batch(ctx, A);
  double *sign_of = batch.write(sign), *log_of = batch.write(logabsdet);
  write_determinants(batch, A, LU, pivots, [&](const Determinant& of) {
    *sign_of = of.sign;
    *log_of = of.log;
  });
}

void linalg_inv_ex_inverse(KernelContext& ctx, const Tensor& A, bool check_errors, Tensor& inverse,
                           Tensor& info) {
  if (!check_square(ctx, A)) return;
  const dim_t n = A.size(-1);
  Batch batch(ctx, A);
  double *a = batch.read(A), *x = batch.write(inverse, {n, n});
  int64_t *singular = batch.write<int64_t>(info), *order = scratch<int64_t>(ctx, n);
  batch.for_each([&] {
    *singular = factorise(a, n, n, order);
    check_singular(ctx, *singular, check_errors);
    set_identity(x, n, n);
    solve_factorised(a, n, order, x, n);
  });
}

// B is a batch of matrices, or of vectors when it has the batch's sizes and one dimension more.
void linalg_solve_ex_result(KernelContext& ctx, const Tensor& A, const Tensor& B, bool left,
                            bool check_errors, Tensor& result, Tensor& LU, Tensor& pivots, Tensor& info) {
  if (!check_square(ctx, A)) return;
  const dim_t n = A.size(-1), dims = A.dim() - 2;
  const bool vector = B.dim() == A.dim() - 1;
  if (!check(ctx, left || !vector, "a vector is solved for on the right") ||
      !check(ctx, vector || B.dim() == A.dim(), "the right-hand side has another number of dimensions"))
    return;
  const bool fits = B.size(left || vector ? dims : dims + 1) == n && same_batch(A, B, dims);
  const dim_t columns = vector ? 1 : left ? B.size(-1) : B.size(-2);
  if (!check(ctx, fits, "the right-hand side does not have the sizes of the matrices")) return;
  Batch batch(ctx, A);
  double *a = batch.read(A), *b = batch.read(B), *lu = batch.write(LU, {n, n}), *turned = scratch(ctx, n, n);
  double* x = batch.write(result, B.sizes().slice(static_cast<size_t>(dims), vector ? 1 : 2));
  double* spare = scratch(ctx, n, columns);
  int64_t *order = batch.write<int64_t>(pivots, {n}), *singular = batch.write<int64_t>(info);
  int64_t* turned_order = scratch<int64_t>(ctx, n);
  batch.for_each([&] {
    memcpy(lu, a, static_cast<size_t>(n * n) * sizeof(double));
    memcpy(x, b, static_cast<size_t>(n * columns) * sizeof(double));
    *singular = factorise(lu, n, n, order);
    check_singular(ctx, *singular, check_errors);
    if (left) return solve_factorised(lu, n, order, x, columns);
    // X A = B is the transposed system, whose factors are the transposed ones.
    transpose(a, n, n, turned);
    factorise(turned, n, n, turned_order);
    solve_from(left, n, columns, x, spare,
               [&](double* y) { solve_factorised(turned, n, turned_order, y, columns); });
  });
}

void linalg_cholesky_ex_l(KernelContext& ctx, const Tensor& self, bool upper, bool check_errors, Tensor& L,
                          Tensor& info) {
  if (!check_square(ctx, self)) return;
  const dim_t n = self.size(-1);
  Batch batch(ctx, self);
  double *a = batch.read(self), *factor = batch.write(L, {n, n}), *l = scratch(ctx, n, n);
  int64_t* failed = batch.write<int64_t>(info);
  // Only the triangle that is asked for is read.
  const dim_t row = upper ? 1 : n, column = upper ? n : 1;
  batch.for_each([&] {
    *failed = 0;
    for (dim_t r = 0; r < n; ++r) {
      for (dim_t c = 0; c < n; ++c) {
        double sum = a[r * row + c * column];
        for (dim_t k = 0; k < c && c <= r; ++k) sum -= l[r * n + k] * l[c * n + k];
        if (c == r && !(sum > 0) && *failed == 0) *failed = r + 1;
        l[r * n + c] = c > r ? 0 : c == r ? math::sqrt(sum) : sum / l[c * n + c];
        factor[r * row + c * column] = l[r * n + c];
      }
    }
    if (*failed && check_errors)
      ctx.fail(Status::KernelFailed, "the matrix is not positive-definite: minor {}", *failed);
  });
}

void linalg_solve_triangular_out(KernelContext& ctx, const Tensor& self, const Tensor& B, bool upper,
                                 bool left, bool unitriangular, Tensor& out) {
  if (!check_square(ctx, self) ||
      !check(ctx, B.dim() == self.dim(), "matrices and right-hand sides differ in rank"))
    return;
  const dim_t n = self.size(-1), columns = left ? B.size(-1) : B.size(-2);
  const bool fits = B.size(left ? -2 : -1) == n && same_batch(self, B, self.dim() - 2);
  if (!check(ctx, fits, "the right-hand side does not have the sizes of the matrices")) return;
  Batch batch(ctx, self);
  double *given = batch.read(self), *b = batch.read(B), *x = batch.write(out, {B.size(-2), B.size(-1)});
  double *a = scratch(ctx, n, n), *spare = scratch(ctx, n, columns);
  batch.for_each([&] {
    transpose(given, n, n, a);
    memcpy(x, b, static_cast<size_t>(n * columns) * sizeof(double));
    solve_from(left, n, columns, x, spare, [&](double* y) {
      solve_triangle(left ? given : a, n, upper == left, unitriangular, y, columns);
    });
  });
}

void linalg_lu_factor_ex_out(KernelContext& ctx, const Tensor& A, bool pivot, bool check_errors, Tensor& LU,
                             Tensor& pivots, Tensor& info) {
  if (!check_matrices(ctx, A)) return;
  const dim_t m = A.size(-2), n = A.size(-1), k = m < n ? m : n;
  Batch batch(ctx, A);
  double *a = batch.read(A), *lu = batch.write(LU, {m, n});
  int64_t *order = batch.write<int64_t>(pivots, {k}), *singular = batch.write<int64_t>(info);
  batch.for_each([&] {
    memcpy(lu, a, static_cast<size_t>(m * n) * sizeof(double));
    *singular = factorise(lu, m, n, order, pivot);
    check_singular(ctx, *singular, check_errors);
  });
}

// The rows' order as a matrix, and the two triangles; what is not asked for is empty.
void lu_unpack_out(KernelContext& ctx, const Tensor& LU_data, const Tensor& LU_pivots, bool unpack_data,
                   bool unpack_pivots, Tensor& P, Tensor& L, Tensor& U) {
  if (!check_matrices(ctx, LU_data)) return;
  const dim_t m = LU_data.size(-2), n = LU_data.size(-1), k = m < n ? m : n, dims = LU_data.dim() - 2;
  const bool fits =
      LU_pivots.dim() == dims + 1 && LU_pivots.size(-1) == k && same_batch(LU_pivots, LU_data, dims);
  if (!check(ctx, fits, "there is one pivot for each row or column of the shorter side")) return;
  Batch batch(ctx, LU_data);
  double *a = batch.read(LU_data), *permutation = batch.write(P, {m, m}, unpack_pivots);
  double *lower = batch.write(L, {m, k}, unpack_data), *upper = batch.write(U, {k, n}, unpack_data);
  int64_t* order = batch.read<int64_t>(LU_pivots);
  batch.for_each([&] {
    set_identity(permutation, m, m);
    // Columns of the identity change places in the reverse order of the rows.
    for (dim_t r = unpack_pivots ? k : 0; r-- > 0;) {
      if (!check(ctx, order[r] >= 1 && order[r] <= m, "a pivot is not the number of a row")) return;
      swap_rows(permutation, m, r, static_cast<dim_t>(order[r]) - 1);
    }
    for (dim_t r = 0; r < m; ++r) {
      for (dim_t c = 0; c < k; ++c) lower[r * k + c] = c < r ? a[r * n + c] : c == r ? 1 : 0;
    }
    for (dim_t r = 0; r < k; ++r) {
      for (dim_t c = 0; c < n; ++c) upper[r * n + c] = c < r ? 0 : a[r * n + c];
    }
  });
}

// By scaling until the series converges at once, and squaring what comes of it.
void linalg_matrix_exp_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!check_square(ctx, self)) return;
  const dim_t n = self.size(-1);
  const auto multiply = [n](const double* a, const double* b, double factor, double* result) {
    for (dim_t r = 0; r < n; ++r) {
      for (dim_t c = 0; c < n; ++c) {
        double sum = 0;
        for (dim_t k = 0; k < n; ++k) sum += a[r * n + k] * b[k * n + c];
        result[r * n + c] = sum * factor;
      }
    }
  };
  Batch batch(ctx, self);
  double *a = batch.read(self), *x = batch.write(out, {n, n});
  double *term = scratch(ctx, n, n), *product = scratch(ctx, n, n);
  batch.for_each([&] {
    double norm = 0;
    for (dim_t r = 0; r < n; ++r) {
      double row = 0;
      for (dim_t c = 0; c < n; ++c) row += math::fabs(a[r * n + c]);
      if (row > norm) norm = row;
    }
    int squarings = 0;
    for (; norm > 0.5 && squarings < 1100; norm /= 2) ++squarings;
    const double scale = math::exp2(static_cast<double>(-squarings));
    for (dim_t k = 0; k < n * n; ++k) a[k] *= scale;
    set_identity(x, n, n);
    set_identity(term, n, n);
    for (int order = 1; order <= 14; ++order) {
      multiply(term, a, 1.0 / order, product);
      for (dim_t k = 0; k < n * n; ++k) x[k] += term[k] = product[k];
    }
    for (; squarings > 0; --squarings) {
      multiply(x, x, 1, product);
      memcpy(x, product, static_cast<size_t>(n * n) * sizeof(double));
    }
  });
}

}  // namespace penlight::portable
