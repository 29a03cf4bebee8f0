// Factorisations of small matrices: LU, Cholesky, and what is solved with them.
//
// In double whatever the dtype, matrix by matrix, each copied into scratch.
#include "kernels/common/math.h"
#include "matrices.h"

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

struct Workspace {
  double *a, *x, *y;
  int64_t* pivots;

  // For matrices of n by n and right-hand sides of n by `columns`.
  bool prepare(KernelContext& ctx, dim_t n, dim_t columns) {
    a = scratch(ctx, n, n);
    x = scratch(ctx, n, columns);
    y = scratch(ctx, n, columns > n ? columns : n);
    pivots = scratch<int64_t>(ctx, n);
    return ctx.ok();
  }
};

// The product of the diagonal is given as a sign and a logarithm where that is asked for.
void determinants(KernelContext& ctx, const Tensor& a, Tensor* result, Tensor* sign_out, Tensor* log_out,
                  Tensor& lu, Tensor& pivots) {
  Workspace work;
  if (!check_square(ctx, a) || !ctx.resize(lu, a.sizes()) || !resize_batch(ctx, a, a.size(-1), pivots) ||
      (result && !resize_batch(ctx, a, *result)) || (sign_out && !resize_batch(ctx, a, *sign_out)) ||
      (log_out && !resize_batch(ctx, a, *log_out)) || !work.prepare(ctx, a.size(-1), 0)) {
    return;
  }
  const Matrices from(a), to(lu);
  const dim_t n = a.size(-1), batch = a.dim() - 2;
  for (dim_t i = 0; i < from.count(); ++i) {
    double sign = 1, log = 0;
    // ATen factorises rows as if they were columns: the determinant is the same.
    from.load(i, a.is_contiguous() ? work.y : work.a);
    if (a.is_contiguous()) transpose(work.y, n, n, work.a);
    factorise(work.a, n, n, work.pivots);
    for (dim_t k = 0; k < n; ++k) sign = work.pivots[k] == k + 1 ? sign : -sign;
    double product = sign;
    for (dim_t k = 0; k < n; ++k) {
      const double d = work.a[k * n + k];
      product *= d;
      log += math::log(math::fabs(d));
      sign *= d == 0 ? 0 : math::is_nan(d) ? d : math::copysign(1.0, d);
    }
    to.store(i, work.a);
    store_item_of(pivots, batch, i, work.pivots);
    if (result) store_item_of(*result, batch, i, &product);
    if (sign_out) store_item_of(*sign_out, batch, i, &sign);
    if (log_out) store_item_of(*log_out, batch, i, &log);
  }
}

bool report_singular(KernelContext& ctx, int64_t info, bool check_errors) {
  if (info == 0 || !check_errors) return true;
  return ctx.refuse(Status::KernelFailed, "the matrix has no inverse: pivot {} is 0", info);
}

}  // namespace

void linalg_det_result(KernelContext& ctx, const Tensor& A, Tensor& result, Tensor& LU, Tensor& pivots) {
  determinants(ctx, A, &result, nullptr, nullptr, LU, pivots);
}

void linalg_slogdet_sign(KernelContext& ctx, const Tensor& A, Tensor& sign, Tensor& logabsdet, Tensor& LU,
                         Tensor& pivots) {
  determinants(ctx, A, nullptr, &sign, &logabsdet, LU, pivots);
}

void linalg_inv_ex_inverse(KernelContext& ctx, const Tensor& A, bool check_errors, Tensor& inverse,
                           Tensor& info) {
  Workspace work;
  const dim_t n = A.dim() >= 2 ? A.size(-1) : 0;
  if (!check_square(ctx, A) || !ctx.resize(inverse, A.sizes()) || !resize_batch(ctx, A, info) ||
      !work.prepare(ctx, n, n)) {
    return;
  }
  const Matrices from(A), to(inverse);
  for (dim_t i = 0; i < from.count(); ++i) {
    from.load(i, work.a);
    const int64_t singular = factorise(work.a, n, n, work.pivots);
    if (!report_singular(ctx, singular, check_errors)) return;
    for (dim_t k = 0; k < n * n; ++k) work.x[k] = k % (n + 1) == 0 ? 1 : 0;
    solve_factorised(work.a, n, work.pivots, work.x, n);
    to.store(i, work.x);
    store_item_of(info, A.dim() - 2, i, &singular);
  }
}

