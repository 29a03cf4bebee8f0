// Triangles and diagonals, and repeat_interleave's places.
#include "fill.h"

namespace penlight::portable {

static const char kZeros[16] = {};

// Of each row the kept columns, and zeros behind or before them. Rows are moved without views of their own,
// which take longer to make than a short row to move.
void triangle_out(KernelContext& ctx, bool lower, const Tensor& self, int64_t diagonal, Tensor& out) {
  if (!check(ctx, self.dim() >= 2, "a triangle is part of a matrix: at least 2 dimensions")) return;
  const View from = view_of(self);
  if (!check_same_dtype(ctx, self, out) || !resize_to(ctx, out, from) || out.numel() == 0) return;
  View to = view_of(out);
  const size_t item = out.element_size();
  const int column = to.dim - 1, row = column - 1;
  const int64_t rows = to.sizes[row], columns = to.sizes[column];
  const int64_t shift = diagonal > columns ? columns : diagonal < -rows ? -rows : diagonal;
  const dim_t still[kMaxViewDim] = {};
  to.sizes[row] = 1;
  for (dim_t i = 0; i < rows; ++i) {
    int64_t edge = i + shift + (lower ? 1 : 0);
    edge = edge < 0 ? 0 : edge > columns ? columns : edge;
    const char* const source = from.data + i * from.strides[row];
    char* const target = to.data + i * to.strides[row];
    // Columns [first, last) of this row of all matrices.
    const auto move = [&](int64_t first, int64_t last, const char* data, const dim_t* strides) {
      to.sizes[column] = static_cast<dim_t>(last - first);
      const Mover mover(item, to.dim, to.sizes, strides, to.strides);
      mover.run(data + first * strides[column], target + first * to.strides[column]);
    };
    move(lower ? 0 : edge, lower ? edge : columns, source, from.strides);
    move(lower ? edge : 0, lower ? columns : edge, kZeros, still);
  }
}

void diag_embed_out(KernelContext& ctx, const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2,
                    Tensor& out) {
  if (!check_same_dtype(ctx, self, out)) return;
  View sizes = view_of(self);
  int a, b;
  if (!check(ctx, sizes.dim > 0, "diag_embed takes a tensor with dimensions")) return;
  if (!wrap_dim(ctx, dim1, sizes.dim + 1, a) || !wrap_dim(ctx, dim2, sizes.dim + 1, b)) return;
  if (!check(ctx, a != b, "the diagonal's two dimensions must differ")) return;
  constexpr int64_t kFarthest = INT64_MAX / 4;
  if (!check(ctx, offset > -kFarthest && offset < kFarthest, "the diagonal is too far out")) return;
  const int64_t side = sizes.sizes[sizes.dim - 1] + (offset < 0 ? -offset : offset);
  sizes.remove_dim(sizes.dim - 1);
  sizes.insert_dim(a < b ? a : b, static_cast<dim_t>(side), 0);
  sizes.insert_dim(a < b ? b : a, static_cast<dim_t>(side), 0);
  if (!resize_to(ctx, out, sizes)) return;
  View to = view_of(out);
  fill_view(out.element_size(), kZeros, to);
  if (diagonal_view(ctx, to, offset, a, b)) move_view(out.element_size(), view_of(self), to);
}

// Place i, repeats[i] times.
void repeat_interleave_tensor_out(KernelContext& ctx, const Tensor& repeats, Optional<int64_t> output_size,
                                  Tensor& out) {
  if (!check_same_dtype(ctx, repeats, out)) return;
  if (!check(ctx, repeats.dim() == 1, "repeats have one dimension")) return;
  const ScalarType type = repeats.scalar_type();
  if (!check(ctx, type == ScalarType::Int || type == ScalarType::Long, "repeats are int32 or int64")) return;
  const View from = view_of(repeats);
  dim_t total = 0;
  for (dim_t i = 0; i < from.sizes[0]; ++i) {
    const int64_t times = load_element<int64_t>(type, from.data + i * from.strides[0]);
    if (times < 0 || __builtin_add_overflow(total, static_cast<dim_t>(times), &total))
      return ctx.fail(Status::KernelFailed, "element {} is to be repeated {} times", i, times);
  }
  if (output_size && output_size.value() != total)
    return ctx.fail(Status::KernelFailed, "repeats add up to {}, output_size is {}", total,
                    output_size.value());
  if (!ctx.resize(out, SizesRef(&total, 1))) return;
  View to = view_of(out);
  for (dim_t i = 0; i < from.sizes[0]; ++i) {
    char item[16];
    to.sizes[0] = static_cast<dim_t>(load_element<int64_t>(type, from.data + i * from.strides[0]));
    store_element<int64_t>(type, item, i);
    fill_view(out.element_size(), item, to);
    to.data += to.sizes[0] * to.strides[0];
  }
}

// Rows and columns of a triangle's elements, row by row.
void triangle_indices_out(KernelContext& ctx, bool lower, int64_t rows, int64_t columns, int64_t offset,
                          Tensor& out) {
  constexpr int64_t kMost = INT64_MAX / 8;
  const bool sane =
      rows >= 0 && columns >= 0 && rows < kMost && columns < kMost && offset > -kMost && offset < kMost;
  if (!check(ctx, sane, "a triangle has sizes that are not negative")) return;
  const auto row_range = [&](int64_t row, int64_t& first, int64_t& last) {
    int64_t edge = row + offset + (lower ? 1 : 0);
    edge = edge < 0 ? 0 : edge > columns ? columns : edge;
    first = lower ? 0 : edge;
    last = lower ? edge : columns;
  };
  dim_t count = 0;
  int64_t first, last;
  // Rows without elements come first below the diagonal, last above it: they are not
  // visited, and no more than `out` has room for, however many there are said to be.
  const int64_t begin = lower && offset < 0 ? (-offset < rows ? -offset : rows) : 0;
  const int64_t most = static_cast<int64_t>(out.unsafeGetTensorImpl()->capacity);
  int64_t end = begin;
  for (; columns > 0 && end < rows && count <= most; ++end) {
    row_range(end, first, last);
    if (first == last) break;
    if (__builtin_add_overflow(count, static_cast<dim_t>(last - first), &count)) break;
  }
  const dim_t sizes[] = {2, count};
  if (!ctx.resize(out, sizes) || count == 0) return;
  dispatch<IndexTypes>(ctx, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* to = out.data_ptr<T>();
    for (int64_t row = begin; row < end; ++row) {
      row_range(row, first, last);
      for (int64_t column = first; column < last; ++column, to += out.stride(1)) {
        to[0] = static_cast<T>(row);
        to[out.stride(0)] = static_cast<T>(column);
      }
    }
  });
}

}  // namespace penlight::portable
