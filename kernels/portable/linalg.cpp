// Factorisations of matrices, what is solved with them, and their spectra: with the loops of this library.
#include "dense_loops.h"
#include "kernels/common/decompositions.h"
#include "kernels/common/matrix_exp.h"
#include "kernels/common/solvers.h"

namespace penlight::portable {

void linalg_det_result(KernelContext& ctx, const Tensor& A, Tensor& result, Tensor& LU, Tensor& pivots) {
  linear_algebra::det(ctx, kLoops, A, result, LU, pivots);
}

void linalg_slogdet_sign(KernelContext& ctx, const Tensor& A, Tensor& sign, Tensor& logabsdet, Tensor& LU,
                         Tensor& pivots) {
  linear_algebra::slogdet(ctx, kLoops, A, sign, logabsdet, LU, pivots);
}

void linalg_inv_ex_inverse(KernelContext& ctx, const Tensor& A, bool check_errors, Tensor& inverse,
                           Tensor& info) {
  linear_algebra::inv(ctx, kLoops, A, check_errors, inverse, info);
}

void linalg_solve_ex_result(KernelContext& ctx, const Tensor& A, const Tensor& B, bool left,
                            bool check_errors, Tensor& result, Tensor& LU, Tensor& pivots, Tensor& info) {
  linear_algebra::solve(ctx, kLoops, A, B, left, check_errors, result, LU, pivots, info);
}

void linalg_cholesky_ex_l(KernelContext& ctx, const Tensor& self, bool upper, bool check_errors, Tensor& L,
                          Tensor& info) {
  linear_algebra::cholesky(ctx, kLoops, self, upper, check_errors, L, info);
}

void linalg_solve_triangular_out(KernelContext& ctx, const Tensor& self, const Tensor& B, bool upper,
                                 bool left, bool unitriangular, Tensor& out) {
  linear_algebra::solve_triangular(ctx, kLoops, self, B, upper, left, unitriangular, out);
}

void linalg_lu_factor_ex_out(KernelContext& ctx, const Tensor& A, bool pivot, bool check_errors, Tensor& LU,
                             Tensor& pivots, Tensor& info) {
  linear_algebra::lu_factor(ctx, kLoops, A, pivot, check_errors, LU, pivots, info);
}

void linalg_matrix_exp_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  linear_algebra::matrix_exp(ctx, kLoops, self, out);
}

void linalg_qr_out(KernelContext& ctx, const Tensor& A, StringView mode, Tensor& Q, Tensor& R) {
  linear_algebra::qr(ctx, kLoops, A, mode, Q, R);
}

void geqrf_a(KernelContext& ctx, const Tensor& self, Tensor& a, Tensor& tau) {
  linear_algebra::geqrf(ctx, kLoops, self, a, tau);
}

void linalg_householder_product_out(KernelContext& ctx, const Tensor& input, const Tensor& tau, Tensor& out) {
  linear_algebra::householder_product(ctx, kLoops, input, tau, out);
}

void linalg_svd_u(KernelContext& ctx, const Tensor& A, bool full_matrices, bool compute_uv,
                  const Optional<StringView>&, Tensor& U, Tensor& S, Tensor& Vh) {
  linear_algebra::svd(ctx, kLoops, A, full_matrices, compute_uv, U, S, Vh);
}

void linalg_eigh_eigenvalues(KernelContext& ctx, const Tensor& A, StringView UPLO, bool compute_v,
                             Tensor& eigenvalues, Tensor& eigenvectors) {
  linear_algebra::eigh(ctx, kLoops, A, UPLO, compute_v, eigenvalues, eigenvectors);
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

}  // namespace penlight::portable
