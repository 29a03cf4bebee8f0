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
    index = at_least_1d(index_tensor);
    whole = at_least_1d(named);
    other = at_least_1d(other_tensor ? *other_tensor : named);
    if (!other_tensor) {
      other.sizes[dim] = index.sizes[0];
      other.strides[dim] = 0;
      return true;
    }
    // A slice of size 1 may come without its dimension.
    if (other.numel() == 1 && whole.dim == 1) other.dim = 1;
    View wanted = whole;
    wanted.sizes[dim] = index.sizes[0];
    if (sizes_of(other).equals(sizes_of(wanted))) return true;
    return ctx.refuse(Status::InvalidArgument, "values do not have the sizes of {} slices along dimension {}",
                      index.sizes[0], dim);
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

  View whole_slice() const { return without_dim(whole, dim); }
  View other_slice() const { return without_dim(other, dim); }
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
  if (!check_same_dtype(ctx, source, out) || !copy_whole(ctx, self, out) ||
      !slices.prepare(ctx, out, dim, index, &source)) {
    return out;
  }
  const IndexedMover mover(out.element_size(), slices.other_slice(), slices.whole_slice());
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t* source_offsets, int count) {
    mover.run(slices.other.data, source_offsets, slices.whole.data, offsets, count);
  });
  return out;
}

Tensor& index_fill_int_scalar_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                                  Scalar value, Tensor& out) {
  Slices slices;
  char item[16];
  if (!scalar_item(ctx, value, out.scalar_type(), item)) return out;
  if (!copy_whole(ctx, self, out) || !slices.prepare(ctx, out, dim, index, nullptr, true)) return out;
  View slice = slices.whole_slice();
  slices.for_each_block(ctx, [&](const dim_t* offsets, const dim_t*, int count) {
    for (int i = 0; i < count; ++i) {
      slice.data = slices.whole.data + offsets[i];
      fill_view(out.element_size(), item, slice);
    }
  });
  return out;
}

Tensor& index_fill_int_tensor_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                                  const Tensor& value, Tensor& out) {
  if (value.numel() != 1)
    return ctx.fail(out, Status::InvalidArgument, "the value to fill with has {} elements", value.numel());
  return index_fill_int_scalar_out(ctx, self, dim, index, item_of(value), out);
}

Tensor& index_add_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& source, Scalar alpha, Tensor& out) {
  Slices slices;
  const ScalarType type = out.scalar_type();
  const CombineRow row = combine_row_for(ctx, type);
  if (!row || !check_same_dtype(ctx, source, out) || !copy_whole(ctx, self, out) ||
      !slices.prepare(ctx, out, dim, index, &source)) {
    return out;
  }
  const bool scaled = alpha.isFloatingPoint() ? alpha.to<double>() != 1 : alpha.to<int64_t>() != 1;
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
