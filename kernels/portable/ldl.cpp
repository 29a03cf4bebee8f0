// L D L^T of symmetric matrices that need not be definite, by Bunch and Kaufman's
// pivots: D has blocks of one or two rows, L's columns lie below them.
//
// In double whatever the dtype. Pivots are LAPACK's: positive k where row k, counted
// from 1, came to the place of a block of one row; negative, twice, for two rows of
// which the second was exchanged with row -k.
#include "kernels/common/broadcast.h"
#include "kernels/common/math.h"
#include "matrices.h"

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

SizesRef outer(const Tensor& tensor, dim_t inner) {
  return SizesRef(tensor.sizes().data(), static_cast<size_t>(tensor.dim() - inner));
}

// The leading dimensions of a tensor, broadcast to `shape`; its last `inner` ones stay apart.
Span spread(const Tensor& tensor, const Shape& shape, dim_t inner) {
  Span span(tensor.dtype());
  const dim_t missing = shape.dim - (tensor.dim() - inner);
  for (int d = 0; d < shape.dim; ++d) {
    const bool repeated = d < missing || tensor.size(d - missing) == 1;
    span.push(shape[d], repeated ? 0 : tensor.stride(d - missing));
  }
  return span;
}

}  // namespace

void linalg_ldl_factor_ex_out(KernelContext& ctx, const Tensor& self, bool, bool check_errors, Tensor& LD,
                              Tensor& pivots, Tensor& info) {
  if (!check_square(ctx, self)) return;
  const dim_t n = self.size(-1);
  if (!ctx.resize(LD, self.sizes()) || !resize_batch(ctx, self, n, pivots) || !resize_batch(ctx, self, info))
    return;
  double* a = scratch(ctx, n, n);
  int64_t* order = scratch<int64_t>(ctx, n);
  if (!ctx.ok()) return;
  const Matrices from(self), to(LD);
  for (dim_t i = 0; i < from.count(); ++i) {
    from.load(i, a);
    const int64_t singular = factorise(a, n, order);
    if (!check(ctx, singular == 0 || !check_errors, "the matrix is singular")) return;
    for (dim_t k = 0; k < n * n; ++k) a[k] = k % n > k / n ? 0 : a[k];
    to.store(i, a);
    store_item_of(pivots, self.dim() - 2, i, order);
    store_item_of(info, self.dim() - 2, i, &singular);
  }
}

void linalg_ldl_solve_out(KernelContext& ctx, const Tensor& LD, const Tensor& pivots, const Tensor& B, bool,
                          Tensor& out) {
  if (!check_square(ctx, LD) || !check_matrices(ctx, B)) return;
  const dim_t n = LD.size(-1), columns = B.size(-1);
  const bool fits = B.size(-2) == n && pivots.dim() == LD.dim() - 1 && pivots.size(-1) == n;
  if (!check(ctx, fits, "the right-hand side does not have the sizes of the matrices")) return;
  Shape shape(outer(LD, 2));
  if (!broadcast_into(ctx, shape, outer(B, 2)) || !broadcast_into(ctx, shape, outer(pivots, 1))) return;
  const dim_t batch = shape.dim;
  const Span of_factors = spread(LD, shape, 2), of_pivots = spread(pivots, shape, 1),
             of_right = spread(B, shape, 2);
  shape.append(n);
  shape.append(columns);
  if (!ctx.resize(out, shape)) return;
  double* a = scratch(ctx, n, n);
  double* x = scratch(ctx, n, columns);
  int64_t* order = scratch<int64_t>(ctx, n);
  if (!ctx.ok()) return;
  const Span factors(LD, LD.dim() - 2, LD.dim()), right(B, B.dim() - 2, B.dim());
  const Span rows(pivots, pivots.dim() - 1, pivots.dim());
  for (dim_t i = 0; i < of_factors.count(); ++i) {
    factors.load(a, LD.const_data_ptr(), of_factors.offset(i));
    right.load(x, B.const_data_ptr(), of_right.offset(i));
    rows.load(order, pivots.const_data_ptr(), of_pivots.offset(i));
    for (dim_t k = 0; k < n; ++k) {
      const int64_t row = order[k] < 0 ? -order[k] : order[k];
      const bool pair = order[k] > 0 || (k + 1 < n && order[k + 1] == order[k]);
      if (!check(ctx, row >= 1 && row <= n && pair, "a pivot is not the number of a row")) return;
      if (order[k] < 0) ++k;
    }
    solve(a, n, order, x, columns);
    store_item_of(out, batch, i, x);
  }
}

}  // namespace penlight::portable
