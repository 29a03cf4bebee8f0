// Factorisations with orthogonal factors: QR by reflections, eigenvalues of
// symmetric matrices and singular values by Jacobi's rotations.
//
// In double whatever the dtype. Jacobi's methods are the shortest that are also
// accurate to the last digit for small singular values; they need no special cases
// for matrices of low rank. Signs of vectors are free: QR has LAPACK's, the others
// may differ from it.
#include "kernels/common/matrices.h"

namespace penlight::portable {

namespace {

constexpr int kMaxSweeps = 60;  // a handful is usual
constexpr double kEpsilon = 2.2e-16;

// a = (I - tau v v^T) a for columns [first, columns) of `a`, with v = (1, rest...)
// in rows from `row` on; `rest` is strided.
void reflect(double* a, dim_t columns, dim_t first, dim_t row, dim_t rows, const double* rest, dim_t stride,
             double tau) {
  for (dim_t c = first; c < columns; ++c) {
    double sum = a[row * columns + c];
    for (dim_t r = row + 1; r < rows; ++r) sum += rest[(r - row - 1) * stride] * a[r * columns + c];
    sum *= tau;
    a[row * columns + c] -= sum;
    for (dim_t r = row + 1; r < rows; ++r) a[r * columns + c] -= sum * rest[(r - row - 1) * stride];
  }
}

// R above and on the diagonal of `a`, the reflections' vectors below it.
void reduce_to_triangle(double* a, dim_t rows, dim_t columns, double* tau) {
  const dim_t steps = rows < columns ? rows : columns;
  for (dim_t k = 0; k < steps; ++k) {
    double below = 0;
    for (dim_t r = k + 1; r < rows; ++r) below = math::hypot(below, a[r * columns + k]);
    tau[k] = 0;
    if (below == 0) continue;
    const double alpha = a[k * columns + k], length = math::hypot(alpha, below);
    const double beta = alpha > 0 ? -length : length;
    tau[k] = (beta - alpha) / beta;
    for (dim_t r = k + 1; r < rows; ++r) a[r * columns + k] /= alpha - beta;
    if (k + 1 < columns) reflect(a, columns, k + 1, k, rows, a + (k + 1) * columns + k, columns, tau[k]);
    a[k * columns + k] = beta;
  }
}

// The first `wanted` columns of the product of the reflections below the diagonal of `a`.
void expand_reflections(const double* a, dim_t rows, dim_t columns, const double* tau, dim_t steps, double* q,
                        dim_t wanted) {
  set_identity(q, rows, wanted);
  for (dim_t k = steps; k-- > 0;) reflect(q, wanted, 0, k, rows, a + (k + 1) * columns + k, columns, tau[k]);
}

double dot(const double* a, const double* b, dim_t count) {
  double sum = 0;
  for (dim_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

void rotate(double* a, double* b, dim_t count, double cosine, double sine) {
  for (dim_t i = 0; i < count; ++i) {
    const double kept = a[i];
    a[i] = cosine * kept - sine * b[i];
    b[i] = sine * kept + cosine * b[i];
  }
}

// The rotation that makes [[alpha, gamma], [gamma, beta]] diagonal.
void find_rotation(double alpha, double beta, double gamma, double& cosine, double& sine) {
  const double zeta = (beta - alpha) / (2 * gamma);
  const double size = math::fabs(zeta);
  const double tangent = math::copysign(1 / (size + math::hypot(1.0, size)), zeta);
  cosine = 1 / math::hypot(1.0, tangent);
  sine = cosine * tangent;
}

// Rows [0, count) of `vectors` become orthonormal, in place. A row that is no more
// than rounding errors of those before it becomes another direction.
void make_orthonormal(double* vectors, dim_t count, dim_t length) {
  dim_t unit = 0;
  for (dim_t i = 0; i < count; ++i) {
    double* v = vectors + i * length;
    for (;;) {
      const double before = math::sqrt(dot(v, v, length));
      for (int pass = 0; pass < 2; ++pass) {
        for (dim_t j = 0; j < i; ++j) {
          const double part = dot(v, vectors + j * length, length);
          for (dim_t k = 0; k < length; ++k) v[k] -= part * vectors[j * length + k];
        }
      }
      const double after = math::sqrt(dot(v, v, length));
      if ((after > before * 1e-3 || unit == length) && after > 0) {
        for (dim_t k = 0; k < length; ++k) v[k] /= after;
        break;
      }
      for (dim_t k = 0; k < length; ++k) v[k] = k == unit ? 1 : 0;
      ++unit;
    }
  }
}

// Calls turn(p, q), which says whether it turned anything, for all pairs until none is turned any more.
template <class Turn>
void sweep_pairs(dim_t count, Turn&& turn) {
  bool turned = true;
  for (int sweep = 0; turned && sweep < kMaxSweeps; ++sweep) {
    turned = false;
    for (dim_t p = 0; p < count; ++p) {
      for (dim_t q = p + 1; q < count; ++q) turned |= turn(p, q);
    }
  }
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

// Rows of `w` [count, length] become orthogonal, by rotations that `v` [count, count]
// collects; then sorted by their lengths, the longest first.
void orthogonalise(double* w, dim_t count, dim_t length, double* v, double* lengths) {
  set_identity(v, count, count);
  sweep_pairs(count, [=](dim_t p, dim_t q) {
    double *a = w + p * length, *b = w + q * length;
    const double alpha = dot(a, a, length), beta = dot(b, b, length), gamma = dot(a, b, length);
    if (math::fabs(gamma) <= kEpsilon * math::sqrt(alpha) * math::sqrt(beta)) return false;
    double cosine, sine;
    find_rotation(alpha, beta, gamma, cosine, sine);
    rotate(a, b, length, cosine, sine);
    rotate(v + p * count, v + q * count, count, cosine, sine);
    return true;
  });
  for (dim_t i = 0; i < count; ++i) lengths[i] = math::sqrt(dot(w + i * length, w + i * length, length));
  sort_values(lengths, count, -1, [=](dim_t i, dim_t j) {
    swap_rows(lengths, 1, i, j);
    swap_rows(w, length, i, j);
    swap_rows(v, count, i, j);
  });
}

// Eigenvalues of a symmetric matrix, ascending; its vectors are the rows of `v`.
void diagonalise(double* a, dim_t n, double* v, double* values) {
  set_identity(v, n, n);
  sweep_pairs(n, [=](dim_t p, dim_t q) {
    const double gamma = a[p * n + q], alpha = a[p * n + p], beta = a[q * n + q];
    // What does not change the diagonal in its last digit counts as 0.
    if (math::fabs(gamma) <= kEpsilon * 0.1 * (math::fabs(alpha) + math::fabs(beta))) return false;
    double cosine, sine;
    find_rotation(alpha, beta, gamma, cosine, sine);
    rotate(a + p * n, a + q * n, n, cosine, sine);
    for (dim_t i = 0; i < n; ++i) rotate(a + i * n + p, a + i * n + q, 1, cosine, sine);
    rotate(v + p * n, v + q * n, n, cosine, sine);
    return true;
  });
  for (dim_t i = 0; i < n; ++i) values[i] = a[i * n + i];
  sort_values(values, n, 1, [=](dim_t i, dim_t j) {
    swap_rows(values, 1, i, j);
    swap_rows(v, n, i, j);
  });
}

}  // namespace

void linalg_qr_out(KernelContext& ctx, const Tensor& A, StringView mode, Tensor& Q, Tensor& R) {
  if (!check_matrices(ctx, A)) return;
  const bool complete = mode == "complete", only_r = mode == "r";
  if (!check(ctx, complete || only_r || mode == "reduced", "qr: mode is reduced, complete or r")) return;
  const dim_t m = A.size(-2), n = A.size(-1), k = m < n ? m : n, width = complete ? m : k;
  Batch batch(ctx, A);
  double *a = batch.read(A), *q = batch.write(Q, {m, width}, !only_r), *r = batch.write(R, {width, n});
  double* tau = scratch(ctx, k);
  batch.for_each([&] {
    reduce_to_triangle(a, m, n, tau);
    for (dim_t row = 0; row < width; ++row) {
      for (dim_t c = 0; c < n; ++c) r[row * n + c] = c < row ? 0 : a[row * n + c];
    }
    if (!only_r) expand_reflections(a, m, n, tau, k, q, width);
  });
}

void geqrf_a(KernelContext& ctx, const Tensor& self, Tensor& a, Tensor& tau) {
  if (!check_matrices(ctx, self)) return;
  const dim_t m = self.size(-2), n = self.size(-1), k = m < n ? m : n;
  Batch batch(ctx, self);
  double *from = batch.read(self), *to = batch.write(a, {m, n}), *factors = batch.write(tau, {k});
  batch.for_each([&] {
    memcpy(to, from, static_cast<size_t>(m * n) * sizeof(double));
    reduce_to_triangle(to, m, n, factors);
  });
}

void linalg_householder_product_out(KernelContext& ctx, const Tensor& input, const Tensor& tau, Tensor& out) {
  if (!check_matrices(ctx, input) || !check_same_dtype(ctx, input, tau)) return;
  const dim_t m = input.size(-2), n = input.size(-1);
  const bool fits =
      m >= n && tau.dim() == input.dim() - 1 && tau.size(-1) <= n && same_batch(tau, input, input.dim() - 2);
  if (!check(ctx, fits, "tau has at most one number for each column of a matrix that is not wide")) return;
  Batch batch(ctx, input);
  double *a = batch.read(input), *factors = batch.read(tau), *q = batch.write(out, {m, n});
  batch.for_each([&] { expand_reflections(a, m, n, factors, tau.size(-1), q, n); });
}

void linalg_svd_u(KernelContext& ctx, const Tensor& A, bool full_matrices, bool compute_uv,
                  const Optional<StringView>&, Tensor& U, Tensor& S, Tensor& Vh) {
  if (!check_matrices(ctx, A)) return;
  const dim_t m = A.size(-2), n = A.size(-1), k = m < n ? m : n;
  const dim_t left = full_matrices ? m : k, right = full_matrices ? n : k;
  // The shorter side is turned: its k vectors as rows of `w`, each as long as the longer side.
  const dim_t length = m < n ? n : m, kept = full_matrices ? length : k;
  Batch batch(ctx, A);
  double *a = batch.read(A), *u = batch.write(U, {m, left}, compute_uv), *lengths = batch.write(S, {k});
  double* vh = batch.write(Vh, {right, n}, compute_uv);
  double *longer = m < n ? vh : scratch(ctx, kept, length), *shorter = m < n ? scratch(ctx, k, k) : vh;
  batch.for_each([&] {
    double scale;
    if (!normalise(ctx, a, m * n, scale)) return;
    if (m < n) {
      memcpy(longer, a, static_cast<size_t>(m * n) * sizeof(double));
    } else {
      transpose(a, m, n, longer);
    }
    orthogonalise(longer, k, length, shorter, lengths);
    for (dim_t j = 0; j < k; ++j) lengths[j] *= scale;
    if (!compute_uv) return;
    // What has no length has no direction: any that is orthogonal to the others serves.
    for (dim_t i = k * length; i < kept * length; ++i) longer[i] = 0;
    make_orthonormal(longer, kept, length);
    transpose(m < n ? shorter : longer, left, m, u);
  });
}

void linalg_eigh_eigenvalues(KernelContext& ctx, const Tensor& A, StringView UPLO, bool compute_v,
                             Tensor& eigenvalues, Tensor& eigenvectors) {
  if (!check_square(ctx, A)) return;
  const dim_t n = A.size(-1);
  const bool upper = UPLO == "U" || UPLO == "u";
  Batch batch(ctx, A);
  double *a = batch.read(A), *values = batch.write(eigenvalues, {n}), *v = scratch(ctx, n, n);
  double* vectors = batch.write(eigenvectors, {n, n}, compute_v);
  batch.for_each([&] {
    // Only the triangle that is asked for is read.
    for (dim_t r = 0; r < n; ++r) {
      for (dim_t c = 0; c < r; ++c)
        (upper ? a[r * n + c] : a[c * n + r]) = upper ? a[c * n + r] : a[r * n + c];
    }
    double scale;
    if (!normalise(ctx, a, n * n, scale)) return;
    diagonalise(a, n, v, values);
    for (dim_t j = 0; j < n; ++j) values[j] *= scale;
    transpose(v, n, n, vectors);
  });
}

}  // namespace penlight::portable
