// Elements at places that other tensors name.
//
// Indices are read in blocks, checked, and turned into byte offsets, so that no
// address is formed from an index that was not compared with the size of its
// dimension. What is at those places is then moved by element size, or combined
// with what is there.
#pragma once

#include "kernels/common/convert.h"
#include "kernels/common/math.h"
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

// Combining values with what is already in memory: the accumulating forms of
// index_put, index_add, scatter. One row function a dtype, chosen once a call.
enum class Combine : uint8_t { Add, Multiply, Min, Max };

// Where the elements of a row lie, in bytes: `step` apart, and `along` times an index further where there
// are such, int64 one behind the other.
struct Places {
  dim_t step;
  const void* index = nullptr;
  dim_t along = 0;
  uint64_t size = 0;  // indices are below it

  uint64_t index_at(dim_t i) const {
    return detail::load_item<uint64_t>(static_cast<const char*>(index) +
                                       i * static_cast<dim_t>(sizeof(uint64_t)));
  }
};

// to[i] = to[i] (op) from[i], in order; false at an index that is out of range.
using CombineRow = bool (*)(Combine op, char* to, Places places, const char* from, dim_t from_stride,
                            dim_t count);

namespace detail {

template <class C, class T>
C load_as(const char* from) {
  if constexpr (same_type<T, bool>) {
    return *from != 0 ? C(1) : C(0);  // a byte that is neither 0 nor 1 is no bool
  } else {
    T value;
    memcpy(&value, from, sizeof value);
    return convert<C>(value);
  }
}

template <class T, class Function>
inline void combine_one(char* to, const char* from, Function function) {
  using C = Compute<T>;
  const T result = convert<T>(function(load_as<C, T>(to), load_as<C, T>(from)));
  memcpy(to, &result, sizeof result);
}

// Neighbours from `done` on, so many at a time: compilers make vectors of loops whose end they know. Returns
// how many are done.
template <class T, dim_t at_once, class Function>
dim_t combine_neighbours(char* __restrict to, const char* __restrict from, dim_t done, dim_t count,
                         Function function) {
  constexpr dim_t kSize = sizeof(T);
  for (; done + at_once <= count; done += at_once) {
    for (dim_t i = 0; i < at_once; ++i)
      combine_one<T>(to + (done + i) * kSize, from + (done + i) * kSize, function);
  }
  return done;
}

// `of_many` is the same function for neighbours, as vectors have it.
template <class T, class Function, class OfMany>
bool combine_each(char* to, Places places, const char* from, dim_t from_stride, dim_t count,
                  Function function, OfMany of_many) {
  constexpr dim_t kSize = sizeof(T);
  if (places.index) {
    for (dim_t i = 0; i < count; ++i) {
      const uint64_t index = places.index_at(i);
      if (index >= places.size) return false;
      combine_one<T>(to + i * places.step + static_cast<dim_t>(index) * places.along, from + i * from_stride,
                     function);
    }
    return true;
  }
  dim_t i = 0;
  if (places.step == kSize && from_stride == kSize) {
    i = combine_neighbours<T, 16>(to, from, i, count, of_many);
    if (!kSmallCode) i = combine_neighbours<T, 4>(to, from, i, count, of_many);
  }
  for (; i < count; ++i) combine_one<T>(to + i * places.step, from + i * from_stride, function);
  return true;
}

// Without a branch, which nobody could predict.
template <class C>
inline C either(bool second, C a, C b) {
  const C both[] = {a, b};
  return both[second];
}

template <class T>
bool combine_row(Combine op, char* to, Places places, const char* from, dim_t from_stride, dim_t count) {
  using C = Compute<T>;
  const auto with = [&](auto function, auto of_many) {
    return combine_each<T>(to, places, from, from_stride, count, function, of_many);
  };
  const auto plus = [](C a, C b) { return math::plus(a, b); };
  const auto times = [](C a, C b) { return math::times(a, b); };
  switch (op) {
    case Combine::Add:
      return with(plus, plus);
    case Combine::Multiply:
      return with(times, times);
    case Combine::Min:
      return with([](C a, C b) { return either((b < a) | (b != b), a, b); },
                  [](C a, C b) { return (b < a) | (b != b) ? b : a; });
    case Combine::Max:
      return with([](C a, C b) { return either((b > a) | (b != b), a, b); },
                  [](C a, C b) { return (b > a) | (b != b) ? b : a; });
  }
  return true;
}

}  // namespace detail

PENLIGHT_BY_DTYPES_BEGIN

// Null, with the failure recorded, for a dtype that nothing is computed in.
inline CombineRow combine_row_for(KernelContext& ctx, ScalarType type) {
  CombineRow row = nullptr;
  // 16-bit floats are summed in float.
  if constexpr (kFloatSelected) {
    if (type == ScalarType::Float) return &detail::combine_row<float>;
  }
  dispatch<RealBool>(ctx, type, [&](auto tag) { row = detail::combine_row<typename decltype(tag)::type>; });
  return row;
}

PENLIGHT_BY_DTYPES_END

// Adds single elements, which lie evenly in `from`. Places in bytes are indices too.
inline void combine_at(CombineRow row, char* to, const dim_t* offsets, const char* from,
                       const dim_t* from_offsets, int count) {
  int64_t places[kIndexBlock];
  for (int i = 0; i < count; ++i) places[i] = offsets[i];
  row(Combine::Add, to, {0, places, 1, INT64_MAX}, from + from_offsets[0],
      count > 1 ? from_offsets[1] - from_offsets[0] : 0, count);
}

// Makes one of dimensions that follow each other without gaps in both of two views of equal sizes.
inline void join_views(View& a, View& b) {
  for (int d = a.dim - 1; d-- > 0;) {
    const dim_t inner = a.sizes[d + 1];
    const bool joins = a.strides[d] == a.strides[d + 1] * inner && b.strides[d] == b.strides[d + 1] * inner;
    if (!joins && a.sizes[d] != 1 && inner != 1) continue;
    const auto join = [&](View& view) {
      view.sizes[d] *= inner;
      if (inner != 1) view.strides[d] = view.strides[d + 1];
      view.remove_dim(d + 1);
    };
    join(a);
    join(b);
  }
}

// The same for two views of equal sizes.
inline void combine_views(CombineRow row, Combine op, const View& to, const View& from) {
  if (to.dim == 1)
    return static_cast<void>(row(op, to.data, {to.strides[0]}, from.data, from.strides[0], to.sizes[0]));
  if (to.dim == 0) return static_cast<void>(row(op, to.data, {0}, from.data, 0, 1));
  const int last = to.dim - 1;
  for_each_place({&to, &from}, last, [&](char* const* at) {
    row(op, at[0], {to.strides[last]}, at[1], from.strides[last], to.sizes[last]);
  });
}

}  // namespace penlight
