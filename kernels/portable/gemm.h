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

#include "kernels/common/move.h"
#include "vector.h"

namespace penlight::portable {

inline dim_t smaller(dim_t a, dim_t b) { return a < b ? a : b; }
inline dim_t round_up(dim_t value, dim_t multiple) { return (value + multiple - 1) / multiple * multiple; }

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
GemmBuffer make_gemm_buffer(KernelContext& ctx, dim_t m, dim_t n, dim_t k) {
  using Shape = GemmShape<T>;
  const dim_t mc = smaller(round_up(m, Shape::tile_m), Shape::block_m);
  const dim_t nc = smaller(round_up(n, Shape::tile_n), Shape::block_n);
  const dim_t kc = smaller(k, Shape::block_k);
  T* all = ctx.allocate_scratch_array<T>(static_cast<size_t>(mc * kc + kc * nc + mc * nc));
  if (!all) return {};
  return {all, all + mc * kc, all + mc * kc + kc * nc};
}

// So many products are summed one after the other; then the sums are: roundings are fewer.
constexpr dim_t kRun = 64;

// One register tile: 4 rows by two vectors, eight sums that never leave registers
// over the whole of a k block. Panels are padded, so there are no edges here.
template <class T>
void multiply_tile(dim_t kc, const T* a, const T* b, T* c, dim_t ld, bool accumulate) {
  constexpr int lanes = GemmShape<T>::lanes, rows = GemmShape<T>::tile_m;
  Vector<T> sums[rows][2] = {};
  for (dim_t k = 0; k < kc; ++k, a += rows, b += 2 * lanes) {
    const Vector<T> b0 = load_vector(b), b1 = load_vector(b + lanes);
    repeat<rows>([&](auto i) {
      const Vector<T> factor = splat(a[i]);
      sums[i][0] += factor * b0;
      sums[i][1] += factor * b1;
    });
  }
  repeat<rows>([&](auto i) {
    repeat<2>([&](auto j) {
      T* to = c + i * ld + j * lanes;
      store_vector<T>(to, accumulate ? sums[i][j] + load_vector(to) : sums[i][j]);
    });
  });
}

template <class T>
void run_gemm(const Gemm<T>& gemm, const GemmBuffer& buffer) {
  using Shape = GemmShape<T>;
  T *packed_a = static_cast<T*>(buffer.a), *packed_b = static_cast<T*>(buffer.b);
  T* tile = static_cast<T*>(buffer.tile);
  if (gemm.m == 0 || gemm.n == 0) return;
  for (dim_t n0 = 0; n0 < gemm.n; n0 += Shape::block_n) {
    const dim_t cols = smaller(gemm.n - n0, Shape::block_n);
    const dim_t ld = round_up(cols, Shape::tile_n);
    for (dim_t m0 = 0; m0 < gemm.m; m0 += Shape::block_m) {
      const dim_t rows = smaller(gemm.m - m0, Shape::block_m);
      if (gemm.k == 0) memset(tile, 0, static_cast<size_t>(round_up(rows, Shape::tile_m) * ld) * sizeof(T));
      for (dim_t k0 = 0; k0 < gemm.k; k0 += Shape::block_k) {
        const dim_t kc = smaller(gemm.k - k0, Shape::block_k);
        gemm.pack_a(gemm.a, packed_a, Shape::tile_m, m0, rows, k0, kc);
        // With all of k in one block, the packed columns serve every block of rows.
        if (m0 == 0 || gemm.k > Shape::block_k)
          gemm.pack_b(gemm.b, packed_b, Shape::tile_n, n0, cols, k0, kc);
        for (dim_t j = 0; j < cols; j += Shape::tile_n) {
          for (dim_t i = 0; i < rows; i += Shape::tile_m) {
            for (dim_t k = 0; k < kc; k += kRun) {
              const T *a = packed_a + i * kc + k * Shape::tile_m, *b = packed_b + j * kc + k * Shape::tile_n;
              multiply_tile(smaller(kc - k, kRun), a, b, tile + i * ld + j, ld, k0 + k != 0);
            }
          }
        }
      }
      gemm.store(gemm.result, tile, ld, m0, n0, rows, cols);
    }
  }
}

// An operand that lies in memory with a stride along its rows (columns) and one along k.
struct StridedOperand {
  const void* data;
  dim_t stride;
  dim_t stride_k;
};

// Rows contiguous along k: four by four at a time, transposed in registers.
template <class S>
inline void transpose_4x4(const S* from, dim_t stride, float* to, dim_t width) {
  using Square = penlight::detail::Square<uint32_t>;
  Vector<float> rows[4];
  repeat<4>([&](auto i) { rows[i] = load_vector_as<S, float>(from + i * stride); });
  for (dim_t r = 0; r < 4; r += Square::kSize) {
    for (dim_t k = 0; k < 4; k += Square::kSize)
      Square::move(reinterpret_cast<const char*>(rows + r) + k * 4, 16,
                   reinterpret_cast<char*>(to + k * width + r), width * 4);
  }
}

// Copies `count` rows of `from` into one run of panels; the body of pack_strided
// and of packers whose k is cut into pieces. `to` advances by `width` a k.
template <class S, class T>
void pack_rows(const S* from, dim_t stride, dim_t stride_k, dim_t count, dim_t kc, T* to, dim_t width,
               dim_t panel_size) {
  for (dim_t i = 0; i < count; i += width, from += width * stride, to += panel_size) {
    const dim_t filled = smaller(width, count - i);
    if (filled == width && stride == 1) {
      for (dim_t k = 0; k < kc; ++k) {
        const S* row = from + k * stride_k;
        T* panel = to + k * width;
        for (dim_t p = 0; p < width; p += GemmShape<T>::lanes)
          store_vector<T>(panel + p, load_vector_as<S, T>(row + p));
      }
      continue;
    }
    dim_t k = 0;
    if constexpr (same_type<T, float>) {
      if (filled == width && stride_k == 1) {
        for (; k + 4 <= kc; k += 4) {
          for (dim_t p = 0; p < width; p += 4)
            transpose_4x4(from + p * stride + k, stride, to + k * width + p, width);
        }
      }
    }
    for (; k < kc; ++k) {
      const S* row = from + k * stride_k;
      T* panel = to + k * width;
      for (dim_t p = 0; p < filled; ++p) panel[p] = static_cast<T>(row[p * stride]);
      for (dim_t p = filled; p < width; ++p) panel[p] = T(0);
    }
  }
}

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
