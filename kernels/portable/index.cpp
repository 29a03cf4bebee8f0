// Advanced indexing: x[i, :, j] and x[i, :, j] = values.
//
// Index tensors are broadcast together to the indexed shape B. The result has B
// where the indexed dimensions were if those are adjacent, else at the front,
// and the other dimensions ("the rest") around it. A mask stands for as many
// index tensors as it has dimensions: the places where it is true.
#include "kernels/common/broadcast.h"
#include "kernels/common/combine.h"
#include "kernels/common/indexing.h"
#include "nonzero.h"

namespace penlight::portable {

struct IndexTensor {
  IndexedDim to;
  ScalarType type;
  View view;  // in the end of the indexed shape
};

static bool is_mask(const Tensor& index) {
  return index.scalar_type() == ScalarType::Bool || index.scalar_type() == ScalarType::Byte;
}

class Indexing {
 public:
  // `whole` is the tensor that is indexed.
  bool prepare(KernelContext& ctx, const View& whole, ArrayRef<Optional<Tensor>> indices) {
    count_ = 0;
    rest_ = whole;
    rest_.dim = 0;
    int d = 0, first = -1, last = -1;
    for (size_t i = 0; i < indices.size(); ++i) {
      const bool given = indices[i].has_value() && indices[i]->defined();
      const bool mask = given && is_mask(*indices[i]);
      const int used = mask ? static_cast<int>(indices[i]->dim()) : 1;
      if (d + used > whole.dim)
        return ctx.refuse(Status::InvalidArgument, "more indices than the {} dimensions of the input",
                          whole.dim);
      if (!given) {
        keep_dim(whole, d);
      } else {
        if (!(mask ? add_mask(ctx, whole, d, *indices[i]) : add_index(ctx, whole, d, *indices[i])))
          return false;
        if (first < 0) first = d;
        if (used > 0) last = d + used - 1;
      }
      d += used;
    }
    for (; d < whole.dim; ++d) keep_dim(whole, d);
    if (count_ == 0) return ctx.refuse(Status::InvalidArgument, "no index tensor is given");
    for (int k = 0; k < count_; ++k) {
      if (!broadcast_into(ctx, shape_, sizes_of(index_[k].view))) return false;
    }
    for (int k = 0; k < count_; ++k) expand_view(ctx, index_[k].view, SizesRef(shape_));
    place_ = last - first + 1 == count_ ? first : 0;
    if (rest_.dim + shape_.dim > kMaxDim)
      return ctx.refuse(Status::InvalidArgument, "result has {} dimensions, the limit is {}",
                        rest_.dim + shape_.dim, kMaxDim);
    return true;
  }

  // Sizes of the result.
  Shape sizes() const {
    Shape result;
    for (int d = 0; d < place_; ++d) result.append(rest_.sizes[d]);
    for (int d = 0; d < shape_.dim; ++d) result.append(shape_[d]);
    for (int d = place_; d < rest_.dim; ++d) result.append(rest_.sizes[d]);
    return result;
  }

  // The dimensions that are not indexed, in the tensor that is.
  const View& rest() const { return rest_; }

  // The same dimensions of a view with the sizes of the result.
  View rest_of(const View& result) const {
    View rest = result;
    for (int d = 0; d < shape_.dim; ++d) rest.remove_dim(place_);
    return rest;
  }

  // Calls body(offsets, result_offsets, count), in bytes, for blocks of all
  // positions in the indexed shape. A size of 0 among the rest leaves nothing
  // to visit, but indices are checked all the same.
  template <class Body>
  bool for_each_block(KernelContext& ctx, const View& result, Body&& body) const {
    if (shape_.numel() == 0) return true;
    const int last = shape_.dim - 1;
    const dim_t row = last < 0 ? 1 : shape_[last];
    const dim_t result_step = last < 0 ? 0 : result.strides[place_ + last];
    dim_t at[kMaxDim] = {};
    for (;;) {
      dim_t result_start = 0;
      for (int d = 0; d < last; ++d) result_start += at[d] * result.strides[place_ + d];
      for (dim_t start = 0; start < row; start += kIndexBlock) {
        const int count = static_cast<int>(row - start < kIndexBlock ? row - start : kIndexBlock);
        dim_t offsets[kIndexBlock] = {}, result_offsets[kIndexBlock];
        for (int k = 0; k < count_; ++k) {
          const IndexTensor& index = index_[k];
          const dim_t step = last < 0 ? 0 : index.view.strides[last];
          const char* from = index.view.data + start * step;
          for (int d = 0; d < last; ++d) from += at[d] * index.view.strides[d];
          if (!add_offsets(ctx, index.to, index.type, from, step, count, offsets)) return false;
        }
        for (int i = 0; i < count; ++i) result_offsets[i] = result_start + (start + i) * result_step;
        body(static_cast<const dim_t*>(offsets), static_cast<const dim_t*>(result_offsets), count);
      }
      int d = last - 1;
      while (d >= 0 && ++at[d] == shape_[d]) at[d--] = 0;
      if (d < 0) return true;
    }
  }

 private:
  void keep_dim(const View& whole, int d) { rest_.insert_dim(rest_.dim, whole.sizes[d], whole.strides[d]); }

  bool add_index(KernelContext& ctx, const View& whole, int d, const Tensor& index) {
    if (!check_index_dtype(ctx, index)) return false;
    IndexTensor& added = index_[count_++];
    added.to = {d, whole.sizes[d], whole.strides[d], true};
    added.type = index.scalar_type();
    added.view = view_of(index);
    return true;
  }

