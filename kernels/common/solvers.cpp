#include "solvers.h"

namespace penlight::linear_algebra {

namespace {

// Solves for `x` on either side of the matrix: `solve` is of the transposed matrix where it is on the left.
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
  Determinant(const DenseLoops& loops, double* a, dim_t n, int64_t* pivots, double* spare) {
    factorise(loops, a, n, n, pivots, spare);
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
static void write_determinants(KernelContext& ctx, const DenseLoops& loops, Batch& batch, const Tensor& A,
                               Tensor& LU, Tensor& pivots, Put&& put) {
  const dim_t n = A.size(-1);
  double *a = batch.read(A), *lu = batch.write(LU, {n, n});
  int64_t* order = batch.write<int64_t>(pivots, {n});
  double* spare = scratch(ctx, kFactorBlock, n);
  batch.for_each([&] {
    copy_by_columns(A, a, n, lu);
    put(Determinant(loops, lu, n, order, spare));
  });
}

void det(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, Tensor& result, Tensor& LU,
         Tensor& pivots) {
  if (!check_square(ctx, A)) return;
  Batch batch(ctx, A);
  double* product = batch.write(result);
  write_determinants(ctx, loops, batch, A, LU, pivots, [&](const Determinant& of) { *product = of.product; });
}

void slogdet(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, Tensor& sign, Tensor& logabsdet,
             Tensor& LU, Tensor& pivots) {
  if (!check_square(ctx, A)) return;
  Batch batch(ctx, A);
  double *sign_of = batch.write(sign), *log_of = batch.write(logabsdet);
  write_determinants(ctx, loops, batch, A, LU, pivots, [&](const Determinant& of) {
    *sign_of = of.sign;
    *log_of = of.log;
  });
}

void inv(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, bool check_errors, Tensor& inverse,
         Tensor& info) {
  if (!check_square(ctx, A)) return;
  const dim_t n = A.size(-1);
  Batch batch(ctx, A);
  double *a = batch.read(A), *x = batch.write(inverse, {n, n});
  int64_t *singular = batch.write<int64_t>(info), *order = scratch<int64_t>(ctx, n);
  double* panel = scratch(ctx, kFactorBlock, n);
  batch.for_each([&] {
    *singular = factorise(loops, a, n, n, order, panel);
    check_singular(ctx, *singular, check_errors);
    invert_factorised(loops, a, n, order, x);
  });
}

void solve(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, const Tensor& B, bool left,
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
  double* panel = scratch(ctx, kFactorBlock, n);
  batch.for_each([&] {
    memcpy(lu, a, static_cast<size_t>(n * n) * sizeof(double));
    memcpy(x, b, static_cast<size_t>(n * columns) * sizeof(double));
    *singular = factorise(loops, lu, n, n, order, panel);
    check_singular(ctx, *singular, check_errors);
    if (left) return solve_factorised(loops, lu, n, order, x, columns);
    // X A = B is the transposed system, whose factors are the transposed ones.
    transpose(a, n, n, turned);
    factorise(loops, turned, n, n, turned_order, panel);
    solve_from(left, n, columns, x, spare,
               [&](double* y) { solve_factorised(loops, turned, n, turned_order, y, columns); });
  });
}

void cholesky(KernelContext& ctx, const DenseLoops& loops, const Tensor& self, bool upper, bool check_errors,
              Tensor& L, Tensor& info) {
  if (!check_square(ctx, self)) return;
  const dim_t n = self.size(-1);
  Batch batch(ctx, self);
  double *a = batch.read(self), *factor = batch.write(L, {n, n}), *spare = scratch(ctx, kFactorBlock, n);
  int64_t* failed = batch.write<int64_t>(info);
  // Only the triangle that is asked for is read, as the lower one.
  batch.for_each([&] {
    if (upper) {
      transpose(a, n, n, factor);
    } else {
      memcpy(factor, a, static_cast<size_t>(n * n) * sizeof(double));
    }
    *failed = factorise_positive(loops, factor, n, spare);
    if (upper) {
      memcpy(a, factor, static_cast<size_t>(n * n) * sizeof(double));
      transpose(a, n, n, factor);
    }
    if (*failed && check_errors)
      ctx.fail(Status::KernelFailed, "the matrix is not positive-definite: minor {}", *failed);
  });
}

void solve_triangular(KernelContext& ctx, const DenseLoops& loops, const Tensor& self, const Tensor& B,
                      bool upper, bool left, bool unitriangular, Tensor& out) {
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
    if (!left) transpose(given, n, n, a);
    memcpy(x, b, static_cast<size_t>(n * columns) * sizeof(double));
    solve_from(left, n, columns, x, spare, [&](double* y) {
      solve_triangle(loops, {left ? given : a, n, n, upper == left, unitriangular}, {y, columns}, columns);
    });
  });
}

void lu_factor(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, bool pivot, bool check_errors,
               Tensor& LU, Tensor& pivots, Tensor& info) {
  if (!check_matrices(ctx, A)) return;
  const dim_t m = A.size(-2), n = A.size(-1), k = m < n ? m : n;
  Batch batch(ctx, A);
  double *a = batch.read(A), *lu = batch.write(LU, {m, n});
  int64_t *order = batch.write<int64_t>(pivots, {k}), *singular = batch.write<int64_t>(info);
  double* panel = scratch(ctx, kFactorBlock, m);
  batch.for_each([&] {
    memcpy(lu, a, static_cast<size_t>(m * n) * sizeof(double));
    *singular = factorise(loops, lu, m, n, order, panel, pivot);
    check_singular(ctx, *singular, check_errors);
  });
}

}  // namespace penlight::linear_algebra
