// Whole tensors as rows of double, for operators that are seldom run: the
// gradients. Dtypes, layouts and the precision of long sums cost them no code.
#pragma once

#include "span.h"

namespace penlight::portable {

// The elements in row-major order; null, with the failure recorded, without scratch.
inline double* dense_copy(KernelContext& ctx, const Tensor& tensor) {
  double* row = ctx.allocate_scratch_array<double>(static_cast<size_t>(tensor.numel()) + 1);
  if (row) Span(tensor, 0, tensor.dim()).load(row, tensor.const_data_ptr(), 0);
  return row;
}

inline double* dense_zeros(KernelContext& ctx, dim_t count) {
  double* row = ctx.allocate_scratch_array<double>(static_cast<size_t>(count) + 1);
  if (row) memset(row, 0, static_cast<size_t>(count) * sizeof(double));
  return row;
}

inline void dense_store(const double* row, Tensor& tensor) {
  Span(tensor, 0, tensor.dim()).store(row, tensor.mutable_data_ptr(), 0);
}

}  // namespace penlight::portable
