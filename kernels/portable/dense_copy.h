// Whole tensors as rows of double, for operators that are seldom run: the
// gradients. Dtypes, layouts and the precision of long sums cost them no code.
#pragma once

#include "span.h"

namespace penlight::portable {

// The elements in row-major order; null, with the failure recorded, without scratch.
template <class T = double>
T* dense_copy(KernelContext& ctx, const Tensor& tensor) {
  T* row = scratch<T>(ctx, tensor.numel());
  if (row) Span(tensor, 0, tensor.dim()).load(row, tensor.const_data_ptr(), 0);
  return row;
}

inline double* dense_zeros(KernelContext& ctx, dim_t count) {
  double* row = scratch(ctx, count);
  if (row) memset(row, 0, static_cast<size_t>(count) * sizeof(double));
  return row;
}

template <class T>
void dense_store(const T* row, Tensor& tensor) {
  Span(tensor, 0, tensor.dim()).store(row, tensor.mutable_data_ptr(), 0);
}

}  // namespace penlight::portable
