// From an element type known at run time to a C++ type known at compile time.
//
//   dispatch<RealBool>(ctx, x.scalar_type(), [&](auto tag) {
//     using T = typename decltype(tag)::type;
//     fill(out.data_ptr<T>(), out.numel(), T(0));
//   });
//
// Each type of the set compiles its own copy of the lambda: keep the body small,
// or dispatch on the width of the element (dispatch_bytes) where only bits move.
//
// PENLIGHT_DTYPES is a mask, bit (1 << ScalarType number) for each element type a
// build supports. A type that is not selected is refused at run time and its code
// is never instantiated: selective build sets it from the programs it serves.
#pragma once

#include <penlight/kernel.h>

#ifndef PENLIGHT_DTYPES
#define PENLIGHT_DTYPES 0xffffffffu
#endif

namespace penlight {

constexpr bool dtype_selected(ScalarType type) {
  return ((static_cast<uint32_t>(PENLIGHT_DTYPES) >> static_cast<int>(type)) & 1u) != 0;
}

// Carries a type as a value, into generic lambdas.
template <class T>
struct TypeTag {
  using type = T;
};

template <class... T>
struct DtypeSet {};

using Float16s = DtypeSet<Half, BFloat16>;
using Floats = DtypeSet<float, double, Half, BFloat16>;
using Ints = DtypeSet<uint8_t, int8_t, int16_t, int32_t, int64_t>;
using IntsBool = DtypeSet<uint8_t, int8_t, int16_t, int32_t, int64_t, bool>;
using IndexTypes = DtypeSet<int32_t, int64_t>;
using Real = DtypeSet<float, double, Half, BFloat16, uint8_t, int8_t, int16_t, int32_t, int64_t>;
using RealBool = DtypeSet<float, double, Half, BFloat16, uint8_t, int8_t, int16_t, int32_t, int64_t, bool>;

namespace detail {

template <class T, class Body>
bool dispatch_one(ScalarType type, Body& body) {
  if constexpr (dtype_selected(ScalarTypeOf<T>::value)) {
    if (type == ScalarTypeOf<T>::value) {
      body(TypeTag<T>{});
      return true;
    }
  } else {
    (void)type;
    (void)body;
  }
  return false;
}

template <class Body, class... T>
bool dispatch_any(DtypeSet<T...>, ScalarType type, Body& body) {
  return (dispatch_one<T>(type, body) || ...);
}

}  // namespace detail

// Calls body(TypeTag<T>{}) for the T of the set whose element type is `type`.
// False, with the failure recorded, when there is none.
template <class Set, class Body>
bool dispatch(KernelContext& ctx, ScalarType type, Body&& body) {
  if (detail::dispatch_any(Set{}, type, body)) return true;
  ctx.fail(Status::NotSupported, "element type {} is not supported here", dtype_name(type));
  return false;
}

// The same for code that only moves elements: one unsigned integer type a width,
// so that a copy is compiled four times instead of once a dtype.
template <class Body>
bool dispatch_bytes(KernelContext& ctx, ScalarType type, Body&& body) {
  switch (element_size(type)) {
    case 1:
      body(TypeTag<uint8_t>{});
      return true;
    case 2:
      body(TypeTag<uint16_t>{});
      return true;
    case 4:
      body(TypeTag<uint32_t>{});
      return true;
    case 8:
      body(TypeTag<uint64_t>{});
      return true;
    default:
      break;
  }
  ctx.fail(Status::NotSupported, "element type {} cannot be copied", dtype_name(type));
  return false;
}

// The type sums and products of T are made in: float for 16-bit floats, int64
// for integers (wrap-around modulo a power of two survives the narrowing store).
template <class T>
struct ComputeOf {
  using type = int64_t;
};
template <>
struct ComputeOf<float> {
  using type = float;
};
template <>
struct ComputeOf<Half> {
  using type = float;
};
template <>
struct ComputeOf<BFloat16> {
  using type = float;
};
template <>
struct ComputeOf<double> {
  using type = double;
};
template <class T>
using Compute = typename ComputeOf<T>::type;

}  // namespace penlight
