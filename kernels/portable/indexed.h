// Positions that index tensors name.
//
// Index tensors are broadcast together to the indexed shape B. The result has B
// where the indexed dimensions were if those are adjacent, else at the front,
// and the other dimensions ("the rest") around it. A mask stands for as many
// index tensors as it has dimensions: the places where it is true.
#pragma once

#include "indexing.h"
#include "nonzero.h"

namespace penlight::portable {

struct IndexTensor {
  IndexedDim to;
  ScalarType type;
  View view;  // in the end of the indexed shape
};

inline bool is_mask(const Tensor& index) {
  return index.scalar_type() == ScalarType::Bool || index.scalar_type() == ScalarType::Byte;
}

class Indexing {
 public:
  // `whole` is the tensor that is indexed.
  bool prepare(KernelContext& ctx, const View& whole, ArrayRef<Optional<Tensor>> indices) {
    rest_ = whole;
    rest_.dim = 0;
    int d = 0, first = -1, last = -1;
    for (size_t i = 0; i < indices.size(); ++i) {
      const bool given = indices[i].has_value() && indices[i]->defined();
      const bool mask = given && is_mask(*indices[i]);
      const int used = mask ? static_cast<int>(indices[i]->dim()) : 1;
      if (d + used > whole.dim)
        return ctx.refuse("more indices than the {} dimensions of the input", whole.dim);
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
    if (count_ == 0) return ctx.refuse("no index tensor is given");
    for (int k = 0; k < count_; ++k) {
      if (!broadcast_into(ctx, shape_, sizes_of(index_[k].view))) return false;
    }
    for (int k = 0; k < count_; ++k) expand_view(ctx, index_[k].view, SizesRef(shape_));
    place_ = last - first + 1 == count_ ? first : 0;
    if (rest_.dim + shape_.dim > kMaxDim)
      return ctx.refuse("result has {} dimensions, the limit is {}", rest_.dim + shape_.dim, kMaxDim);
    return true;
  }

  // The slices along dimension `d` that indices name; with `wraps`, negative ones from the end. They have at
  // most `rank` dimensions; of one where a row is wanted.
  bool prepare_slices(KernelContext& ctx, const View& whole, int d, const Tensor& index, bool wraps,
                      dim_t rank = 1) {
    if (!add_index(ctx, whole, d, index)) return false;
    if (index.dim() > rank)
      return ctx.refuse("the index has {} dimensions, at most {} is taken", index.dim(), rank);
    index_[0].to.wraps = wraps;
    index_[0].view = rank == 1 ? at_least_1d(index) : view_of(index);
    shape_ = Shape(sizes_of(index_[0].view));
    rest_ = without_dim(whole, d);
    place_ = d;
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
    const int last = shape_.dim - 1;
    const dim_t row = last < 0 ? 1 : shape_[last];
    const dim_t result_step = last < 0 ? 0 : result.strides[place_ + last];
    for (dim_t done = 0; done < shape_.numel(); done += row) {
      dim_t at[kMaxDim], result_start = 0, rest = done / row;
      for (int d = last; d-- > 0; rest /= shape_[d]) {
        at[d] = rest % shape_[d];
        result_start += at[d] * result.strides[place_ + d];
      }
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
    }
    return true;
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
      return ctx.refuse("a mask has size {} in dimension {}, the input has {} there", mask.size(k), k,
                        whole.sizes[d + k]);
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

  int count_ = 0;
  int place_;  // of the indexed shape among the rest
  IndexTensor index_[kMaxDim];
  Shape shape_;
  View rest_;
};

}  // namespace penlight::portable
