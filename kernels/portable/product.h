// One product of two strided matrices, written through strides with an epilogue.
#pragma once

#include "gemm.h"

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

// Products with at most four rows: a language model's decode step, mv, dot.
//
// There is nothing to reuse in such a product, so packing would only cost: the
// matrix is read once, in the order it lies in memory, and the few rows of the
// other operand stay in the cache.
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

template <class S>
struct Destination {
  using T = Compute<S>;
  S* out;
  dim_t row, column;
  T alpha, beta;
  MatrixView addend;
};

template <class S>
void store_product(const void* result, const Compute<S>* tile, dim_t ld, dim_t m0, dim_t n0, dim_t rows,
                   dim_t cols) {
  using T = Compute<S>;
  const Destination<S>& to = *static_cast<const Destination<S>*>(result);
  for (dim_t i = 0; i < rows; ++i) {
    const T* sums = tile + i * ld;
    S* out = to.out + (m0 + i) * to.row + n0 * to.column;
    const S* addend = static_cast<const S*>(to.addend.data);
    if (addend) addend += (m0 + i) * to.addend.row + n0 * to.addend.column;
    if (to.alpha == T(1) && (!addend || to.beta == T(1))) {
      store_sums(sums, addend, to.addend.column, out, to.column, cols);
      continue;
    }
    for (dim_t j = 0; j < cols; ++j) {
      const T extra = addend ? to.beta * static_cast<T>(addend[j * to.addend.column]) : T(0);
      out[j * to.column] = static_cast<S>(to.alpha * sums[j] + extra);
    }
  }
}

// Whether products with few rows or columns have a way of their own.
template <class S>
constexpr bool kHasSkinny = !kSmallCode && !same_type<Compute<S>, int64_t>;

// Products of one shape and one layout: prepare once, run for each of a batch.
// S: float, double, Half, BFloat16 and the five integer types.
template <class S>
class Product {
 public:
  // A is m by k, B k by n; of the views only the strides are looked at. False
  // when the context has not enough scratch.
  bool prepare(KernelContext& ctx, dim_t m, dim_t n, dim_t k, const MatrixView& a, const MatrixView& b) {
    shrink(m, n, k);
    skinny_ = swapped_ = false;
    if (m == 0 || n == 0) return true;
    if constexpr (kHasSkinny<S>) {
      const bool few_rows = m <= kSkinnyRows && (b.row == 1 || b.column == 1 || k <= 1);
      const bool few_columns = n <= kSkinnyRows && (a.row == 1 || a.column == 1 || k <= 1);
      skinny_ = few_rows || few_columns;
      swapped_ = skinny_ && (!few_rows || (few_columns && n < m));
      if (skinny_) {
        const dim_t rows = swapped_ ? n : m;
        T* scratch = ctx.allocate_scratch_array<T>(static_cast<size_t>(rows * (k + kSkinnyChunk)));
        buffer_.a = scratch;
        buffer_.tile = scratch ? scratch + rows * k : nullptr;
        return scratch != nullptr;
      }
    }
    buffer_ = make_gemm_buffer<T>(ctx, m, n, k);
    return buffer_.tile != nullptr;
  }

  // From here on the products are of these sizes, none larger than was prepared for.
  void shrink(dim_t m, dim_t n, dim_t k) {
    m_ = m;
    n_ = n;
    k_ = k;
  }
  void run(const MatrixView& a, const MatrixView& b, const Epilogue& epilogue, S* out, dim_t out_row,
           dim_t out_column) const {
    if (m_ == 0 || n_ == 0) return;
    const T beta = epilogue.beta.to<T>();
    Destination<S> to = {out, out_row, out_column, epilogue.alpha.to<T>(), beta, epilogue.addend};
    if (beta == T(0)) to.addend.data = nullptr;
    const StridedOperand rows = {a.data, a.row, a.column};
    const StridedOperand columns = {b.data, b.column, b.row};
    if constexpr (kHasSkinny<S>) {
      T *x = static_cast<T*>(buffer_.a), *tile = static_cast<T*>(buffer_.tile);
      if (skinny_ && swapped_) {
        to = {out, out_column, out_row, to.alpha, beta, {to.addend.data, to.addend.column, to.addend.row}};
        return run_skinny<S, T>(columns, rows, n_, m_, k_, x, tile, store_product<S>, &to);
      }
      if (skinny_) return run_skinny<S, T>(rows, columns, m_, n_, k_, x, tile, store_product<S>, &to);
    }
    const Gemm<T> gemm = {
        m_, n_, k_, pack_strided<S, T>, &rows, pack_strided<S, T>, &columns, store_product<S>, &to};
    run_gemm(gemm, buffer_);
  }

 private:
  using T = Compute<S>;
  dim_t m_ = 0, n_ = 0, k_ = 0;
  bool skinny_ = false;
  bool swapped_ = false;  // computed as the transposed product, so that m <= 4
  GemmBuffer buffer_;
};

}  // namespace penlight::portable
