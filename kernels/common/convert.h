// Conversion between element types: one element, or a block with a stride.
//
// convert<To>(x) has ATen's meaning wherever C++ gives one: integers wrap, bool
// is "not zero" (NaN is true), float to integer truncates. Where C++ leaves it
// undefined (NaN, infinity, out of range) the result is the lowest integer, cut
// to the width, as x86 hardware has it, on every machine and without a trap.
//
// The block routines are compiled once for each compute type (float, double,
// int64_t) and shared by all kernels, so mixed dtypes, strides and 16-bit floats
// cost a kernel no code of its own.
#pragma once

#include <penlight/tensor.h>

#include "kernels/common/dispatch.h"

// Iterations of the next loop do not depend on each other even when it
// writes over what it reads, element by element.
#if defined(__GNUC__) && !defined(__clang__)
#define PENLIGHT_INDEPENDENT _Pragma("GCC ivdep")
#else
#define PENLIGHT_INDEPENDENT
#endif

namespace penlight {

namespace detail {

inline int64_t truncate_to_int64(double x) {
  if (x >= -9223372036854775808.0 && x < 9223372036854775808.0) return static_cast<int64_t>(x);
  return INT64_MIN;
}

inline int32_t truncate_to_int32(float x) {
  if (x >= -2147483648.0f && x < 2147483648.0f) return static_cast<int32_t>(x);
  return INT32_MIN;
}

inline int32_t truncate_to_int32(double x) {
  if (x > -2147483649.0 && x < 2147483648.0) return static_cast<int32_t>(x);
  return INT32_MIN;
}

}  // namespace detail

template <class A, class B>
constexpr bool same_type = false;
template <class A>
constexpr bool same_type<A, A> = true;

template <class T>
constexpr bool is_16_bit_float = same_type<T, Half> || same_type<T, BFloat16>;

// One of the two 16-bit floats, float or double.
template <class T>
constexpr bool is_floating_type = is_16_bit_float<T> || same_type<T, float> || same_type<T, double>;

template <class To, class From>
inline To convert(From x) {
  if constexpr (same_type<To, From>) {
    return x;
  } else if constexpr (is_16_bit_float<From>) {
    return convert<To>(static_cast<float>(x));
  } else if constexpr (is_16_bit_float<To>) {
    return To(static_cast<float>(x));
  } else if constexpr (same_type<To, bool>) {
    return x != From(0);
  } else if constexpr (is_floating_type<From> && !is_floating_type<To>) {
    constexpr bool wide = sizeof(To) == 8 || same_type<To, uint32_t>;
    if constexpr (same_type<To, uint64_t>) {
      if (x >= From(9223372036854775808.0) && x < From(18446744073709551616.0)) return static_cast<To>(x);
    }
    if constexpr (wide) return static_cast<To>(detail::truncate_to_int64(x));
    if constexpr (!wide) return static_cast<To>(detail::truncate_to_int32(x));
  } else {
    return static_cast<To>(x);
  }
}

inline char* address(const Tensor& tensor, dim_t offset) {
  return static_cast<char*>(tensor.data_ptr()) + offset * static_cast<dim_t>(tensor.element_size());
}

// to[i] = convert<C>(from[i * stride]) for i < count. `stride` in elements.
template <class C>
void load_block(C* to, ScalarType type, const void* from, dim_t stride, dim_t count);

// to[i * stride] = convert(from[i]) for i < count. `stride` in elements.
template <class C>
void store_block(ScalarType type, void* to, dim_t stride, const C* from, dim_t count);

#define PENLIGHT_BLOCKS(C)                                                       \
  extern template void load_block<C>(C*, ScalarType, const void*, dim_t, dim_t); \
  extern template void store_block<C>(ScalarType, void*, dim_t, const C*, dim_t);
PENLIGHT_BLOCKS(float)
PENLIGHT_BLOCKS(double)
PENLIGHT_BLOCKS(int64_t)
#undef PENLIGHT_BLOCKS

// The same for elements of a tensor, from the one at `offset` on. Offset and stride in elements.
template <class C>
inline void load_block(C* to, const Tensor& from, dim_t offset, dim_t stride, dim_t count) {
  load_block(to, from.scalar_type(), address(from, offset), stride, count);
}
template <class C>
inline void store_block(const Tensor& to, dim_t offset, dim_t stride, const C* from, dim_t count) {
  store_block(to.scalar_type(), address(to, offset), stride, from, count);
}

// One element, as a compute type: for the odd scalar, not for loops.
template <class C>
inline C load_element(ScalarType type, const void* from) {
  C value;
  load_block(&value, type, from, 1, 1);
  return value;
}

template <class C>
inline void store_element(ScalarType type, void* to, C value) {
  store_block(type, to, 1, &value, 1);
}

// The same for the element of a tensor at an offset.
template <class C>
inline C load_element(const Tensor& from, dim_t offset) {
  return load_element<C>(from.scalar_type(), address(from, offset));
}
template <class C>
inline void store_element(const Tensor& to, dim_t offset, C value) {
  store_element(to.scalar_type(), address(to, offset), value);
}

inline void store_scalar(ScalarType type, void* to, const Scalar& value) {
  if (value.isFloatingPoint()) {
    store_element(type, to, value.to<double>());
  } else {
    store_element(type, to, value.to<int64_t>());
  }
}

// `value` as an element of `type`, which is not complex, has it: rounded, wrapped, or a truth value.
inline Scalar cast_to(ScalarType type, const Scalar& value) {
  int64_t element;
  store_scalar(type, &element, value);
  return is_floating(type) ? Scalar(load_element<double>(type, &element))
                           : Scalar(load_element<int64_t>(type, &element));
}

}  // namespace penlight
