// Kernels of factorisations with orthogonal factors, for the loops of either library: QR, eigenvalues of
// symmetric matrices, singular values.
//
// In double whatever the dtype. Signs of vectors are free: QR has LAPACK's, the others may differ from it.
#pragma once

#include "spectrum.h"

namespace penlight::linear_algebra {

void qr(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, StringView mode, Tensor& Q, Tensor& R);
void geqrf(KernelContext& ctx, const DenseLoops& loops, const Tensor& self, Tensor& a, Tensor& tau);
void householder_product(KernelContext& ctx, const DenseLoops& loops, const Tensor& input, const Tensor& tau,
                         Tensor& out);
void svd(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, bool full_matrices, bool compute_uv,
         Tensor& U, Tensor& S, Tensor& Vh);
void eigh(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, StringView UPLO, bool compute_v,
          Tensor& eigenvalues, Tensor& eigenvectors);

}  // namespace penlight::linear_algebra
