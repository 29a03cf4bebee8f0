// A copy of the input in which a view of it is replaced.
#include "kernels/common/view.h"

namespace penlight::portable {

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
