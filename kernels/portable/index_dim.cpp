// One-dimensional indices along one dimension: whole slices are moved.
#include "kernels/common/combine.h"
#include "kernels/common/fill.h"
#include "kernels/common/indexing.h"

namespace penlight::portable {

// Slices of `whole` named by `index`, beside the slices of `other` in order.
struct Slices {
  View whole, other, index;  // of at least one dimension
  ScalarType type;
  int dim;
  bool wraps;

  // `other` null: there is none to look at.
  bool prepare(KernelContext& ctx, const Tensor& named, int64_t along, const Tensor& index_tensor,
               const Tensor* other_tensor, bool negative = false) {
    wraps = negative;
    type = index_tensor.scalar_type();
    if (!check_index_dtype(ctx, index_tensor) || !wrap_dim(ctx, along, named.dim(), dim)) return false;
    if (index_tensor.dim() > 1)
      return ctx.refuse(Status::InvalidArgument, "the index has {} dimensions, at most 1 is taken",
                        index_tensor.dim());
    index = at_least_1d(view_of(index_tensor));
    whole = at_least_1d(view_of(named));
    other = at_least_1d(other_tensor ? view_of(*other_tensor) : view_of(named));
    if (!other_tensor) {
      other.sizes[dim] = index.sizes[0];
      other.strides[dim] = 0;
      return true;
    }
    // A slice of size 1 may come without its dimension.
    if (other.dim != whole.dim && other.numel() == 1 && whole.dim == 1)
      other = at_least_1d(scalar_view(other));
    bool fits = other.dim == whole.dim;
    for (int d = 0; fits && d < whole.dim; ++d)
      fits = other.sizes[d] == (d == dim ? index.sizes[0] : whole.sizes[d]);
    if (!fits) {
      ctx.fail(Status::InvalidArgument, "values do not have the sizes of {} slices along dimension {}",
               index.sizes[0], dim);
    }
    return fits;
  }

  static View at_least_1d(View view) {
    if (view.dim == 0) view.insert_dim(0, 1, 0);
    return view;
  }

  static View scalar_view(View view) {
    view.dim = 0;
    return view;
  }

  static View without(View view, int d) {
    view.remove_dim(d);
    return view;
  }

  template <class Body>
  bool for_each_block(KernelContext& ctx, Body&& body) const {
    const IndexedDim to = {dim, whole.sizes[dim], whole.strides[dim], wraps};
    for (dim_t first = 0; first < index.sizes[0]; first += kIndexBlock) {
      const dim_t left = index.sizes[0] - first;
      const int count = static_cast<int>(left < kIndexBlock ? left : kIndexBlock);
      dim_t offsets[kIndexBlock] = {}, other_offsets[kIndexBlock];
      const char* from = index.data + first * index.strides[0];
      if (!add_offsets(ctx, to, type, from, index.strides[0], count, offsets)) return false;
      for (int i = 0; i < count; ++i) other_offsets[i] = (first + i) * other.strides[dim];
      body(static_cast<const dim_t*>(offsets), static_cast<const dim_t*>(other_offsets), count);
    }
    return true;
  }

  View whole_slice() const { return without(whole, dim); }
  View other_slice() const { return without(other, dim); }
};

Tensor& index_select_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                         Tensor& out) {
  int d;
  if (!check_same_dtype(ctx, self, out) || !wrap_dim(ctx, dim, self.dim(), d)) return out;
  View sizes = view_of(self);
  if (sizes.dim > 0) sizes.sizes[d] = index.numel();
  Slices slices;
  if (!resize_to(ctx, out, sizes) || !slices.prepare(ctx, self, dim, index, &out)) return out;
  const IndexedMover mover(out.element_size(), slices.whole_slice(), slices.other_slice());
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t* out_offsets, int count) {
    mover.run(slices.whole.data, offsets, slices.other.data, out_offsets, count);
  });
  return out;
}

