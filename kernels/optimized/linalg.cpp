// Factorisations of matrices, what is solved with them, and their spectra: with the loops of this library.
#include "isa.h"
#include "kernels/common/decompositions.h"
#include "kernels/common/matrix_exp.h"
#include "kernels/common/solvers.h"

namespace penlight::optimized {

void linalg_det_result(KernelContext& ctx, const Tensor& A, Tensor& result, Tensor& LU, Tensor& pivots) {
  linear_algebra::det(ctx, *routines().dense, A, result, LU, pivots);
}

void linalg_slogdet_sign(KernelContext& ctx, const Tensor& A, Tensor& sign, Tensor& logabsdet, Tensor& LU,
                         Tensor& pivots) {
  linear_algebra::slogdet(ctx, *routines().dense, A, sign, logabsdet, LU, pivots);
}

void linalg_inv_ex_inverse(KernelContext& ctx, const Tensor& A, bool check_errors, Tensor& inverse,
                           Tensor& info) {
  linear_algebra::inv(ctx, *routines().dense, A, check_errors, inverse, info);
}

void linalg_solve_ex_result(KernelContext& ctx, const Tensor& A, const Tensor& B, bool left,
                            bool check_errors, Tensor& result, Tensor& LU, Tensor& pivots, Tensor& info) {
  linear_algebra::solve(ctx, *routines().dense, A, B, left, check_errors, result, LU, pivots, info);
}

void linalg_cholesky_ex_l(KernelContext& ctx, const Tensor& self, bool upper, bool check_errors, Tensor& L,
                          Tensor& info) {
  linear_algebra::cholesky(ctx, *routines().dense, self, upper, check_errors, L, info);
}

void linalg_solve_triangular_out(KernelContext& ctx, const Tensor& self, const Tensor& B, bool upper,
                                 bool left, bool unitriangular, Tensor& out) {
  linear_algebra::solve_triangular(ctx, *routines().dense, self, B, upper, left, unitriangular, out);
}

void linalg_lu_factor_ex_out(KernelContext& ctx, const Tensor& A, bool pivot, bool check_errors, Tensor& LU,
                             Tensor& pivots, Tensor& info) {
  linear_algebra::lu_factor(ctx, *routines().dense, A, pivot, check_errors, LU, pivots, info);
}

void linalg_matrix_exp_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  linear_algebra::matrix_exp(ctx, *routines().dense, self, out);
}

void linalg_qr_out(KernelContext& ctx, const Tensor& A, StringView mode, Tensor& Q, Tensor& R) {
  linear_algebra::qr(ctx, *routines().dense, A, mode, Q, R);
}

void geqrf_a(KernelContext& ctx, const Tensor& self, Tensor& a, Tensor& tau) {
  linear_algebra::geqrf(ctx, *routines().dense, self, a, tau);
}

void linalg_householder_product_out(KernelContext& ctx, const Tensor& input, const Tensor& tau, Tensor& out) {
  linear_algebra::householder_product(ctx, *routines().dense, input, tau, out);
}

void linalg_svd_u(KernelContext& ctx, const Tensor& A, bool full_matrices, bool compute_uv,
                  const Optional<StringView>&, Tensor& U, Tensor& S, Tensor& Vh) {
  linear_algebra::svd(ctx, *routines().dense, A, full_matrices, compute_uv, U, S, Vh);
}

void linalg_eigh_eigenvalues(KernelContext& ctx, const Tensor& A, StringView UPLO, bool compute_v,
                             Tensor& eigenvalues, Tensor& eigenvectors) {
  linear_algebra::eigh(ctx, *routines().dense, A, UPLO, compute_v, eigenvalues, eigenvectors);
}

}  // namespace penlight::optimized
