// One product of two strided matrices, written through strides with an epilogue.
#pragma once

#include "matrix_vector.h"

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

template <class S>
struct Destination {
  using T = Compute<S>;
  S* out;
  dim_t row, column;
  T alpha, beta;
  const S* addend;
  dim_t addend_row, addend_column;
};

template <class S>
void store_product(const void* result, const Compute<S>* tile, dim_t ld, dim_t m0, dim_t n0, dim_t rows,
                   dim_t cols) {
  using T = Compute<S>;
  const Destination<S>& to = *static_cast<const Destination<S>*>(result);
  for (dim_t i = 0; i < rows; ++i) {
    const T* sums = tile + i * ld;
    S* out = to.out + (m0 + i) * to.row + n0 * to.column;
    const S* addend = to.addend ? to.addend + (m0 + i) * to.addend_row + n0 * to.addend_column : nullptr;
    if (to.alpha == T(1) && (!addend || to.beta == T(1))) {
      store_sums(sums, addend, to.addend_column, out, to.column, cols);
      continue;
    }
    for (dim_t j = 0; j < cols; ++j) {
      const T extra = addend ? to.beta * static_cast<T>(addend[j * to.addend_column]) : T(0);
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
    const S* addend = beta == T(0) ? nullptr : static_cast<const S*>(epilogue.addend.data);
    Destination<S> to = {out,  out_row, out_column,          epilogue.alpha.to<T>(),
                         beta, addend,  epilogue.addend.row, epilogue.addend.column};
    const StridedOperand rows = {a.data, a.row, a.column};
    const StridedOperand columns = {b.data, b.column, b.row};
    if constexpr (kHasSkinny<S>) {
      T *x = static_cast<T*>(buffer_.a), *tile = static_cast<T*>(buffer_.tile);
      if (skinny_ && swapped_) {
        to.row = out_column;
        to.column = out_row;
        to.addend_row = epilogue.addend.column;
        to.addend_column = epilogue.addend.row;
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
