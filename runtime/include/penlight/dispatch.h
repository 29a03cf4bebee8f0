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
// is never instantiated. Selective build sets it for each file from what the
// programs it serves do with that file's operators, so two files of one program
// may differ: what a header makes of the mask goes between PENLIGHT_BY_DTYPES_BEGIN
// and _END, or the linker would take the one for the other.
#pragma once

#include <penlight/context.h>
#include <penlight/scalar_type.h>
#include <stdint.h>

#ifndef PENLIGHT_DTYPES
#define PENLIGHT_DTYPES 0xffffffffu
#endif

#define PENLIGHT_JOIN_AGAIN(a, b) a##b
#define PENLIGHT_JOIN(a, b) PENLIGHT_JOIN_AGAIN(a, b)
#define PENLIGHT_BY_DTYPES_BEGIN inline namespace PENLIGHT_JOIN(dtypes_, PENLIGHT_DTYPES) {
#define PENLIGHT_BY_DTYPES_END }

namespace penlight {

PENLIGHT_BY_DTYPES_BEGIN

constexpr bool dtype_selected(ScalarType type) {
  return ((static_cast<uint32_t>(PENLIGHT_DTYPES) >> static_cast<int>(type)) & 1u) != 0;
}

// What computing in double, in float (also for 16-bit floats, and for integers where
// the result is floating) and in int64_t (all integers and bool) is compiled for.
constexpr bool kDoubleSelected = dtype_selected(ScalarType::Double);
constexpr bool kFloatSelected = dtype_selected(ScalarType::Float) || dtype_selected(ScalarType::Half) ||
                                dtype_selected(ScalarType::BFloat16);
constexpr bool kIntegerSelected = dtype_selected(ScalarType::Byte) || dtype_selected(ScalarType::Char) ||
                                  dtype_selected(ScalarType::Short) || dtype_selected(ScalarType::Int) ||
                                  dtype_selected(ScalarType::Long) || dtype_selected(ScalarType::Bool) ||
                                  dtype_selected(ScalarType::UInt16) || dtype_selected(ScalarType::UInt32) ||
                                  dtype_selected(ScalarType::UInt64);

PENLIGHT_BY_DTYPES_END

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

PENLIGHT_BY_DTYPES_BEGIN

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

PENLIGHT_BY_DTYPES_END

}  // namespace detail

PENLIGHT_BY_DTYPES_BEGIN

// Calls body(TypeTag<T>{}) for the T of the set whose element type is `type`.
// False, with the failure recorded, when there is none.
template <class Set, class Body>
bool dispatch(KernelContext& ctx, ScalarType type, Body&& body) {
  if (detail::dispatch_any(Set{}, type, body)) return true;
  ctx.fail(Status::NotSupported, "element type {} is not supported here", dtype_name(type));
  return false;
}

PENLIGHT_BY_DTYPES_END

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

}  // namespace penlight
