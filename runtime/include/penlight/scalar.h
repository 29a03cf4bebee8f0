// Scalar: a Python number as an operator's argument: int, float or bool.
#pragma once

#include <stdint.h>

namespace penlight {

class Scalar {
 public:
  constexpr Scalar() : int_(0), kind_(Kind::Int) {}
  constexpr Scalar(int64_t value) : int_(value), kind_(Kind::Int) {}
  constexpr Scalar(int value) : int_(value), kind_(Kind::Int) {}
  constexpr Scalar(double value) : double_(value), kind_(Kind::Double) {}
  constexpr Scalar(bool value) : int_(value), kind_(Kind::Bool) {}

  constexpr bool isIntegral(bool include_bool) const {
    return kind_ == Kind::Int || (include_bool && kind_ == Kind::Bool);
  }
  constexpr bool isFloatingPoint() const { return kind_ == Kind::Double; }
  constexpr bool isBoolean() const { return kind_ == Kind::Bool; }

  template <class T>
  constexpr T to() const {
    return kind_ == Kind::Double ? static_cast<T>(double_) : static_cast<T>(int_);
  }

 private:
  enum class Kind : uint8_t { Int, Double, Bool };
  union {
    int64_t int_;
    double double_;
  };
  Kind kind_;
};

enum class Layout : int8_t { Strided = 0 };
enum class MemoryFormat : int8_t { Contiguous = 0, Preserve = 1, ChannelsLast = 2, ChannelsLast3d = 3 };
// The file has neither devices nor generators for arguments: always none.
struct Device {};
struct Generator {};

}  // namespace penlight
