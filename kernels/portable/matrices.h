// A tensor as a batch of matrices, each copied into rows of double and back.
#pragma once

#include "dense_copy.h"
#include "kernels/common/checks.h"

namespace penlight::portable {

// The last two dimensions of a tensor, and how many such matrices there are.
class Matrices {
 public:
  explicit Matrices(const Tensor& tensor)
      : tensor_(tensor),
        outer_(tensor, 0, tensor.dim() - 2),
        inner_(tensor, tensor.dim() - 2, tensor.dim()) {}
  dim_t count() const { return outer_.count(); }
  dim_t rows() const { return tensor_.size(-2); }
  dim_t columns() const { return tensor_.size(-1); }
  void load(dim_t i, double* to) const { inner_.load(to, tensor_.const_data_ptr(), outer_.offset(i)); }
  void store(dim_t i, const double* from) const {
    inner_.store(from, tensor_.mutable_data_ptr(), outer_.offset(i));
  }

 private:
  const Tensor& tensor_;
  Span outer_, inner_;
};

inline bool check_matrices(KernelContext& ctx, const Tensor& a) {
  return check(ctx, a.dim() >= 2, "a batch of matrices is wanted");
}

inline bool check_square(KernelContext& ctx, const Tensor& a) {
  return check(ctx, a.dim() >= 2 && a.size(-1) == a.size(-2), "a batch of square matrices is wanted");
}

// The batch of `a`, and in place of its matrices what is given.
inline bool resize_batch(KernelContext& ctx, const Tensor& a, SizesRef item, Tensor& out) {
  dim_t sizes[kMaxDim];
  const size_t batch = static_cast<size_t>(a.dim() - 2);
  for (size_t d = 0; d < batch; ++d) sizes[d] = a.size(static_cast<dim_t>(d));
  for (size_t d = 0; d < item.size(); ++d) sizes[batch + d] = item[d];
  return ctx.resize(out, SizesRef(sizes, batch + item.size()));
}
inline bool resize_batch(KernelContext& ctx, const Tensor& a, dim_t rows, dim_t columns, Tensor& out) {
  const dim_t item[] = {rows, columns};
  return resize_batch(ctx, a, SizesRef(item, 2), out);
}
inline bool resize_batch(KernelContext& ctx, const Tensor& a, dim_t length, Tensor& out) {
  return resize_batch(ctx, a, SizesRef(&length, 1), out);
}
inline bool resize_batch(KernelContext& ctx, const Tensor& a, Tensor& out) {
  return resize_batch(ctx, a, SizesRef(), out);
}

// Item i of a batch of numbers or of vectors.
template <class T>
void store_item_of(Tensor& out, dim_t batch_dims, dim_t i, const T* values) {
  const dim_t at = Span(out, 0, batch_dims).offset(i);
  Span(out, batch_dims, out.dim()).store(values, out.mutable_data_ptr(), at);
}
template <class T>
void load_item_of(const Tensor& from, dim_t batch_dims, dim_t i, T* values) {
  const dim_t at = Span(from, 0, batch_dims).offset(i);
  Span(from, batch_dims, from.dim()).load(values, from.const_data_ptr(), at);
}

// Whether the first `dims` dimensions have the same sizes.
inline bool same_batch(const Tensor& a, const Tensor& b, dim_t dims) {
  for (dim_t d = 0; d < dims; ++d) {
    if (a.size(d) != b.size(d)) return false;
  }
  return true;
}

// An output that is not asked for.
inline bool resize_to_nothing(KernelContext& ctx, Tensor& out) {
  const dim_t none = 0;
  return ctx.resize(out, SizesRef(&none, 1));
}

// Room for so many numbers; null, with the failure recorded.
template <class T = double>
T* scratch(KernelContext& ctx, dim_t rows, dim_t columns = 1) {
  return ctx.allocate_scratch_array<T>(static_cast<size_t>(rows * columns) + 1);
}

inline void swap_rows(double* a, dim_t columns, dim_t first, dim_t second) {
  for (dim_t c = 0; c < columns && first != second; ++c) {
    const double kept = a[first * columns + c];
    a[first * columns + c] = a[second * columns + c];
    a[second * columns + c] = kept;
  }
}

inline void transpose(const double* from, dim_t rows, dim_t columns, double* to) {
  for (dim_t i = 0; i < rows; ++i) {
    for (dim_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
  }
}

inline void set_identity(double* a, dim_t rows, dim_t columns) {
  for (dim_t i = 0; i < rows; ++i) {
    for (dim_t j = 0; j < columns; ++j) a[i * columns + j] = i == j ? 1 : 0;
  }
}

}  // namespace penlight::portable
