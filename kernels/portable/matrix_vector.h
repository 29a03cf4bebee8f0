// Products with at most four rows: a language model's decode step, mv, dot.
//
// There is nothing to reuse in such a product, so packing would only cost: the
// matrix is read once, in the order it lies in memory, and the few rows of the
// other operand stay in the cache.
#pragma once

#include <penlight/kernel.h>

#include "gemm.h"
#include "kernels/common/convert.h"
#include "vector.h"

namespace penlight::portable {

constexpr int kSkinnyRows = 4;
constexpr dim_t kSkinnyChunk = 512;  // columns finished together

// sums[r][m] of `columns` columns of B, each contiguous along k, with `rows` rows of x.
template <int rows, int columns, class S, class T>
inline void dot_columns(const S* b, dim_t stride, const T* x, dim_t k, T* tile, dim_t ld) {
  constexpr int lanes = VectorOf<T>::lanes;
  Vector<T> sums[columns][rows] = {};
  dim_t i = 0;
  for (; i + lanes <= k; i += lanes) {
    Vector<T> xs[rows];
    repeat<rows>([&](auto m) { xs[m] = load_vector(x + m * k + i); });
    repeat<columns>([&](auto c) {
      const Vector<T> bs = load_vector_as<S, T>(b + c * stride + i);
      repeat<rows>([&](auto m) { sums[c][m] += xs[m] * bs; });
    });
  }
  for (int c = 0; c < columns; ++c) {
    for (int m = 0; m < rows; ++m) {
      T sum = sum_lanes<T>(sums[c][m]);
      for (dim_t j = i; j < k; ++j) sum += x[m * k + j] * static_cast<T>(b[c * stride + j]);
      tile[m * ld + c] = sum;
    }
  }
}

template <int rows, class S, class T>
void multiply_columns(const S* b, dim_t stride, const T* x, dim_t n, dim_t k, T* tile, dim_t ld) {
  constexpr int columns = rows <= 2 ? 4 : 2;
  dim_t c = 0;
  for (; c + columns <= n; c += columns)
    dot_columns<rows, columns>(b + c * stride, stride, x, k, tile + c, ld);
  for (; c < n; ++c) dot_columns<rows, 1>(b + c * stride, stride, x, k, tile + c, ld);
}

// C = A B for m <= 4 where B is contiguous along k or along n. `x` holds m * k
// elements and `tile` m * kSkinnyChunk, both scratch.
template <class S, class T>
void run_skinny(const StridedOperand& a, const StridedOperand& b, dim_t m, dim_t n, dim_t k, T* x, T* tile,
                StoreFn<T> store, const void* result) {
  const S* from = static_cast<const S*>(a.data);
  for (dim_t i = 0; i < m; ++i) {
    for (dim_t j = 0; j < k; ++j) x[i * k + j] = static_cast<T>(from[i * a.stride + j * a.stride_k]);
  }
  const S* columns = static_cast<const S*>(b.data);
  const dim_t ld = kSkinnyChunk;
  for (dim_t n0 = 0; n0 < n; n0 += kSkinnyChunk) {
    const dim_t count = n - n0 < kSkinnyChunk ? n - n0 : kSkinnyChunk;
    const S* at = columns + n0 * b.stride;
    if (b.stride_k == 1 || k <= 1) {
      repeat<kSkinnyRows>([&](auto below) {
        if (m == below + 1) multiply_columns<below + 1>(at, b.stride, x, count, k, tile, ld);
      });
    } else {
      // Columns side by side: sums of all of them grow row by row of B.
      for (dim_t row = 0; row < m; ++row) {
        T* sums = tile + row * ld;
        for (dim_t c = 0; c < count; ++c) sums[c] = T(0);
        for (dim_t i = 0; i < k; ++i) add_scaled(at + i * b.stride_k, x[row * k + i], count, sums);
      }
    }
    store(result, tile, ld, 0, n0, m, count);
  }
}

}  // namespace penlight::portable
