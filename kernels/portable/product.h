// One product of two strided matrices, written through strides with an epilogue.
#pragma once

#include <penlight/kernel.h>

#include "gemm.h"
#include "kernels/common/convert.h"

namespace penlight::portable {

// A matrix inside a tensor: element [i, j] is at data + i * row + j * column.
struct MatrixView {
  const void* data;
  dim_t row;
  dim_t column;
};

// out = alpha * (A B) + beta * addend. No addend: null data. Where beta is 0 the
// addend is not read, so that a NaN in it does not come through.
struct Epilogue {
  Scalar alpha = Scalar(1);
  Scalar beta = Scalar(1);
  MatrixView addend = {nullptr, 0, 0};
};

// Products of one shape and one layout: prepare once, run for each of a batch.
// S: float, double, Half, BFloat16 and the five integer types.
template <class S>
class Product {
 public:
  // A is m by k, B k by n; of the views only the strides are looked at. False
  // when the context has not enough scratch.
  bool prepare(KernelContext& ctx, dim_t m, dim_t n, dim_t k, const MatrixView& a, const MatrixView& b);
  // From here on the products are of these sizes, none larger than was prepared for.
  void shrink(dim_t m, dim_t n, dim_t k) {
    m_ = m;
    n_ = n;
    k_ = k;
  }
  void run(const MatrixView& a, const MatrixView& b, const Epilogue& epilogue, S* out, dim_t out_row,
           dim_t out_column) const;

 private:
  using T = Compute<S>;
  dim_t m_ = 0, n_ = 0, k_ = 0;
  bool skinny_ = false;
  bool swapped_ = false;  // computed as the transposed product, so that m <= 4
  GemmBuffer buffer_;
};

}  // namespace penlight::portable