// B is a batch of matrices, or of vectors when it has the batch's sizes and one dimension more.
void linalg_solve_ex_result(KernelContext& ctx, const Tensor& A, const Tensor& B, bool left,
                            bool check_errors, Tensor& result, Tensor& LU, Tensor& pivots, Tensor& info) {
  Workspace work;
  if (!check_square(ctx, A)) return;
  const dim_t n = A.size(-1), batch = A.dim() - 2;
  const bool vector = B.dim() == A.dim() - 1;
  if (!check(ctx, left || !vector, "a vector is solved for on the right") ||
      !check(ctx, vector || B.dim() == A.dim(), "the right-hand side has another number of dimensions")) {
    return;
  }
  const bool fits = B.size(left || vector ? batch : batch + 1) == n && same_batch(A, B, batch);
  const dim_t columns = vector ? 1 : left ? B.size(-1) : B.size(-2);
  if (!check(ctx, fits, "the right-hand side does not have the sizes of the matrices") ||
      !ctx.resize(result, B.sizes()) || !ctx.resize(LU, A.sizes()) ||
      !resize_batch(ctx, A, A.size(-1), pivots) || !resize_batch(ctx, A, info) ||
      !work.prepare(ctx, n, columns)) {
    return;
  }
  const Matrices from(A), factors(LU);
  const Span right(B, batch, B.dim()), solution(result, batch, B.dim());
  for (dim_t i = 0; i < from.count(); ++i) {
    const dim_t at = Span(B, 0, batch).offset(i);
    from.load(i, work.a);
    const int64_t singular = factorise(work.a, n, n, work.pivots);
    if (!report_singular(ctx, singular, check_errors)) return;
    factors.store(i, work.a);
    store_item_of(pivots, batch, i, work.pivots);
    store_item_of(info, batch, i, &singular);
    right.load(work.x, B.const_data_ptr(), at);
    if (!left) {
      // X A = B is the transposed system, whose factors are the transposed ones.
      from.load(i, work.y);
      transpose(work.y, n, n, work.a);
      factorise(work.a, n, n, work.pivots);
      transpose(work.x, columns, n, work.y);
      solve_factorised(work.a, n, work.pivots, work.y, columns);
      transpose(work.y, n, columns, work.x);
    } else {
      solve_factorised(work.a, n, work.pivots, work.x, columns);
    }
    solution.store(work.x, result.mutable_data_ptr(), Span(result, 0, batch).offset(i));
  }
}

void linalg_cholesky_ex_l(KernelContext& ctx, const Tensor& self, bool upper, bool check_errors, Tensor& L,
                          Tensor& info) {
  Workspace work;
  const dim_t n = self.dim() >= 2 ? self.size(-1) : 0;
  if (!check_square(ctx, self) || !ctx.resize(L, self.sizes()) || !resize_batch(ctx, self, info) ||
      !work.prepare(ctx, n, n)) {
    return;
  }
  const Matrices from(self), to(L);
  for (dim_t i = 0; i < from.count(); ++i) {
    double *a = work.a, *l = work.x;
    from.load(i, work.y);
    // Only the triangle that is asked for is read.
    if (upper) {
      transpose(work.y, n, n, a);
    } else {
      memcpy(a, work.y, static_cast<size_t>(n * n) * sizeof(double));
    }
    int64_t failed = 0;
    for (dim_t r = 0; r < n; ++r) {
      for (dim_t c = 0; c < n; ++c) {
        double sum = a[r * n + c];
        for (dim_t k = 0; k < c && c <= r; ++k) sum -= l[r * n + k] * l[c * n + k];
        if (c == r && !(sum > 0) && failed == 0) failed = r + 1;
        l[r * n + c] = c > r ? 0 : c == r ? math::sqrt(sum) : sum / l[c * n + c];
      }
    }
    if (failed && check_errors)
      return ctx.fail(Status::KernelFailed, "the matrix is not positive-definite: minor {}", failed);
    if (upper) transpose(l, n, n, a);
    to.store(i, upper ? a : l);
    store_item_of(info, self.dim() - 2, i, &failed);
  }
}

void linalg_solve_triangular_out(KernelContext& ctx, const Tensor& self, const Tensor& B, bool upper,
                                 bool left, bool unitriangular, Tensor& out) {
  Workspace work;
  if (!check_square(ctx, self) ||
      !check(ctx, B.dim() == self.dim(), "matrices and right-hand sides differ in rank"))
    return;
  const dim_t n = self.size(-1), columns = left ? B.size(-1) : B.size(-2);
  const bool fits = B.size(left ? -2 : -1) == n && same_batch(self, B, self.dim() - 2);
  if (!check(ctx, fits, "the right-hand side does not have the sizes of the matrices") ||
      !ctx.resize(out, B.sizes()) || !work.prepare(ctx, n, columns)) {
    return;
  }
  const Matrices triangles(self), right(B), to(out);
  for (dim_t i = 0; i < triangles.count(); ++i) {
    triangles.load(i, left ? work.a : work.y);
    if (!left) transpose(work.y, n, n, work.a);
    right.load(i, work.x);
    if (left) {
      solve_triangle(work.a, n, upper, unitriangular, work.x, columns);
    } else {
      transpose(work.x, columns, n, work.y);
      solve_triangle(work.a, n, !upper, unitriangular, work.y, columns);
      transpose(work.y, n, columns, work.x);
    }
    to.store(i, work.x);
  }
}

