// Elements at places that other tensors name.
//
// Indices are read in blocks, checked, and turned into byte offsets, so that no
// address is formed from an index that was not compared with the size of its
// dimension. What is at those places is then moved by element size, or combined
// with what is there.
#pragma once

#include "kernels/common/convert.h"
#include "kernels/common/view.h"

namespace penlight {

constexpr int kIndexBlock = 128;

inline bool check_index_dtype(KernelContext& ctx, const Tensor& index) {
  if (index.scalar_type() == ScalarType::Long || index.scalar_type() == ScalarType::Int) return true;
  return ctx.refuse("indices are int32 or int64, not {}", dtype_name(index.scalar_type()));
}

// The dimension that indices are counted in.
struct IndexedDim {
  int dim;  // for the message
  dim_t size;
  dim_t stride;  // in bytes
  bool wraps;    // negative indices count from the end
};

// offsets[i] += index[i] * stride. `from` and `step` (in bytes) locate the indices.
inline bool add_offsets(KernelContext& ctx, const IndexedDim& to, ScalarType type, const char* from,
                        dim_t step, int count, dim_t* offsets) {
  for (int i = 0; i < count; ++i, from += step) {
    int64_t index;
    if (type == ScalarType::Int) {
      int32_t narrow;
      memcpy(&narrow, from, sizeof narrow);
      index = narrow;
    } else {
      memcpy(&index, from, sizeof index);
    }
    const int64_t size = to.size;
    if (index >= size || index < (to.wraps ? -size : 0))
      return ctx.refuse(Status::KernelFailed, "index {} is out of range for dimension {} with size {}", index,
                        to.dim, size);
    offsets[i] += static_cast<dim_t>(index < 0 ? index + size : index) * to.stride;
  }
  return true;
}

// Moves single elements from given offsets to given offsets.
template <class Item>
void move_items(const char* src, const dim_t* src_offsets, char* dst, const dim_t* dst_offsets, int count) {
  for (int i = 0; i < count; ++i)
    detail::store_item(dst + dst_offsets[i], detail::load_item<Item>(src + src_offsets[i]));
}

// Moves sub-tensors ("the rest": dimensions that are not indexed) from given
// offsets to given offsets.
class IndexedMover {
 public:
  IndexedMover(size_t element_size, const View& src_rest, const View& dst_rest)
      : items_(detail::with_item(element_size,
                                 [](auto tag) { return &move_items<typename decltype(tag)::type>; })),
        src_(src_rest),
        dst_(dst_rest),
        mover_(element_size, src_rest.dim, src_rest.sizes, src_rest.strides, dst_rest.strides) {
    const dim_t item = static_cast<dim_t>(element_size);
    const int last = src_.dim - 1;
    runs_ = false;
    for (int d = 0; d <= last; ++d)
      runs_ |= src_.sizes[d] > 1 && src_.strides[d] == item && dst_.strides[d] == item;
    single_ = src_.numel() == 1;
    empty_ = src_.numel() == 0;
  }

  void run(const char* src, const dim_t* src_offsets, char* dst, const dim_t* dst_offsets, int count) const {
    if (empty_) return;
    if (single_) return items_(src, src_offsets, dst, dst_offsets, count);
    if (runs_ || count < 4) {
      for (int i = 0; i < count; ++i) mover_.run(src + src_offsets[i], dst + dst_offsets[i]);
      return;
    }
    // The rest has no contiguous runs: the indexed elements may lie closer.
    for_each_place({&src_, &dst_}, src_.dim, [&](char* const* at) {
      items_(src + (at[0] - src_.data), src_offsets, dst + (at[1] - dst_.data), dst_offsets, count);
    });
  }

 private:
  void (*items_)(const char*, const dim_t*, char*, const dim_t*, int);
  View src_, dst_;
  Mover mover_;
  bool runs_, single_, empty_;
};

}  // namespace penlight
