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

// Scratch for products up to the sizes it was made for; at most a few hundred KB.
template <class T>
struct GemmBuffer {
  T* a = nullptr;
  T* b = nullptr;
  T* tile = nullptr;
  explicit operator bool() const { return tile != nullptr; }
};

// False in its bool when there is not enough scratch; the context then says so.
template <class T>
GemmBuffer<T> make_gemm_buffer(KernelContext& ctx, dim_t m, dim_t n, dim_t k);

template <class T>
void run_gemm(const Gemm<T>& gemm, const GemmBuffer<T>& buffer);

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

}  // namespace penlight::portable