void linalg_lu_factor_ex_out(KernelContext& ctx, const Tensor& A, bool pivot, bool check_errors, Tensor& LU,
                             Tensor& pivots, Tensor& info) {
  if (!check_matrices(ctx, A)) return;
  const dim_t m = A.size(-2), n = A.size(-1), k = m < n ? m : n;
  if (!ctx.resize(LU, A.sizes()) || !resize_batch(ctx, A, k, pivots) || !resize_batch(ctx, A, info)) return;
  double* a = scratch(ctx, m, n);
  int64_t* order = scratch<int64_t>(ctx, k);
  if (!ctx.ok()) return;
  const Matrices from(A), to(LU);
  for (dim_t i = 0; i < from.count(); ++i) {
    from.load(i, a);
    const int64_t singular = factorise(a, m, n, order, pivot);
    if (!report_singular(ctx, singular, check_errors)) return;
    to.store(i, a);
    store_item_of(pivots, A.dim() - 2, i, order);
    store_item_of(info, A.dim() - 2, i, &singular);
  }
}

// The rows' order as a matrix, and the two triangles; what is not asked for is empty.
void lu_unpack_out(KernelContext& ctx, const Tensor& LU_data, const Tensor& LU_pivots, bool unpack_data,
                   bool unpack_pivots, Tensor& P, Tensor& L, Tensor& U) {
  if (!check_matrices(ctx, LU_data)) return;
  const dim_t m = LU_data.size(-2), n = LU_data.size(-1), k = m < n ? m : n, batch = LU_data.dim() - 2;
  const bool fits =
      LU_pivots.dim() == batch + 1 && LU_pivots.size(-1) == k && same_batch(LU_pivots, LU_data, batch);
  if (!check(ctx, fits, "there is one pivot for each row or column of the shorter side") ||
      !(unpack_pivots ? resize_batch(ctx, LU_data, m, m, P) : resize_to_nothing(ctx, P)) ||
      !(unpack_data ? resize_batch(ctx, LU_data, m, k, L) : resize_to_nothing(ctx, L)) ||
      !(unpack_data ? resize_batch(ctx, LU_data, k, n, U) : resize_to_nothing(ctx, U))) {
    return;
  }
  double *a = scratch(ctx, m, n), *part = scratch(ctx, m * m + m * k + k * n);
  int64_t* order = scratch<int64_t>(ctx, k);
  if (!ctx.ok()) return;
  const Matrices from(LU_data);
  for (dim_t i = 0; i < from.count(); ++i) {
    if (unpack_pivots) {
      load_item_of(LU_pivots, batch, i, order);
      set_identity(part, m, m);
      // Columns of the identity change places in the reverse order of the rows.
      for (dim_t r = k; r-- > 0;) {
        if (!check(ctx, order[r] >= 1 && order[r] <= m, "a pivot is not the number of a row")) return;
        swap_rows(part, m, r, static_cast<dim_t>(order[r]) - 1);
      }
      Matrices(P).store(i, part);
    }
    if (!unpack_data) continue;
    from.load(i, a);
    double *lower = part, *upper = part + m * k;
    for (dim_t r = 0; r < m; ++r) {
      for (dim_t c = 0; c < k; ++c) lower[r * k + c] = c < r ? a[r * n + c] : c == r ? 1 : 0;
    }
    for (dim_t r = 0; r < k; ++r) {
      for (dim_t c = 0; c < n; ++c) upper[r * n + c] = c < r ? 0 : a[r * n + c];
    }
    Matrices(L).store(i, lower);
    Matrices(U).store(i, upper);
  }
}

// By scaling until the series converges at once, and squaring what comes of it.
void linalg_matrix_exp_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  Workspace work;
  const dim_t n = self.dim() >= 2 ? self.size(-1) : 0;
  if (!check_square(ctx, self) || !ctx.resize(out, self.sizes()) || !work.prepare(ctx, n, n)) return;
  const Matrices from(self), to(out);
  const auto multiply = [n](const double* a, const double* b, double factor, double* result) {
    for (dim_t r = 0; r < n; ++r) {
      for (dim_t c = 0; c < n; ++c) {
        double sum = 0;
        for (dim_t k = 0; k < n; ++k) sum += a[r * n + k] * b[k * n + c];
        result[r * n + c] = sum * factor;
      }
    }
  };
  double* term = scratch(ctx, n, n);
  if (!ctx.ok()) return;
  for (dim_t i = 0; i < from.count(); ++i) {
    from.load(i, work.a);
    double norm = 0;
    for (dim_t r = 0; r < n; ++r) {
      double row = 0;
      for (dim_t c = 0; c < n; ++c) row += math::fabs(work.a[r * n + c]);
      if (row > norm) norm = row;
    }
    int squarings = 0;
    for (; norm > 0.5 && squarings < 1100; norm /= 2) ++squarings;
    const double scale = math::exp2(static_cast<double>(-squarings));
    for (dim_t k = 0; k < n * n; ++k) work.a[k] *= scale;
    set_identity(work.x, n, n);
    set_identity(term, n, n);
    for (int order = 1; order <= 14; ++order) {
      multiply(term, work.a, 1.0 / order, work.y);
      for (dim_t k = 0; k < n * n; ++k) work.x[k] += term[k] = work.y[k];
    }
    for (; squarings > 0; --squarings) {
      multiply(work.x, work.x, 1, work.y);
      memcpy(work.x, work.y, static_cast<size_t>(n * n) * sizeof(double));
    }
    to.store(i, work.x);
  }
}

}  // namespace penlight::portable
