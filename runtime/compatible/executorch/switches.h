// ExecuTorch's switches over dtypes: a lambda compiled for each element type, which it
// finds under the name that the switch was given.
#pragma once

#include <penlight/kernel.h>

#define PENLIGHT_ET_CASE(name, cpp_type, alias, ...)                          \
  case ::penlight::ScalarType::name: {                                        \
    if constexpr (::penlight::dtype_selected(::penlight::ScalarType::name)) { \
      using alias = cpp_type;                                                 \
      return __VA_ARGS__();                                                   \
    }                                                                         \
    break;                                                                    \
  }
#define PENLIGHT_ET_INTS(alias, ...)                   \
  PENLIGHT_ET_CASE(Byte, uint8_t, alias, __VA_ARGS__)  \
  PENLIGHT_ET_CASE(Char, int8_t, alias, __VA_ARGS__)   \
  PENLIGHT_ET_CASE(Short, int16_t, alias, __VA_ARGS__) \
  PENLIGHT_ET_CASE(Int, int32_t, alias, __VA_ARGS__)   \
  PENLIGHT_ET_CASE(Long, int64_t, alias, __VA_ARGS__)
#define PENLIGHT_ET_FLOATS(alias, ...)               \
  PENLIGHT_ET_CASE(Float, float, alias, __VA_ARGS__) \
  PENLIGHT_ET_CASE(Double, double, alias, __VA_ARGS__)
#define PENLIGHT_ET_HALF(alias, ...) PENLIGHT_ET_CASE(Half, ::penlight::Half, alias, __VA_ARGS__)
#define PENLIGHT_ET_BFLOAT16(alias, ...) PENLIGHT_ET_CASE(BFloat16, ::penlight::BFloat16, alias, __VA_ARGS__)
#define PENLIGHT_ET_BOOL(alias, ...) PENLIGHT_ET_CASE(Bool, bool, alias, __VA_ARGS__)

// The sets, by the names of ExecuTorch's.
#define PENLIGHT_ET_FLOATH(alias, ...) \
  PENLIGHT_ET_FLOATS(alias, __VA_ARGS__) PENLIGHT_ET_HALF(alias, __VA_ARGS__)
#define PENLIGHT_ET_FLOATHBF16(alias, ...) \
  PENLIGHT_ET_FLOATH(alias, __VA_ARGS__) PENLIGHT_ET_BFLOAT16(alias, __VA_ARGS__)
#define PENLIGHT_ET_REAL(alias, ...) \
  PENLIGHT_ET_INTS(alias, __VA_ARGS__) PENLIGHT_ET_FLOATS(alias, __VA_ARGS__)
#define PENLIGHT_ET_REALB(alias, ...) \
  PENLIGHT_ET_REAL(alias, __VA_ARGS__) PENLIGHT_ET_BOOL(alias, __VA_ARGS__)
#define PENLIGHT_ET_REALH(alias, ...) \
  PENLIGHT_ET_REAL(alias, __VA_ARGS__) PENLIGHT_ET_HALF(alias, __VA_ARGS__)
#define PENLIGHT_ET_REALHB(alias, ...) \
  PENLIGHT_ET_REALH(alias, __VA_ARGS__) PENLIGHT_ET_BOOL(alias, __VA_ARGS__)
#define PENLIGHT_ET_REALHBF16(alias, ...) \
  PENLIGHT_ET_REALH(alias, __VA_ARGS__) PENLIGHT_ET_BFLOAT16(alias, __VA_ARGS__)
#define PENLIGHT_ET_REALHBBF16(alias, ...) \
  PENLIGHT_ET_REALHBF16(alias, __VA_ARGS__) PENLIGHT_ET_BOOL(alias, __VA_ARGS__)

// `cases` are of one of those sets; the rest is what every switch has.
#define PENLIGHT_ET_SWITCH(type, context, name, alias, cases, ...)      \
  [&] {                                                                 \
    const ::penlight::ScalarType et_type_ = (type);                     \
    switch (et_type_) { cases default : break; }                        \
    ::penlight::executorch_kernel::refuse((context), (name), et_type_); \
    using alias ET_UNUSED = float;                                      \
    auto et_body_ = __VA_ARGS__;                                        \
    return ::penlight::executorch_kernel::not_called(et_body_);         \
  }()

#define ET_SWITCH_INT_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_INTS(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_FLOAT_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_FLOATS(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_FLOATH_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_FLOATH(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_FLOATHBF16_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_FLOATHBF16(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_REAL_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_REAL(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_REALB_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_REALB(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_REALH_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_REALH(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_REALHB_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_REALHB(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_REALHBF16_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_REALHBF16(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_REALHBBF16_TYPES(type, context, name, alias, ...) \
  PENLIGHT_ET_SWITCH(type, context, name, alias, PENLIGHT_ET_REALHBBF16(alias, __VA_ARGS__), __VA_ARGS__)
#define ET_SWITCH_ALL_TYPES ET_SWITCH_REALHBBF16_TYPES

// One dtype more than the others.
#define PENLIGHT_ET_EXTRA(name, alias, ...)                                                          \
  PENLIGHT_ET_CASE(name, ::penlight::executorch_kernel::TypeOf<::penlight::ScalarType::name>, alias, \
                   __VA_ARGS__)
#define ET_SWITCH_REAL_TYPES_AND(extra, type, context, name, alias, ...)                                \
  PENLIGHT_ET_SWITCH(type, context, name, alias,                                                        \
                     PENLIGHT_ET_REAL(alias, __VA_ARGS__) PENLIGHT_ET_EXTRA(extra, alias, __VA_ARGS__), \
                     __VA_ARGS__)
#define ET_SWITCH_REAL_TYPES_AND2(extra, other, type, context, name, alias, ...)                       \
  PENLIGHT_ET_SWITCH(type, context, name, alias,                                                       \
                     PENLIGHT_ET_REAL(alias, __VA_ARGS__) PENLIGHT_ET_EXTRA(extra, alias, __VA_ARGS__) \
                         PENLIGHT_ET_EXTRA(other, alias, __VA_ARGS__),                                 \
                     __VA_ARGS__)
#define ET_SWITCH_FLOAT_TYPES_AND(extra, type, context, name, alias, ...)                                 \
  PENLIGHT_ET_SWITCH(type, context, name, alias,                                                          \
                     PENLIGHT_ET_FLOATS(alias, __VA_ARGS__) PENLIGHT_ET_EXTRA(extra, alias, __VA_ARGS__), \
                     __VA_ARGS__)
#define ET_SWITCH_INT_TYPES_AND(extra, type, context, name, alias, ...)                                 \
  PENLIGHT_ET_SWITCH(type, context, name, alias,                                                        \
                     PENLIGHT_ET_INTS(alias, __VA_ARGS__) PENLIGHT_ET_EXTRA(extra, alias, __VA_ARGS__), \
                     __VA_ARGS__)
