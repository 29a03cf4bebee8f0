// Numbers given as arguments, as kernel files for ExecuTorch read them.
#pragma once

#include <executorch/kernel.h>

namespace torch {
namespace executor {
namespace native {
namespace utils {

// The dtype that a number has of its own.
inline ScalarType get_scalar_dtype(Scalar scalar) {
  return scalar.isBoolean()         ? ScalarType::Bool
         : scalar.isFloatingPoint() ? ScalarType::Double
                                    : ScalarType::Long;
}

template <class T>
T scalar_to(const Scalar& scalar) {
  return scalar.isFloatingPoint() ? static_cast<T>(scalar.to<double>())
                                  : static_cast<T>(scalar.to<int64_t>());
}

namespace detail {

inline void round_to(double value, double* out) { *out = value; }
template <class T>
void round_to(double value, T* out) {
  *out = static_cast<T>(static_cast<float>(value));
}
inline bool is_finite(double value) { return value - value == 0; }

// Of floating point, Half and BFloat16 included.
template <class T>
struct Extract {
  static bool from(const Scalar& scalar, T* out) {
    if (scalar.isBoolean()) return false;
    const double value = scalar.to<double>();
    T rounded;
    round_to(value, &rounded);
    if (is_finite(value) && !is_finite(static_cast<double>(static_cast<float>(rounded))) &&
        sizeof(T) < sizeof(double)) {
      return false;
    }
    *out = rounded;
    return true;
  }
};
template <class T>
struct ExtractInteger {
  static bool from(const Scalar& scalar, T* out) {
    if (!scalar.isIntegral(false)) return false;
    const int64_t value = scalar.to<int64_t>();
    const T held = static_cast<T>(value);
    if (static_cast<int64_t>(held) != value || (value < 0 && held > T(0))) return false;
    *out = held;
    return true;
  }
};
template <>
struct Extract<bool> {
  static bool from(const Scalar& scalar, bool* out) {
    if (scalar.isFloatingPoint()) return false;
    *out = scalar.to<int64_t>() != 0;
    return true;
  }
};
#define PENLIGHT_ET_INTEGER(type) \
  template <>                     \
  struct Extract<type> : ExtractInteger<type> {};
PENLIGHT_ET_INTEGER(char)
PENLIGHT_ET_INTEGER(signed char)
PENLIGHT_ET_INTEGER(unsigned char)
PENLIGHT_ET_INTEGER(short)
PENLIGHT_ET_INTEGER(unsigned short)
PENLIGHT_ET_INTEGER(int)
PENLIGHT_ET_INTEGER(unsigned int)
PENLIGHT_ET_INTEGER(long)
PENLIGHT_ET_INTEGER(unsigned long)
PENLIGHT_ET_INTEGER(long long)
PENLIGHT_ET_INTEGER(unsigned long long)
#undef PENLIGHT_ET_INTEGER

}  // namespace detail

// False when the number is of another kind, or not in the range of T; then `out` stays as it was. True
// and False are numbers for a bool alone; an int is one for floating point too.
template <class T>
bool extract_scalar(Scalar scalar, T* out) {
  return detail::Extract<T>::from(scalar, out);
}

}  // namespace utils
}  // namespace native
}  // namespace executor
}  // namespace torch

#define ET_EXTRACT_SCALAR(scalar, variable)                                                 \
  ET_CHECK_MSG(::torch::executor::native::utils::extract_scalar(scalar, &(variable)), "%s", \
               #scalar " could not be extracted: wrong type or out of range")
