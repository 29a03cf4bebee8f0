// Kernels of linear algebra by triangular factors, for the loops of either library.
//
// In double whatever the dtype, matrix by matrix, each copied into scratch.
#pragma once

#include "factors.h"

namespace penlight::linear_algebra {

void det(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, Tensor& result, Tensor& LU,
         Tensor& pivots);
void slogdet(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, Tensor& sign, Tensor& logabsdet,
             Tensor& LU, Tensor& pivots);
void inv(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, bool check_errors, Tensor& inverse,
         Tensor& info);
// B is a batch of matrices, or of vectors when it has the batch's sizes and one dimension more.
void solve(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, const Tensor& B, bool left,
           bool check_errors, Tensor& result, Tensor& LU, Tensor& pivots, Tensor& info);
void solve_triangular(KernelContext& ctx, const DenseLoops& loops, const Tensor& self, const Tensor& B,
                      bool upper, bool left, bool unitriangular, Tensor& out);
void cholesky(KernelContext& ctx, const DenseLoops& loops, const Tensor& self, bool upper, bool check_errors,
              Tensor& L, Tensor& info);
void lu_factor(KernelContext& ctx, const DenseLoops& loops, const Tensor& A, bool pivot, bool check_errors,
               Tensor& LU, Tensor& pivots, Tensor& info);
}  // namespace penlight::linear_algebra
