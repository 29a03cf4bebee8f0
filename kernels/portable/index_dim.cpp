// One-dimensional indices along one dimension: whole slices are moved.
#include "fill.h"
#include "slices.h"

namespace penlight::portable {

void index_select_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, Tensor& out) {
  int d;
  if (!check_same_dtype(ctx, self, out) || !wrap_dim(ctx, dim, self.dim(), d)) return;
  View sizes = view_of(self);
  if (sizes.dim > 0) sizes.sizes[d] = index.numel();
  Slices slices;
  if (!resize_to(ctx, out, sizes) || !slices.prepare(ctx, self, dim, index, &out)) return;
  const IndexedMover mover(out.element_size(), slices.whole_slice(), slices.other_slice());
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t* out_offsets, int count) {
    mover.run(slices.whole.data, offsets, slices.other.data, out_offsets, count);
  });
}

void index_copy_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                    const Tensor& source, Tensor& out) {
  Slices slices;
  if (!check_same_dtype(ctx, source, out) || !copy_whole(ctx, self, out) ||
      !slices.prepare(ctx, out, dim, index, &source))
    return;
  const IndexedMover mover(out.element_size(), slices.other_slice(), slices.whole_slice());
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t* source_offsets, int count) {
    mover.run(slices.other.data, source_offsets, slices.whole.data, offsets, count);
  });
}

void index_fill_int_scalar_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                               Scalar value, Tensor& out) {
  Slices slices;
  char item[16];
  if (!scalar_item(ctx, value, out.scalar_type(), item)) return;
  if (!copy_whole(ctx, self, out) || !slices.prepare(ctx, out, dim, index, nullptr, true)) return;
  View slice = slices.whole_slice();
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t*, int count) {
    for (int i = 0; i < count; ++i) {
      slice.data = slices.whole.data + offsets[i];
      fill_view(out.element_size(), item, slice);
    }
  });
}

void index_fill_int_tensor_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                               const Tensor& value, Tensor& out) {
  if (value.numel() != 1) return ctx.fail("the value to fill with has {} elements", value.numel());
  index_fill_int_scalar_out(ctx, self, dim, index, item_of(value), out);
}

}  // namespace penlight::portable
