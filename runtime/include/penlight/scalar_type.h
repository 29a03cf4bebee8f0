// Element types: PyTorch's ScalarType, with its numbers, as they are in the file.
#pragma once

#include <penlight/half.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

enum class ScalarType : int8_t {
  Byte = 0,
  Char = 1,
  Short = 2,
  Int = 3,
  Long = 4,
  Half = 5,
  Float = 6,
  Double = 7,
  ComplexHalf = 8,
  ComplexFloat = 9,
  ComplexDouble = 10,
  Bool = 11,
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  BFloat16 = 15,
  QUInt4x2 = 16,
  QUInt2x4 = 17,
  Bits1x8 = 18,
  Bits2x4 = 19,
  Bits4x2 = 20,
  Bits8 = 21,
  Bits16 = 22,
  Float8_e5m2 = 23,
  Float8_e4m3fn = 24,
  Float8_e5m2fnuz = 25,
  Float8_e4m3fnuz = 26,
  UInt16 = 27,
  UInt32 = 28,
  UInt64 = 29,
};

// Bytes of one element; 0 for a number that is no element type.
size_t element_size(ScalarType type);

// PyTorch's short name, "float32"; "?" for a number that is no element type.
const char* dtype_name(ScalarType type);

inline bool is_floating(ScalarType type) {
  return type == ScalarType::Float || type == ScalarType::Double || type == ScalarType::Half ||
         type == ScalarType::BFloat16;
}

inline bool is_complex(ScalarType type) {
  return type == ScalarType::ComplexHalf || type == ScalarType::ComplexFloat ||
         type == ScalarType::ComplexDouble;
}

// The real numbers that one of `type` consists of: itself, unless it is complex.
inline ScalarType part_of(ScalarType type) {
  return type == ScalarType::ComplexHalf     ? ScalarType::Half
         : type == ScalarType::ComplexFloat  ? ScalarType::Float
         : type == ScalarType::ComplexDouble ? ScalarType::Double
                                             : type;
}

// Integers, without bool.
inline bool is_integral(ScalarType type) {
  return (type >= ScalarType::Byte && type <= ScalarType::Long) ||
         (type >= ScalarType::UInt16 && type <= ScalarType::UInt64);
}

// The ScalarType of a C++ type, for data_ptr<T>() and dispatch.
template <class T>
struct ScalarTypeOf;
#define PENLIGHT_SCALAR_TYPE(cpp_type, name)              \
  template <>                                             \
  struct ScalarTypeOf<cpp_type> {                         \
    static constexpr ScalarType value = ScalarType::name; \
  };
PENLIGHT_SCALAR_TYPE(uint8_t, Byte)
PENLIGHT_SCALAR_TYPE(int8_t, Char)
PENLIGHT_SCALAR_TYPE(int16_t, Short)
PENLIGHT_SCALAR_TYPE(int32_t, Int)
PENLIGHT_SCALAR_TYPE(int64_t, Long)
PENLIGHT_SCALAR_TYPE(Half, Half)
PENLIGHT_SCALAR_TYPE(float, Float)
PENLIGHT_SCALAR_TYPE(double, Double)
PENLIGHT_SCALAR_TYPE(bool, Bool)
PENLIGHT_SCALAR_TYPE(BFloat16, BFloat16)
PENLIGHT_SCALAR_TYPE(uint16_t, UInt16)
PENLIGHT_SCALAR_TYPE(uint32_t, UInt32)
PENLIGHT_SCALAR_TYPE(uint64_t, UInt64)
#undef PENLIGHT_SCALAR_TYPE

}  // namespace penlight
