// 16-bit floating point: storage types that convert to and from float.
//
// Arithmetic is done in float; rounding is to nearest, ties to even, as ATen's.
#pragma once

#include <stdint.h>
#include <string.h>

namespace penlight {

namespace detail {

inline uint32_t float_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

inline float float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

// `a` if `condition`, else `b`, without a branch: loops of conversions become vector
// code. (A conditional expression would let compilers skip floating operations.)
inline uint32_t choose_bits(bool condition, uint32_t a, uint32_t b) {
  const uint32_t mask = 0u - static_cast<uint32_t>(condition);
  return (a & mask) | (b & ~mask);
}

inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = half & 0x7c00u;
  const uint32_t mantissa = half & 0x3ffu;
  const uint32_t normal = ((exponent | mantissa) << 13) + 0x38000000u;
  // Zero and subnormals: mantissa * 2^-24 is exact in float.
  const uint32_t tiny =
      float_bits(static_cast<float>(static_cast<int32_t>(mantissa)) * 5.9604644775390625e-8f);
  const uint32_t special = choose_bits(exponent == 0x7c00u, 0x7f800000u, 0u);
  return float_from_bits(sign | special | choose_bits(exponent == 0, tiny, normal));
}

inline uint16_t float_to_half(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  const uint32_t normal = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  // Subnormal half: adding 0.5 puts the result's bits at the bottom, rounded.
  const uint32_t tiny = float_bits(float_from_bits(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t result = choose_bits(magnitude < 0x38800000u, tiny, normal);
  result = choose_bits(magnitude >= 0x477ff000u, 0x7c00u, result);  // rounds to infinity
  result = choose_bits(magnitude > 0x7f800000u, 0x7e00u, result);   // NaN
  return static_cast<uint16_t>(sign | result);
}

inline uint16_t float_to_bfloat16(float value) {
  const uint32_t bits = float_bits(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>(choose_bits((bits & 0x7fffffffu) > 0x7f800000u, 0x7fc0u, rounded));  // one NaN
}

}  // namespace detail

struct Half {
  uint16_t bits;
  Half() = default;
  Half(float value) : bits(detail::float_to_half(value)) {}
  operator float() const { return detail::half_to_float(bits); }
};

struct BFloat16 {
  uint16_t bits;
  BFloat16() = default;
  BFloat16(float value) : bits(detail::float_to_bfloat16(value)) {}
  operator float() const { return detail::float_from_bits(static_cast<uint32_t>(bits) << 16); }
};

}  // namespace penlight
