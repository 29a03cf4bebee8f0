// Copies of views: each kernel says which elements of its input are seen and in
// which order; move_to_out() gives `out` that shape and moves them. And copies of an
// input in which a view is replaced.
#include "kernels/common/view.h"

namespace penlight::portable {

void permute_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef dims, Tensor& out) {
  copy_view(ctx, self, out, [&](View& view) { return permute_view(ctx, view, dims); });
}

void transpose_copy_int_out(KernelContext& ctx, const Tensor& self, int64_t dim0, int64_t dim1, Tensor& out) {
  copy_view(ctx, self, out, [&](View& view) { return transpose_view(ctx, view, dim0, dim1); });
}

void t_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (self.dim() > 2) return ctx.fail("t() takes at most 2 dimensions, input has {}", self.dim());
  transpose_copy_int_out(ctx, self, 0, self.dim() < 2 ? 0 : 1, out);
}

void alias_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) { copy_whole(ctx, self, out); }

void slice_copy_tensor_out(KernelContext& ctx, const Tensor& self, int64_t dim, Optional<int64_t> start,
                           Optional<int64_t> end, int64_t step, Tensor& out) {
  copy_view(ctx, self, out, [&](View& view) { return slice_view(ctx, view, dim, start, end, step); });
}

void narrow_copy_out(KernelContext& ctx, const Tensor& self, int64_t dim, int64_t start, int64_t length,
                     Tensor& out) {
  return copy_view(ctx, self, out, [&](View& view) {
    int d;
    if (!wrap_dim(ctx, dim, view.dim, d)) return false;
    if (view.dim == 0) return ctx.refuse("narrow takes a tensor with dimensions");
    const int64_t size = view.sizes[d];
    const int64_t first = start < 0 ? start + size : start;
    if (length < 0 || first < 0 || first > size || length > size - first)
      return ctx.refuse("start {} and length {} are out of range for dimension {} with size {}", start,
                        length, d, size);
    view = part_of(view, d, static_cast<dim_t>(first), static_cast<dim_t>(length));
    return true;
  });
}

void select_copy_int_out(KernelContext& ctx, const Tensor& self, int64_t dim, int64_t index, Tensor& out) {
  copy_view(ctx, self, out, [&](View& view) { return select_view(ctx, view, dim, index); });
}

void expand_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef size, bool, Tensor& out) {
  copy_view(ctx, self, out, [&](View& view) { return expand_view(ctx, view, size); });
}

// Removes the dimensions of size 1 that `chosen` has a bit for.
static void squeeze(KernelContext& ctx, const Tensor& self, uint32_t chosen, Tensor& out) {
  return copy_view(ctx, self, out, [&](View& view) {
    for (int d = view.dim; d-- > 0;) {
      if ((chosen & (1u << d)) && view.sizes[d] == 1) view.remove_dim(d);
    }
    return true;
  });
}

void squeeze_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) { squeeze(ctx, self, ~0u, out); }

void squeeze_copy_dims_out(KernelContext& ctx, const Tensor& self, IntArrayRef dims, Tensor& out) {
  uint32_t chosen = 0;
  for (int64_t dim : dims) {
    if (!normalize_dim(ctx, dim, self.dim())) return;
    chosen |= 1u << dim;
  }
  squeeze(ctx, self, chosen, out);
}

void squeeze_copy_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  squeeze_copy_dims_out(ctx, self, {&dim, 1}, out);
}

void unsqueeze_copy_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  return copy_view(ctx, self, out, [&](View& view) {
    if (!normalize_dim(ctx, dim, view.dim + 1)) return false;
    view.insert_dim(static_cast<int>(dim), 1, 0);
    return true;
  });
}

void as_strided_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef size, IntArrayRef stride,
                         Optional<int64_t> storage_offset, Tensor& out) {
  return copy_view(ctx, self, out, [&](View& view) {
    return as_strided_view(ctx, self, size, stride, storage_offset, view);
  });
}

void diagonal_copy_out(KernelContext& ctx, const Tensor& self, int64_t offset, int64_t dim1, int64_t dim2,
                       Tensor& out) {
  copy_view(ctx, self, out, [&](View& view) { return diagonal_view(ctx, view, offset, dim1, dim2); });
}

