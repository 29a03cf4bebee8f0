// Batches of matrices: what a kernel reads and writes for one of them at a time, copied into scratch in
// double and back.
#pragma once

#include "broadcast.h"
#include "checks.h"
#include "complex.h"
#include "span.h"

namespace penlight {

inline bool check_matrices(KernelContext& ctx, const Tensor& a) {
  return check(ctx, a.dim() >= 2, "a batch of matrices is wanted");
}

inline bool check_square(KernelContext& ctx, const Tensor& a) {
  return check(ctx, a.dim() >= 2 && a.size(-1) == a.size(-2), "a batch of square matrices is wanted");
}

// Items of tensors, in double or T, for each place of a batch: read before a step of for_each(), or written
// after it. The dimensions before an item's are the batch's, or broadcast to them.
class Batch {
 public:
  Batch(KernelContext& ctx, const Shape& sizes) : ctx_(ctx), sizes_(sizes) {}
  Batch(KernelContext& ctx, const Tensor& matrices)
      : Batch(ctx, Shape(matrices.sizes().slice(0, static_cast<size_t>(matrices.dim() - 2)))) {}

  // Where items of `from` are read to, which are its last dimensions: as many as the batch does not have, or
  // so many.
  template <class T = double>
  T* read(const Tensor& from, dim_t dims = -1) {
    return add<T>(from, dims < 0 ? from.dim() - sizes_.dim : dims, [](const Item& item, dim_t at) {
      item.span.load(static_cast<T*>(item.row), item.tensor->const_data_ptr(), at);
    });
  }

  // Where items of `to` are written from; it gets the batch's sizes and those of an item. One that is not
  // wanted is left empty.
  template <class T = double>
  T* write(Tensor& to, SizesRef item = {}, bool wanted = true) {
    Shape sizes = sizes_;
    for (const dim_t size : item) sizes.append(size);
    const dim_t none = 0;
    if (!ctx_.resize(to, wanted ? SizesRef(sizes) : SizesRef(&none, 1))) return nullptr;
    if (!wanted) return scratch<T>(ctx_, Shape(item).numel());
    outputs_ |= 1u << count_;
    return add<T>(to, static_cast<dim_t>(item.size()), [](const Item& written, dim_t at) {
      written.span.store(static_cast<T*>(written.row), written.tensor->mutable_data_ptr(), at);
    });
  }
  template <class T = double, size_t rank>
  T* write(Tensor& to, const dim_t (&item)[rank], bool wanted = true) {
    return write<T>(to, SizesRef(item), wanted);
  }

  // Calls step() for each of the batch, until one fails.
  template <class Step>
  void for_each(Step&& step) {
    const dim_t steps = sizes_.numel();
    for (dim_t i = 0; i < steps && ctx_.ok(); ++i) {
      move(i, ~outputs_);
      step();
      if (ctx_.ok()) move(i, outputs_);
    }
  }

 private:
  struct Item {
    const Tensor* tensor = nullptr;
    Span span{ScalarType::Byte};
    void* row = nullptr;
    void (*move)(const Item& item, dim_t at) = nullptr;
    dim_t strides[kMaxDim];  // from one item to the next
  };

  template <class T>
  T* add(const Tensor& tensor, dim_t dims, void (*move)(const Item&, dim_t)) {
    Item& item = items_[count_++];
    const dim_t outer = tensor.dim() - dims;
    const size_t leading = static_cast<size_t>(outer);
    broadcast_strides(sizes_, tensor.sizes().slice(0, leading), tensor.strides().slice(0, leading),
                      item.strides);
    item.tensor = &tensor;
    item.span = Span(tensor, outer, tensor.dim());
    item.move = move;
    T* const row = scratch<T>(ctx_, item.span.count());
    item.row = row;
    return row;
  }

  void move(dim_t place, uint32_t which) const {
    for (int k = 0; k < count_; ++k) {
      if (!(which & 1u << k)) continue;
      dim_t at = 0, rest = place;
      for (int d = sizes_.dim; d-- > 0; rest /= sizes_[d]) at += rest % sizes_[d] * items_[k].strides[d];
      items_[k].move(items_[k], at);
    }
  }

  KernelContext& ctx_;
  Shape sizes_;
  Item items_[6];
  int count_ = 0;
  uint32_t outputs_ = 0;
};

// Whether the first `dims` dimensions have the same sizes.
inline bool same_batch(const Tensor& a, const Tensor& b, dim_t dims) {
  for (dim_t d = 0; d < dims; ++d) {
    if (a.size(d) != b.size(d)) return false;
  }
  return true;
}

inline void exchange(double* x, double* y, dim_t count) {
  // So many at a time are moved by vectors.
  constexpr dim_t together = 8;
  double kept[together];
  dim_t c = 0;
  for (; c + together <= count; c += together) {
    memcpy(kept, x + c, sizeof kept);
    memcpy(x + c, y + c, sizeof kept);
    memcpy(y + c, kept, sizeof kept);
  }
  for (; c < count; ++c) {
    kept[0] = x[c];
    x[c] = y[c];
    y[c] = kept[0];
  }
}

inline void swap_rows(double* a, dim_t columns, dim_t first, dim_t second) {
  if (first != second) exchange(a + first * columns, a + second * columns, columns);
}

// Part of a matrix, whose rows begin `stride` apart, into one whose rows begin `to_stride` apart. In squares:
// columns of many rows do not stay in the cache.
inline void transpose_part(const double* from, dim_t stride, dim_t rows, dim_t columns, double* to,
                           dim_t to_stride) {
  constexpr dim_t side = 8;
  for (dim_t row = 0; row < rows; row += side) {
    const dim_t end = row + side < rows ? row + side : rows;
    for (dim_t j = 0; j < columns; ++j) {
      for (dim_t i = row; i < end; ++i) to[j * to_stride + i] = from[i * stride + j];
    }
  }
}

inline void transpose(const double* from, dim_t rows, dim_t columns, double* to) {
  transpose_part(from, columns, rows, columns, to, rows);
}

inline void set_identity(double* a, dim_t rows, dim_t columns) {
  for (dim_t i = 0; i < rows; ++i) {
    for (dim_t j = 0; j < columns; ++j) a[i * columns + j] = i == j ? 1 : 0;
  }
}

// Divides by the largest element, which is `scale`, so that squares neither overflow nor vanish.
template <class T>
bool normalise(KernelContext& ctx, T* a, dim_t count, double& scale) {
  scale = 0;
  for (dim_t i = 0; i < count; ++i) {
    const double size = math::abs(Complex(a[i]));
    if (!check(ctx, size - size == 0, "the matrix has elements that are not finite")) return false;
    if (size > scale) scale = size;
  }
  for (dim_t i = 0; i < count && scale > 0; ++i) a[i] = a[i] / T(scale);
  return true;
}

}  // namespace penlight
