// Heads of attention in a tensor: matrices of their own, or columns of rows.
#pragma once

#include <penlight/kernel.h>
#include <stdint.h>

namespace penlight::optimized {

// The list is empty for [batch, heads, rows, width]; else the tensor is [batch, rows, columns],
// or [rows, batch, columns], and the list has the number of heads, columns of each, where the
// first begins, from one to the next, and whether rows come first.
struct Heads {
  dim_t batches, heads, rows, width;
  dim_t batch_pitch, head_pitch, row_pitch, offset;

  bool read(const Tensor& tensor, ArrayRef<int64_t> list) {
    if (tensor.scalar_type() != ScalarType::Float || !(tensor.stride(-1) == 1 || tensor.size(-1) == 1)) {
      return false;
    }
    if (list.empty()) {
      if (tensor.dim() != 4) return false;
      *this = {tensor.size(0),   tensor.size(1),   tensor.size(2),   tensor.size(3),
               tensor.stride(0), tensor.stride(1), tensor.stride(2), 0};
      return true;
    }
    if (tensor.dim() != 3 || list.size() != 5) return false;
    dim_t own[4];
    for (int i = 0; i < 4; ++i) {
      if (list[i] < 0 || list[i] > INT32_MAX) return false;
      own[i] = static_cast<dim_t>(list[i]);
    }
    const dim_t batch = list[4] ? 1 : 0, row = 1 - batch;
    *this = {tensor.size(batch),   own[0], tensor.size(row),   own[1],
             tensor.stride(batch), own[3], tensor.stride(row), own[2]};
    dim_t last = 0, end = 0;
    return heads > 0 && width > 0 && head_pitch >= 0 && offset >= 0 &&
           !__builtin_mul_overflow(heads - 1, head_pitch, &last) &&
           !__builtin_add_overflow(last, offset, &last) && !__builtin_add_overflow(last, width, &end) &&
           end <= tensor.size(2);
  }
};

}  // namespace penlight::optimized
