// Combining values with what is already in memory: the accumulating forms of
// index_put, index_add, scatter. One row function a dtype, chosen once a call.
#pragma once

#include "kernels/common/convert.h"
#include "kernels/common/math.h"
#include "kernels/common/view.h"

namespace penlight {

enum class Combine : uint8_t { Add, Multiply, Min, Max };

// Where the elements of a row lie, in bytes: `step` apart, and `along` times an index further where there
// are such, int64 one behind the other.
struct Places {
  dim_t step;
  const char* index;
  dim_t along;
  uint64_t size;  // indices are below it

  Places(dim_t bytes, const void* indices = nullptr, dim_t bytes_along = 0, int64_t count = 0)
      : step(bytes),
        index(static_cast<const char*>(indices)),
        along(bytes_along),
        size(static_cast<uint64_t>(count)) {}

  uint64_t index_at(dim_t i) const {
    return detail::load_item<uint64_t>(index + i * static_cast<dim_t>(sizeof(uint64_t)));
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

// Neighbours, some at a time: compilers make vectors of loops whose end they know. Returns how many.
template <class T, class Function>
dim_t combine_neighbours(char* __restrict to, const char* __restrict from, dim_t count, Function function) {
  constexpr dim_t kSize = sizeof(T), kAtOnce = 16;
  dim_t done = 0;
  for (; done + kAtOnce <= count; done += kAtOnce) {
    for (dim_t i = 0; i < kAtOnce; ++i)
      combine_one<T>(to + (done + i) * kSize, from + (done + i) * kSize, function);
  }
  return done;
}

template <class T, class Function>
bool combine_each(char* to, Places places, const char* from, dim_t from_stride, dim_t count,
                  Function function) {
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
  const bool dense = places.step == kSize && from_stride == kSize;
  for (dim_t i = dense ? combine_neighbours<T>(to, from, count, function) : 0; i < count; ++i)
    combine_one<T>(to + i * places.step, from + i * from_stride, function);
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
  switch (op) {
    case Combine::Add:
      return combine_each<T>(to, places, from, from_stride, count, [](C a, C b) { return math::plus(a, b); });
    case Combine::Multiply:
      return combine_each<T>(to, places, from, from_stride, count,
                             [](C a, C b) { return math::times(a, b); });
    case Combine::Min:
      return combine_each<T>(to, places, from, from_stride, count,
                             [](C a, C b) { return either((b < a) | (b != b), a, b); });
    case Combine::Max:
      return combine_each<T>(to, places, from, from_stride, count,
                             [](C a, C b) { return either((b > a) | (b != b), a, b); });
  }
  return true;
}

}  // namespace detail

PENLIGHT_BY_DTYPES_BEGIN

// Null, with the failure recorded, for a dtype that nothing is computed in.
inline CombineRow combine_row_for(KernelContext& ctx, ScalarType type) {
  CombineRow row = nullptr;
  dispatch<RealBool>(ctx, type, [&](auto tag) { row = detail::combine_row<typename decltype(tag)::type>; });
  return row;
}

PENLIGHT_BY_DTYPES_END

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
    return static_cast<void>(row(op, to.data, to.strides[0], from.data, from.strides[0], to.sizes[0]));
  if (to.dim == 0) return static_cast<void>(row(op, to.data, 0, from.data, 0, 1));
  const int last = to.dim - 1;
  for_each_place({&to, &from}, last, [&](char* const* at) {
    row(op, at[0], to.strides[last], at[1], from.strides[last], to.sizes[last]);
  });
}

}  // namespace penlight
