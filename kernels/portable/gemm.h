// The one matrix product behind mm, linear, convolution and recurrent layers.
//
//   C[m, n] = sum over k of A[m, k] * B[k, n]
//
// Both operands are copied into panels a few rows (columns) wide, block by block,
// so that the inner loop reads memory in order and keeps its sums in registers.
// Who calls says how to fill a panel and what to do with a finished block of C:
// a convolution packs patches of its input and so never builds the whole matrix
// of patches, a half-precision product converts while packing and sums in float.
//
// Sums run over k in increasing order, so a result is the same in every run.
#pragma once

#include <penlight/kernel.h>

#include "kernels/common/convert.h"
#include "vector.h"

namespace penlight::portable {

template <class T>
struct GemmShape {
  static constexpr int lanes = 16 / sizeof(T);
  static constexpr dim_t tile_m = 4;          // rows of one register tile
  static constexpr dim_t tile_n = 2 * lanes;  // columns of one register tile
  static constexpr dim_t block_m = 96;
  static constexpr dim_t block_n = 128 * lanes / 2;
  static constexpr dim_t block_k = 256;
};

// Copies rows [first, first + count) of A (or columns of B), columns (rows)
// [k0, k0 + kc), into panels `width` wide: to[panel][k][width], what lies past
// `count` filled with zeros.
template <class T>
using PackFn = void (*)(const void* operand, T* to, dim_t width, dim_t first, dim_t count, dim_t k0,
                        dim_t kc);

// Takes the finished sums of rows [m0, m0 + rows) and columns [n0, n0 + cols);
// row i begins at tile + i * ld.
template <class T>
using StoreFn = void (*)(const void* result, const T* tile, dim_t ld, dim_t m0, dim_t n0, dim_t rows,
                         dim_t cols);

template <class T>
struct Gemm {
  dim_t m, n, k;
  PackFn<T> pack_a;
  const void* a;
  PackFn<T> pack_b;
  const void* b;
  StoreFn<T> store;
  const void* result;
};

// Scratch for products up to the sizes it was made for; at most a few hundred KB. Null pointers
// when there is not enough; the context then says so.
struct GemmBuffer {
  void *a = nullptr, *b = nullptr, *tile = nullptr;
};

template <class T>
GemmBuffer make_gemm_buffer(KernelContext& ctx, dim_t m, dim_t n, dim_t k);

template <class T>
void run_gemm(const Gemm<T>& gemm, const GemmBuffer& buffer);

// An operand that lies in memory with a stride along its rows (columns) and one along k.
struct StridedOperand {
  const void* data;
  dim_t stride;
  dim_t stride_k;
};

// Copies `count` rows of `from` into one run of panels; the body of pack_strided
// and of packers whose k is cut into pieces. `to` advances by `width` a k.
template <class S, class T>
void pack_rows(const S* from, dim_t stride, dim_t stride_k, dim_t count, dim_t kc, T* to, dim_t width,
               dim_t panel_size);

template <class S, class T>
void pack_strided(const void* operand, T* to, dim_t width, dim_t first, dim_t count, dim_t k0, dim_t kc) {
  const StridedOperand& matrix = *static_cast<const StridedOperand*>(operand);
  const S* from = static_cast<const S*>(matrix.data) + first * matrix.stride + k0 * matrix.stride_k;
  pack_rows<S, T>(from, matrix.stride, matrix.stride_k, count, kc, to, width, width * kc);
}

// out[j * step] = sums[j] + extra[j * extra_step], without `extra` where it is null: a row of a finished
// tile.
template <class S, class T>
void store_sums(const T* sums, const S* extra, dim_t extra_step, S* out, dim_t step, dim_t count) {
  dim_t j = 0;
  if constexpr (same_type<S, T> && !kSmallCode) {
    constexpr int lanes = VectorOf<T>::lanes;
    const bool in_vectors = step == 1 && (!extra || extra_step == 0 || extra_step == 1);
    for (; in_vectors && j + lanes <= count; j += lanes) {
      Vector<T> value = load_vector(sums + j);
      if (extra) value += extra_step ? load_vector(extra + j) : splat(*extra);
      store_vector(out + j, value);
    }
  }
  for (; j < count; ++j)
    out[j * step] = static_cast<S>(extra ? sums[j] + static_cast<T>(extra[j * extra_step]) : sums[j]);
}

}  // namespace penlight::portable
