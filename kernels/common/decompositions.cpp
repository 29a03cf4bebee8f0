#include "decompositions.h"

namespace penlight::linear_algebra {

void qr(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, StringView mode, Tensor& Q, Tensor& R) {
  if (!check_matrices(ctx, A)) return;
  const bool complete = mode == "complete", only_r = mode == "r";
  if (!check(ctx, complete || only_r || mode == "reduced", "qr: mode is reduced, complete or r")) return;
  const dim_t m = A.size(-2), n = A.size(-1), k = m < n ? m : n, width = complete ? m : k;
  Batch batch(ctx, A);
  double *a = batch.read(A), *q = batch.write(Q, {m, width}, !only_r), *r = batch.write(R, {width, n});
  double *turned = scratch(ctx, n, m), *rows = scratch(ctx, width, m);
  double *tau = scratch(ctx, k), *beta = scratch(ctx, k);
  batch.for_each([&] {
    transpose(a, m, n, turned);
    reduce_to_triangle(loops, turned, n, m, tau, beta);
    transpose_part(turned, m, n, width, r, n);
    for (dim_t row = 0; row < width; ++row) {
      set_zeros(r + row * n, row < n ? row : n);
      if (row < k) r[row * n + row] = beta[row];
    }
    if (only_r) return;
    expand_reflections(loops, {turned, m, tau, k}, {rows, m}, width, m);
    transpose(rows, width, m, q);
  });
}

void geqrf(KernelContext& ctx, const DenseLoops& loops, const Tensor& self, Tensor& a, Tensor& tau) {
  if (!check_matrices(ctx, self)) return;
  const dim_t m = self.size(-2), n = self.size(-1), k = m < n ? m : n;
  Batch batch(ctx, self);
  double *from = batch.read(self), *to = batch.write(a, {m, n}), *factors = batch.write(tau, {k});
  double *turned = scratch(ctx, n, m), *beta = scratch(ctx, k);
  batch.for_each([&] {
    transpose(from, m, n, turned);
    reduce_to_triangle(loops, turned, n, m, factors, beta);
    for (dim_t i = 0; i < k; ++i) turned[i * m + i] = beta[i];
    transpose(turned, n, m, to);
  });
}

void householder_product(KernelContext& ctx, const DenseLoops& loops, const Tensor& input, const Tensor& tau,
                         Tensor& out) {
  if (!check_matrices(ctx, input) || !check_same_dtype(ctx, input, tau)) return;
  const dim_t m = input.size(-2), n = input.size(-1);
  const bool fits =
      m >= n && tau.dim() == input.dim() - 1 && tau.size(-1) <= n && same_batch(tau, input, input.dim() - 2);
  if (!check(ctx, fits, "tau has at most one number for each column of a matrix that is not wide")) return;
  Batch batch(ctx, input);
  double *a = batch.read(input), *factors = batch.read(tau), *q = batch.write(out, {m, n});
  double *vectors = scratch(ctx, n, m), *rows = scratch(ctx, n, m);
  batch.for_each([&] {
    transpose(a, m, n, vectors);
    for (dim_t i = 0; i < n; ++i) vectors[i * m + i] = 1;
    expand_reflections(loops, {vectors, m, factors, tau.size(-1)}, {rows, m}, n, m);
    transpose(rows, n, m, q);
  });
}

void svd(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, bool full_matrices, bool compute_uv,
         Tensor& U, Tensor& S, Tensor& Vh) {
  if (!check_matrices(ctx, A)) return;
  const dim_t m = A.size(-2), n = A.size(-1), k = m < n ? m : n;
  const dim_t left = full_matrices ? m : k, right = full_matrices ? n : k;
  // Of a wide matrix the transposed one is decomposed: `kept` vectors are as long as the longer side, k as
  // the shorter.
  const bool wide = m < n;
  const dim_t length = wide ? n : m, kept = wide ? right : left;
  Batch batch(ctx, A);
  double *a = batch.read(A), *u = batch.write(U, {m, left}, compute_uv), *values = batch.write(S, {k});
  const bool is_long = k > 0 && length >= 2 * k;
  // What is decomposed lies in rows of the shorter side where that is much shorter, else of the longer.
  const bool as_given = wide == is_long;
  double *vh = batch.write(Vh, {right, n}, compute_uv), *turned = as_given ? a : scratch(ctx, m, n);
  double* spare = scratch(ctx, is_long ? long_spare(k) : singular_spare(length, k));
  double* square = scratch(ctx, is_long ? kept : k, length);
  double *longer = wide ? vh : scratch(ctx, kept, length), *shorter = wide ? scratch(ctx, k, k) : vh;
  batch.for_each([&] {
    double scale;
    if (!normalise(ctx, a, m * n, scale)) return;
    if (!as_given) transpose(a, m, n, turned);
    const auto find = is_long ? decompose_long : decompose;
    const bool found = find(loops, turned, length, k, kept, compute_uv ? longer : nullptr,
                            compute_uv ? shorter : nullptr, values, square, spare);
    if (!found) return ctx.fail(Status::KernelFailed, "singular values do not converge");
    for (dim_t j = 0; j < k; ++j) values[j] *= scale;
    if (compute_uv) transpose(wide ? shorter : longer, left, m, u);
  });
}

void eigh(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, StringView UPLO, bool compute_v,
          Tensor& eigenvalues, Tensor& eigenvectors) {
  if (!check_square(ctx, A)) return;
  const dim_t n = A.size(-1);
  const bool upper = UPLO == "U" || UPLO == "u";
  Batch batch(ctx, A);
  double *a = batch.read(A), *values = batch.write(eigenvalues, {n}), *v = scratch(ctx, n, n);
  double *vectors = batch.write(eigenvectors, {n, n}, compute_v), *spare = scratch(ctx, eigenvalue_spare(n));
  batch.for_each([&] {
    // Only the triangle that is asked for is read.
    for (dim_t r = 0; r < n; ++r) {
      for (dim_t c = 0; c < r; ++c)
        (upper ? a[r * n + c] : a[c * n + r]) = upper ? a[c * n + r] : a[r * n + c];
    }
    double scale;
    if (!normalise(ctx, a, n * n, scale)) return;
    if (!diagonalise(loops, a, n, compute_v ? v : nullptr, values, spare))
      return ctx.fail(Status::KernelFailed, "eigenvalues do not converge");
    for (dim_t j = 0; j < n; ++j) values[j] *= scale;
    if (compute_v) transpose(v, n, n, vectors);
  });
}

}  // namespace penlight::linear_algebra
