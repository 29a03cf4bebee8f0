// L D L^T of symmetric matrices that need not be definite, by Bunch and Kaufman's
// pivots: D has blocks of one or two rows, L's columns lie below them.
//
// In double whatever the dtype. Pivots are LAPACK's: positive k where row k, counted
// from 1, came to the place of a block of one row; negative, twice, for two rows of
// which the second was exchanged with row -k.
#include "kernels/common/matrices.h"

namespace penlight::portable {

namespace {

constexpr double kGrowth = 0.64038820320220756872;  // (1 + sqrt(17)) / 8

// The lower triangle of `a`, as that of a symmetric matrix with rows and columns p and q exchanged.
// Columns before `k` are finished, and keep their order.
void exchange(double* a, dim_t n, dim_t k, dim_t p, dim_t q) {
  if (p == q) return;
  const auto swap = [a](dim_t i, dim_t j) {
    const double kept = a[i];
    a[i] = a[j];
    a[j] = kept;
  };
  for (dim_t i = q + 1; i < n; ++i) swap(i * n + p, i * n + q);
  for (dim_t i = p + 1; i < q; ++i) swap(i * n + p, q * n + i);
  for (dim_t i = k; i < p; ++i) swap(p * n + i, q * n + i);
  swap(p * n + p, q * n + q);
}

// The row of the largest element of column k below row `first`; n when there is none.
dim_t largest_below(const double* a, dim_t n, dim_t k, dim_t first, double& size) {
  dim_t found = n;
  size = 0;
  for (dim_t i = first; i < n; ++i) {
    if (found < n && !(math::fabs(a[i * n + k]) > size)) continue;
    size = math::fabs(a[i * n + k]);
    found = i;
  }
  return found;
}

// Factorises the lower triangle in place. The number of the first block that is 0, or 0.
int64_t factorise(double* a, dim_t n, int64_t* pivots) {
  int64_t info = 0;
  for (dim_t k = 0; k < n;) {
    double below = 0;
    const dim_t r = largest_below(a, n, k, k + 1, below);
    const double here = math::fabs(a[k * n + k]);
    dim_t with = k;
    int rows = 1;
    if (!(here > 0 || below > 0)) {
      if (info == 0) info = k + 1;
      pivots[k] = k + 1;
      ++k;
      continue;
    }
    if (here < kGrowth * below) {
      double in_row = 0, under = 0;
      for (dim_t j = k; j < r; ++j) {
        if (math::fabs(a[r * n + j]) > in_row) in_row = math::fabs(a[r * n + j]);
      }
      largest_below(a, n, r, r + 1, under);
      if (under > in_row) in_row = under;
      if (!(here * in_row >= kGrowth * below * below)) {
        with = r;
        rows = math::fabs(a[r * n + r]) >= kGrowth * in_row ? 1 : 2;
      }
    }
    exchange(a, n, k, k + rows - 1, with);
    if (rows == 1) {
      for (dim_t i = k + 1; i < n; ++i) {
        const double factor = a[i * n + k] / a[k * n + k];
        for (dim_t j = k + 1; j <= i; ++j) a[i * n + j] -= factor * a[j * n + k];
      }
      for (dim_t i = k + 1; i < n; ++i) a[i * n + k] /= a[k * n + k];
      pivots[k] = with + 1;
    } else {
      // Scaled by the block's other diagonal, as LAPACK does.
      const double d = a[(k + 1) * n + k], d11 = a[(k + 1) * n + k + 1] / d, d22 = a[k * n + k] / d;
      const double t = 1 / (d11 * d22 - 1) / d;
      for (dim_t j = k + 2; j < n; ++j) {
        const double x = t * (d11 * a[j * n + k] - a[j * n + k + 1]);
        const double y = t * (d22 * a[j * n + k + 1] - a[j * n + k]);
        for (dim_t i = j; i < n; ++i) a[i * n + j] -= a[i * n + k] * x + a[i * n + k + 1] * y;
        a[j * n + k] = x;
        a[j * n + k + 1] = y;
      }
      pivots[k] = pivots[k + 1] = -(with + 1);
    }
    k += rows;
  }
  return info;
}

// x = (L D L^T)^-1 x. Pivots were checked.
void solve(const double* a, dim_t n, const int64_t* pivots, double* x, dim_t columns) {
  const auto subtract = [=](dim_t row, dim_t from, double factor) {
    for (dim_t c = 0; c < columns; ++c) x[row * columns + c] -= factor * x[from * columns + c];
  };
  for (dim_t k = 0; k < n;) {
    const dim_t rows = pivots[k] > 0 ? 1 : 2;
    swap_rows(x, columns, k + rows - 1, static_cast<dim_t>(rows == 1 ? pivots[k] : -pivots[k]) - 1);
    for (dim_t i = k + rows; i < n; ++i) {
      for (dim_t j = k; j < k + rows; ++j) subtract(i, j, a[i * n + j]);
    }
    const double d00 = a[k * n + k], d10 = rows == 2 ? a[(k + 1) * n + k] : 0;
    const double d11 = rows == 2 ? a[(k + 1) * n + k + 1] : 0;
    for (dim_t c = 0; c < columns; ++c) {
      double& first = x[k * columns + c];
      if (rows == 1) {
        first /= d00;
        continue;
      }
      double& second = x[(k + 1) * columns + c];
      const double u = first / d10, v = second / d10, scale = (d00 / d10) * (d11 / d10) - 1;
      first = (d11 / d10 * u - v) / scale;
      second = (d00 / d10 * v - u) / scale;
    }
    k += rows;
  }
  for (dim_t k = n; k-- > 0;) {
    const dim_t rows = pivots[k] > 0 ? 1 : 2;
    k -= rows - 1;
    for (dim_t j = k; j < k + rows; ++j) {
      for (dim_t i = k + rows; i < n; ++i) subtract(j, i, a[i * n + j]);
    }
    swap_rows(x, columns, k + rows - 1, static_cast<dim_t>(rows == 1 ? pivots[k] : -pivots[k]) - 1);
  }
}

SizesRef outer(const Tensor& tensor, size_t inner) {
  return tensor.sizes().slice(0, static_cast<size_t>(tensor.dim()) - inner);
}

// Whether each pivot is a row's number, and those below 0 come in pairs.
bool check_pivots(KernelContext& ctx, const int64_t* pivots, dim_t n) {
  for (dim_t k = 0; k < n; ++k) {
    const int64_t row = pivots[k] < 0 ? -pivots[k] : pivots[k];
    const bool pair = pivots[k] > 0 || (k + 1 < n && pivots[k + 1] == pivots[k]);
    if (!check(ctx, row >= 1 && row <= n && pair, "a pivot is not the number of a row")) return false;
    if (pivots[k] < 0) ++k;
  }
  return true;
}

}  // namespace

void linalg_ldl_factor_ex_out(KernelContext& ctx, const Tensor& self, bool, bool check_errors, Tensor& LD,
                              Tensor& pivots, Tensor& info) {
  if (!check_square(ctx, self)) return;
  const dim_t n = self.size(-1);
  Batch batch(ctx, self);
  double *a = batch.read(self), *ld = batch.write(LD, {n, n});
  int64_t *order = batch.write<int64_t>(pivots, {n}), *singular = batch.write<int64_t>(info);
  batch.for_each([&] {
    *singular = factorise(a, n, order);
    check(ctx, *singular == 0 || !check_errors, "the matrix is singular");
    for (dim_t k = 0; k < n * n; ++k) ld[k] = k % n > k / n ? 0 : a[k];
  });
}

void linalg_ldl_solve_out(KernelContext& ctx, const Tensor& LD, const Tensor& pivots, const Tensor& B, bool,
                          Tensor& out) {
  if (!check_square(ctx, LD) || !check_matrices(ctx, B)) return;
  const dim_t n = LD.size(-1), columns = B.size(-1);
  const bool fits = B.size(-2) == n && pivots.dim() == LD.dim() - 1 && pivots.size(-1) == n;
  if (!check(ctx, fits, "the right-hand side does not have the sizes of the matrices")) return;
  Shape shape(outer(LD, 2));
  if (!broadcast_into(ctx, shape, outer(B, 2)) || !broadcast_into(ctx, shape, outer(pivots, 1))) return;
  Batch batch(ctx, shape);
  double *a = batch.read(LD, 2), *b = batch.read(B, 2), *x = batch.write(out, {n, columns});
  int64_t* order = batch.read<int64_t>(pivots, 1);
  batch.for_each([&] {
    if (!check_pivots(ctx, order, n)) return;
    memcpy(x, b, static_cast<size_t>(n * columns) * sizeof(double));
    solve(a, n, order, x, columns);
  });
}

}  // namespace penlight::portable