void unfold_copy_out(KernelContext& ctx, const Tensor& self, int64_t dimension, int64_t size, int64_t step,
                     Tensor& out) {
  return copy_view(ctx, self, out, [&](View& view) {
    int d;
    if (!wrap_dim(ctx, dimension, view.dim, d)) return false;
    const dim_t length = view.dim == 0 ? 1 : view.sizes[d];
    const dim_t stride = view.dim == 0 ? 0 : view.strides[d];
    if (size < 0 || size > length || step <= 0)
      return ctx.refuse("windows of {} every {} do not fit dimension {} with size {}", size, step, d, length);
    if (view.dim > 0) {
      view.sizes[d] = static_cast<dim_t>((length - size) / step + 1);
      // Past the end only where there is a single window and the stride is not used.
      view.strides[d] = view.sizes[d] == 1 ? 0 : stride * static_cast<dim_t>(step);
    }
    view.insert_dim(view.dim, static_cast<dim_t>(size), stride);
    return true;
  });
}

static bool check_parts(KernelContext& ctx, const Tensor& complex, const Tensor& real) {
  if (is_complex(complex.scalar_type()) && part_of(complex.scalar_type()) == real.scalar_type()) return true;
  return ctx.refuse("{} numbers do not consist of {}", dtype_name(complex.scalar_type()),
                    dtype_name(real.scalar_type()));
}

void view_as_real_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!check_parts(ctx, self, out)) return;
  View view = view_of(self);
  view.insert_dim(view.dim, 2, static_cast<dim_t>(out.element_size()));
  move_to_out(ctx, view, out);
}

void view_as_complex_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (!check_parts(ctx, out, self)) return;
  View parts = view_of(self);
  if (parts.dim == 0 || parts.sizes[parts.dim - 1] != 2)
    return ctx.fail("the last dimension of the input must have size 2");
  View sizes = parts;
  sizes.remove_dim(sizes.dim - 1);
  if (!resize_to(ctx, out, sizes)) return;
  View to = view_of(out);
  to.insert_dim(to.dim, 2, static_cast<dim_t>(self.element_size()));
  move_view(self.element_size(), parts, to);
}

// view_in(view) turns a view of the whole of `out` into the part that src replaces.
template <class ViewIn>
static void replace_view(KernelContext& ctx, const Tensor& self, const Tensor& src, Tensor& out,
                         ViewIn view_in) {
  if (!check_same_dtype(ctx, self, out) || !check_same_dtype(ctx, src, out)) return;
  if (!ctx.resize(out, self.sizes())) return;
  View part = view_of(out);
  if (!view_in(part)) return;
  const View from = view_of(src);
  if (!sizes_of(from).equals(sizes_of(part)))
    return ctx.fail("src has {} elements in {} dimensions, the part it replaces {} in {}", from.numel(),
                    from.dim, part.numel(), part.dim);
  move_view(out.element_size(), view_of(self), view_of(out));
  move_view(out.element_size(), from, part);
}

void slice_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& src, int64_t dim,
                       Optional<int64_t> start, Optional<int64_t> end, int64_t step, Tensor& out) {
  replace_view(ctx, self, src, out, [&](View& part) { return slice_view(ctx, part, dim, start, end, step); });
}

void select_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& src, int64_t dim, int64_t index,
                        Tensor& out) {
  replace_view(ctx, self, src, out, [&](View& part) { return select_view(ctx, part, dim, index); });
}

void diagonal_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& src, int64_t offset,
                          int64_t dim1, int64_t dim2, Tensor& out) {
  replace_view(ctx, self, src, out, [&](View& part) { return diagonal_view(ctx, part, offset, dim1, dim2); });
}

void as_strided_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& src, IntArrayRef size,
                            IntArrayRef stride, Optional<int64_t> storage_offset, Tensor& out) {
  return replace_view(ctx, self, src, out, [&](View& part) {
    return as_strided_view(ctx, out, size, stride, storage_offset, part);
  });
}

}  // namespace penlight::portable
