// One-dimensional indices along one dimension: whole slices are moved.
#include "fill.h"
#include "indexed.h"
#include "kernels/common/elementwise.h"
#include "likeness.h"

namespace penlight::portable {

// Slices of `whole`, beside those of `other` in order. Both have at least one dimension.
struct Slices {
  View whole, other;
  Indexing named;

  // `values` null: there is no other to look at.
  bool prepare(KernelContext& ctx, const Tensor& of, int64_t dim, const Tensor& index, const Tensor* values,
               bool wraps = false) {
    int d;
    whole = at_least_1d(of);
    if (!wrap_dim(ctx, dim, of.dim(), d) || !named.prepare_slices(ctx, whole, d, index, wraps)) return false;
    const Shape sizes = named.sizes();
    other = at_least_1d(values ? *values : of);
    // A slice of size 1 may come without its dimension.
    if (other.numel() == 1 && whole.dim == 1) other.dim = 1;
    if (!values) other.strides[d] = 0;
    if (!values || sizes_of(other).equals(sizes)) return true;
    return ctx.refuse("values do not have the sizes of {} slices along dimension {}", index.numel(), d);
  }

  template <class Body>
  void for_each_block(KernelContext& ctx, Body&& body) const {
    named.for_each_block(ctx, other, body);
  }

  const View& whole_slice() const { return named.rest(); }
  View other_slice() const { return named.rest_of(other); }
};

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

void index_add_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                   const Tensor& source, Scalar alpha, Tensor& out) {
  Slices slices;
  const ScalarType type = out.scalar_type();
  const CombineRow row = combine_row_for(ctx, type);
  const bool scaled = alpha.isFloatingPoint() ? alpha.to<double>() != 1 : alpha.to<int64_t>() != 1;
  Likeness product(source);
  if (!row || !check_same_dtype(ctx, source, out)) return;
  if (scaled) {
    product.impl.data = ctx.allocate_scratch(source.nbytes() + 1);
    if (!product.impl.data) return;
    for (dim_t d = source.dim(), stride = 1; d-- > 0; stride *= source.size(d)) product.strides[d] = stride;
    map<Domain::Real>(ctx, PENLIGHT_OF_2(math::times(a, b)), product.tensor, source, cast_to(type, alpha));
  }
  if (!copy_whole(ctx, self, out) ||
      !slices.prepare(ctx, out, dim, index, scaled ? &product.tensor : &source))
    return;
  View to = slices.whole_slice(), from = slices.other_slice();
  join_views(to, from);
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t* source_offsets, int count) {
    if (to.dim == 0)
      return combine_at(row, slices.whole.data, offsets, slices.other.data, source_offsets, count);
    for (int i = 0; i < count; ++i) {
      to.data = slices.whole.data + offsets[i];
      from.data = slices.other.data + source_offsets[i];
      combine_views(row, Combine::Add, to, from);
    }
  });
}

}  // namespace penlight::portable