  bool add_mask(KernelContext& ctx, const View& whole, int d, const Tensor& mask) {
    for (int k = 0; k < mask.dim(); ++k) {
      if (mask.size(k) == whole.sizes[d + k]) continue;
      return ctx.refuse(Status::InvalidArgument, "a mask has size {} in dimension {}, the input has {} there",
                        mask.size(k), k, whole.sizes[d + k]);
    }
    if (mask.dim() == 0) return true;
    dim_t found = 0;
    for_each_nonzero(mask, [&](const Found& some) { found += some.count; });
    int64_t* places = ctx.allocate_scratch_array<int64_t>(static_cast<size_t>(found * mask.dim()) + 1);
    if (!places) return false;
    // Row k of `places` is the position in dimension k.
    int64_t* to = places;
    for_each_nonzero(mask, [&](const Found& some) {
      some.write(mask.dim(), to, 1, found);
      to += some.count;
    });
    for (int k = 0; k < mask.dim(); ++k) {
      IndexTensor& added = index_[count_++];
      added.to = {d + k, whole.sizes[d + k], whole.strides[d + k], false};
      added.type = ScalarType::Long;
      added.view = {reinterpret_cast<char*>(places + k * found), 1, {found}, {sizeof(int64_t)}};
    }
    return true;
  }

  int count_;
  int place_;  // of the indexed shape among the rest
  IndexTensor index_[kMaxDim];
  Shape shape_;
  View rest_;
};

Tensor& index_tensor_out(KernelContext& ctx, const Tensor& self, ArrayRef<Optional<Tensor>> indices,
                         Tensor& out) {
  Indexing indexing;
  const View whole = view_of(self);
  if (!check_same_dtype(ctx, self, out) || !indexing.prepare(ctx, whole, indices)) return out;
  if (!ctx.resize(out, indexing.sizes())) return out;
  const View result = view_of(out);
  const IndexedMover mover(out.element_size(), indexing.rest(), indexing.rest_of(result));
  indexing.for_each_block(ctx, result, [&](const dim_t* offsets, const dim_t* result_offsets, int count) {
    mover.run(whole.data, offsets, result.data, result_offsets, count);
  });
  return out;
}

Tensor& index_put_out(KernelContext& ctx, const Tensor& self, ArrayRef<Optional<Tensor>> indices,
                      const Tensor& values, bool accumulate, Tensor& out) {
  Indexing indexing;
  if (!check_same_dtype(ctx, self, out) || !check_same_dtype(ctx, values, out)) return out;
  if (!ctx.resize(out, self.sizes())) return out;
  const View whole = view_of(out);
  View given = view_of(values);
  if (!indexing.prepare(ctx, whole, indices)) return out;
  const Shape sizes = indexing.sizes();
  while (given.dim > sizes.dim && given.sizes[0] == 1) given.remove_dim(0);
  if (!expand_view(ctx, given, SizesRef(sizes))) return out;
  move_view(out.element_size(), view_of(self), whole);

  View rest = indexing.rest(), given_rest = indexing.rest_of(given);
  if (!accumulate) {
    const IndexedMover mover(out.element_size(), given_rest, rest);
    indexing.for_each_block(ctx, given, [&](const dim_t* offsets, const dim_t* given_offsets, int count) {
      mover.run(given.data, given_offsets, whole.data, offsets, count);
    });
    return out;
  }
  // Complex numbers are added part by part.
  ScalarType type = out.scalar_type();
  if (is_complex(type)) {
    type = part_of(type);
    rest.insert_dim(rest.dim, 2, static_cast<dim_t>(element_size(type)));
    given_rest.insert_dim(given_rest.dim, 2, static_cast<dim_t>(element_size(type)));
  }
  const CombineRow row = combine_row_for(ctx, type);
  if (!row) return out;
  const bool single = rest.numel() == 1;
  indexing.for_each_block(ctx, given, [&](const dim_t* offsets, const dim_t* given_offsets, int count) {
    const dim_t step = count > 1 ? given_offsets[1] - given_offsets[0] : 0;
    if (single) {
      int64_t places[kIndexBlock];
      for (int i = 0; i < count; ++i) places[i] = offsets[i];
      row(Combine::Add, whole.data, {0, places, 1, INT64_MAX}, given.data + given_offsets[0], step, count);
      return;
    }
    for (int i = 0; i < count; ++i) {
      rest.data = whole.data + offsets[i];
      given_rest.data = given.data + given_offsets[i];
      combine_views(row, Combine::Add, rest, given_rest);
    }
  });
  return out;
}

Tensor& masked_select_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, Tensor& out) {
  if (!check_same_dtype(ctx, self, out)) return out;
  if (mask.scalar_type() != ScalarType::Bool)
    return ctx.fail(out, Status::InvalidArgument, "the mask has dtype {}, not bool",
                    dtype_name(mask.scalar_type()));
  Shape shape(self.sizes());
  if (!broadcast_into(ctx, shape, mask.sizes())) return out;
  View from = view_of(self), chosen = view_of(mask);
  if (!expand_view(ctx, from, SizesRef(shape)) || !expand_view(ctx, chosen, SizesRef(shape))) return out;
  // Counted first: the result's size depends on the data.
  dim_t found = 0;
  const auto for_each_chosen = [&](auto body) {
    Elements sources(from), flags(chosen);
    for (dim_t left = shape.numel(); left > 0; --left) {
      const char* const source = sources.next();
      if (*flags.next()) body(source);
    }
  };
  for_each_chosen([&](const char*) { ++found; });
  if (!ctx.resize(out, SizesRef(&found, 1))) return out;
  Elements targets(view_of(out));
  for_each_chosen([&](const char* source) { memmove(targets.next(), source, out.element_size()); });
  return out;
}

}  // namespace penlight::portable
