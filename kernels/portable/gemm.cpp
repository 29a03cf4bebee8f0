#include "gemm.h"

#include <string.h>

#include "kernels/common/convert.h"
#include "vector.h"

namespace penlight::portable {

namespace {

inline dim_t min_dim(dim_t a, dim_t b) { return a < b ? a : b; }
inline dim_t round_up(dim_t value, dim_t multiple) { return (value + multiple - 1) / multiple * multiple; }

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

}  // namespace

template <class T>
GemmBuffer make_gemm_buffer(KernelContext& ctx, dim_t m, dim_t n, dim_t k) {
  using Shape = GemmShape<T>;
  const dim_t mc = min_dim(round_up(m, Shape::tile_m), Shape::block_m);
  const dim_t nc = min_dim(round_up(n, Shape::tile_n), Shape::block_n);
  const dim_t kc = min_dim(k, Shape::block_k);
  T* all = ctx.allocate_scratch_array<T>(static_cast<size_t>(mc * kc + kc * nc + mc * nc));
  if (!all) return {};
  return {all, all + mc * kc, all + mc * kc + kc * nc};
}

template <class T>
void run_gemm(const Gemm<T>& gemm, const GemmBuffer& buffer) {
  using Shape = GemmShape<T>;
  T *packed_a = static_cast<T*>(buffer.a), *packed_b = static_cast<T*>(buffer.b);
  T* tile = static_cast<T*>(buffer.tile);
  if (gemm.m == 0 || gemm.n == 0) return;
  for (dim_t n0 = 0; n0 < gemm.n; n0 += Shape::block_n) {
    const dim_t cols = min_dim(gemm.n - n0, Shape::block_n);
    const dim_t ld = round_up(cols, Shape::tile_n);
    for (dim_t m0 = 0; m0 < gemm.m; m0 += Shape::block_m) {
      const dim_t rows = min_dim(gemm.m - m0, Shape::block_m);
      if (gemm.k == 0) memset(tile, 0, static_cast<size_t>(round_up(rows, Shape::tile_m) * ld) * sizeof(T));
      for (dim_t k0 = 0; k0 < gemm.k; k0 += Shape::block_k) {
        const dim_t kc = min_dim(gemm.k - k0, Shape::block_k);
        gemm.pack_a(gemm.a, packed_a, Shape::tile_m, m0, rows, k0, kc);
        // With all of k in one block, the packed columns serve every block of rows.
        if (m0 == 0 || gemm.k > Shape::block_k)
          gemm.pack_b(gemm.b, packed_b, Shape::tile_n, n0, cols, k0, kc);
        for (dim_t j = 0; j < cols; j += Shape::tile_n) {
          for (dim_t i = 0; i < rows; i += Shape::tile_m) {
            for (dim_t k = 0; k < kc; k += kRun) {
              const T *a = packed_a + i * kc + k * Shape::tile_m, *b = packed_b + j * kc + k * Shape::tile_n;
              multiply_tile(min_dim(kc - k, kRun), a, b, tile + i * ld + j, ld, k0 + k != 0);
            }
          }
        }
      }
      gemm.store(gemm.result, tile, ld, m0, n0, rows, cols);
    }
  }
}

namespace {

// Rows contiguous along k: four by four at a time, transposed in registers.
template <class S>
inline void transpose_4x4(const S* from, dim_t stride, float* to, dim_t width) {
  const Vector<float> r0 = load_vector_as<S, float>(from), r1 = load_vector_as<S, float>(from + stride);
  const Vector<float> r2 = load_vector_as<S, float>(from + 2 * stride);
  const Vector<float> r3 = load_vector_as<S, float>(from + 3 * stride);
#if defined(__clang__)
  const Vector<float> t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
  const Vector<float> t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
  const Vector<float> t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
  const Vector<float> t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
  store_vector(to, __builtin_shufflevector(t0, t2, 0, 1, 4, 5));
  store_vector(to + width, __builtin_shufflevector(t0, t2, 2, 3, 6, 7));
  store_vector(to + 2 * width, __builtin_shufflevector(t1, t3, 0, 1, 4, 5));
  store_vector(to + 3 * width, __builtin_shufflevector(t1, t3, 2, 3, 6, 7));
#else
  typedef int32_t Lanes __attribute__((vector_size(16)));
  const Lanes low{0, 4, 1, 5}, high{2, 6, 3, 7}, first{0, 1, 4, 5}, last{2, 3, 6, 7};
  const Vector<float> t0 = __builtin_shuffle(r0, r1, low), t1 = __builtin_shuffle(r0, r1, high);
  const Vector<float> t2 = __builtin_shuffle(r2, r3, low), t3 = __builtin_shuffle(r2, r3, high);
  store_vector(to, __builtin_shuffle(t0, t2, first));
  store_vector(to + width, __builtin_shuffle(t0, t2, last));
  store_vector(to + 2 * width, __builtin_shuffle(t1, t3, first));
  store_vector(to + 3 * width, __builtin_shuffle(t1, t3, last));
#endif
}

}  // namespace

template <class S, class T>
void pack_rows(const S* from, dim_t stride, dim_t stride_k, dim_t count, dim_t kc, T* to, dim_t width,
               dim_t panel_size) {
  for (dim_t i = 0; i < count; i += width, from += width * stride, to += panel_size) {
    const dim_t filled = min_dim(width, count - i);
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

#define PENLIGHT_GEMM(T)                                                        \
  template GemmBuffer make_gemm_buffer<T>(KernelContext&, dim_t, dim_t, dim_t); \
  template void run_gemm<T>(const Gemm<T>&, const GemmBuffer&);
#define PENLIGHT_PACK(S, T) \
  template void pack_rows<S, T>(const S*, dim_t, dim_t, dim_t, dim_t, T*, dim_t, dim_t);
PENLIGHT_GEMM(float)
PENLIGHT_GEMM(double)
PENLIGHT_GEMM(int64_t)
PENLIGHT_PACK(float, float)
PENLIGHT_PACK(float, double)
PENLIGHT_PACK(Half, float)
PENLIGHT_PACK(BFloat16, float)
PENLIGHT_PACK(double, double)
PENLIGHT_PACK(uint8_t, int64_t)
PENLIGHT_PACK(int8_t, int64_t)
PENLIGHT_PACK(int16_t, int64_t)
PENLIGHT_PACK(int32_t, int64_t)
PENLIGHT_PACK(int64_t, int64_t)
#undef PENLIGHT_PACK
#undef PENLIGHT_GEMM

}  // namespace penlight::portable
