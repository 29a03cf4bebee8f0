// Combining values with what is already in memory: the accumulating forms of
// index_put, index_add, scatter. One row function a dtype, chosen once a call.
#pragma once

#include "kernels/common/convert.h"
#include "kernels/common/view.h"

namespace penlight {

enum class Combine : uint8_t { Add, Multiply, Min, Max, Replace };

// Where the elements of a row lie, in bytes: at given offsets, or at a stride, which may be 0.
struct Places {
  const dim_t* offsets;
  dim_t stride;

  Places(dim_t bytes) : offsets(nullptr), stride(bytes) {}
  Places(const dim_t* given) : offsets(given), stride(0) {}
};

// to[i] = to[i] (op) from[i], in order.
using CombineRow = void (*)(Combine op, char* to, Places places, const char* from, dim_t from_stride,
                            dim_t count);

namespace detail {

template <class C>
struct WideOf {
  using type = C;
};
template <>
struct WideOf<int64_t> {
  using type = uint64_t;
};

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
    for (dim_t i = 0; i < kAtOnce; ++i) {
      combine_one<T>(to + (done + i) * kSize, from + (done + i) * kSize, function);
    }
  }
  return done;
}

template <class T, class Function>
void combine_each(char* to, Places places, const char* from, dim_t from_stride, dim_t count,
                  Function function) {
  constexpr dim_t kSize = sizeof(T);
  if (places.offsets) {
    for (dim_t i = 0; i < count; ++i) {
      combine_one<T>(to + places.offsets[i], from + i * from_stride, function);
    }
    return;
  }
  const bool dense = places.stride == kSize && from_stride == kSize;
  for (dim_t i = dense ? combine_neighbours<T>(to, from, count, function) : 0; i < count; ++i) {
    combine_one<T>(to + i * places.stride, from + i * from_stride, function);
  }
}

template <class T>
void combine_row(Combine op, char* to, Places places, const char* from, dim_t from_stride, dim_t count) {
  using C = Compute<T>;
  using Wide = typename WideOf<C>::type;  // unsigned for integers: they wrap
  switch (op) {
    case Combine::Add:
      return combine_each<T>(to, places, from, from_stride, count, [](C a, C b) {
        return static_cast<C>(static_cast<Wide>(a) + static_cast<Wide>(b));
      });
    case Combine::Multiply:
      return combine_each<T>(to, places, from, from_stride, count, [](C a, C b) {
        return static_cast<C>(static_cast<Wide>(a) * static_cast<Wide>(b));
      });
    case Combine::Min:
      return combine_each<T>(to, places, from, from_stride, count,
                             [](C a, C b) { return (b < a || b != b) ? b : a; });
    case Combine::Max:
      return combine_each<T>(to, places, from, from_stride, count,
                             [](C a, C b) { return (b > a || b != b) ? b : a; });
    case Combine::Replace:
      return combine_each<T>(to, places, from, from_stride, count, [](C, C b) { return b; });
  }
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
  if (to.dim == 1) return row(op, to.data, to.strides[0], from.data, from.strides[0], to.sizes[0]);
  if (to.numel() == 0) return;
  const int last = to.dim - 1;
  dim_t at[kMaxViewDim] = {};
  char* dst = to.data;
  const char* src = from.data;
  for (;;) {
    row(op, dst, last < 0 ? 0 : to.strides[last], src, last < 0 ? 0 : from.strides[last],
        last < 0 ? 1 : to.sizes[last]);
    int d = last - 1;
    for (; d >= 0; --d) {
      dst += to.strides[d];
      src += from.strides[d];
      if (++at[d] < to.sizes[d]) break;
      dst -= to.strides[d] * to.sizes[d];
      src -= from.strides[d] * to.sizes[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

}  // namespace penlight