Tensor& index_copy_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor& source, Tensor& out) {
  Slices slices;
  if (!check_same_dtype(ctx, self, out) || !check_same_dtype(ctx, source, out)) return out;
  if (!ctx.resize(out, self.sizes()) || !slices.prepare(ctx, out, dim, index, &source)) return out;
  move_view(out.element_size(), view_of(self), view_of(out));
  const IndexedMover mover(out.element_size(), slices.other_slice(), slices.whole_slice());
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t* source_offsets, int count) {
    mover.run(slices.other.data, source_offsets, slices.whole.data, offsets, count);
  });
  return out;
}

static Tensor& index_fill(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                          const char* item, Tensor& out) {
  Slices slices;
  if (!check_same_dtype(ctx, self, out) || !ctx.resize(out, self.sizes())) return out;
  if (!slices.prepare(ctx, out, dim, index, nullptr, true)) return out;
  move_view(out.element_size(), view_of(self), view_of(out));
  View slice = slices.whole_slice();
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t*, int count) {
    for (int i = 0; i < count; ++i) {
      slice.data = slices.whole.data + offsets[i];
      fill_view(out.element_size(), item, slice);
    }
  });
  return out;
}

Tensor& index_fill_int_scalar_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                                  Scalar value, Tensor& out) {
  char item[16];
  if (!scalar_item(ctx, value, out.scalar_type(), item)) return out;
  return index_fill(ctx, self, dim, index, item, out);
}

Tensor& index_fill_int_tensor_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                                  const Tensor& value, Tensor& out) {
  char item[16];
  if (value.numel() != 1)
    return ctx.fail(out, Status::InvalidArgument, "the value to fill with has {} elements", value.numel());
  const ScalarType type = value.scalar_type();
  const Scalar scalar = is_floating(type) ? Scalar(load_element<double>(type, value.const_data_ptr()))
                                          : Scalar(load_element<int64_t>(type, value.const_data_ptr()));
  if (!scalar_item(ctx, scalar, out.scalar_type(), item)) return out;
  return index_fill(ctx, self, dim, index, item, out);
}

Tensor& index_add_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& source, Scalar alpha, Tensor& out) {
  Slices slices;
  if (!check_same_dtype(ctx, self, out) || !check_same_dtype(ctx, source, out)) return out;
  if (!ctx.resize(out, self.sizes()) || !slices.prepare(ctx, out, dim, index, &source)) return out;
  const CombineRow row = combine_row_for(ctx, out.scalar_type());
  if (!row) return out;
  const ScalarType type = out.scalar_type();
  const bool scaled = alpha.isFloatingPoint() ? alpha.to<double>() != 1 : alpha.to<int64_t>() != 1;
  move_view(out.element_size(), view_of(self), view_of(out));
  View to = slices.whole_slice(), from = slices.other_slice();
  join_views(to, from);
  // Scaled slices are made in scratch, one at a time.
  View scratch = from;
  char factor[16];
  if (scaled) {
    dim_t stride = static_cast<dim_t>(out.element_size());
    for (int d = scratch.dim; d-- > 0; stride *= scratch.sizes[d]) scratch.strides[d] = stride;
    scratch.data = static_cast<char*>(ctx.allocate_scratch(static_cast<size_t>(stride) + 1));
    if (!scratch.data || !scalar_item(ctx, alpha, type, factor)) return out;
  }
  View factors = from;
  factors.data = factor;
  for (int d = 0; d < factors.dim; ++d) factors.strides[d] = 0;
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t* source_offsets, int count) {
    for (int i = 0; i < count; ++i) {
      to.data = slices.whole.data + offsets[i];
      from.data = slices.other.data + source_offsets[i];
      if (scaled) {
        move_view(out.element_size(), from, scratch);
        combine_views(row, Combine::Multiply, scratch, factors);
      }
      combine_views(row, Combine::Add, to, scaled ? scratch : from);
    }
  });
  return out;
}

}  // namespace penlight::portable
