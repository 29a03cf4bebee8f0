// 16-bit floats, float16 and bfloat16, in memory and as vectors of float32.
#pragma once

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

typedef uint16_t Halves __attribute__((vector_size(kLanes * 2)));
typedef uint32_t Bits __attribute__((vector_size(kLanes * 4)));

PENLIGHT_INLINE Bits load_halves(const uint16_t* from) {
#if defined(__AVX512F__)
  return (Bits)_mm512_maskz_cvtepu16_epi32(0xffff,
                                           _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
  return (Bits)_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  Halves value;
  memcpy(&value, from, sizeof value);
  return __builtin_convertvector(value, Bits);
#endif
}

// The lower 16 bits of each lane; the upper ones are zero.
PENLIGHT_INLINE void store_halves(uint16_t* to, Bits value) {
#if defined(__AVX512F__)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)value));
#elif defined(__AVX2__)
  const __m256i packed = _mm256_packus_epi32((__m256i)value, (__m256i)value);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                   _mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 8)));
#else
  const Halves halves = __builtin_convertvector(value, Halves);
  memcpy(to, &halves, sizeof halves);
#endif
}

// bfloat16: the upper half of a float32.
struct BFloat16s {
  using Element = uint16_t;

  PENLIGHT_INLINE Floats load(const uint16_t* from) { return (Floats)(load_halves(from) << 16); }

  PENLIGHT_INLINE void store(uint16_t* to, Floats value) {
    const Bits bits = (Bits)value, rounded = bits + 0x7fff + (bits >> 16 & 1);
    store_halves(to, (value == value ? rounded : bits | 0x400000) >> 16);
  }
};

struct Float16s {
  using Element = uint16_t;

  PENLIGHT_INLINE Floats load(const uint16_t* from) {
#if defined(__AVX512F__)
    return (Floats)_mm512_maskz_cvtph_ps(0xffff, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__F16C__)
    return (Floats)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    // The exponent is too low by 112; of infinity and NaN it is all ones.
    const Bits bits = load_halves(from), magnitude = (bits & 0x7fff) << 13;
    const Floats value = (Floats)magnitude * 0x1p112f;
    const Bits finite = (Bits)value, other = magnitude | 0x7f800000;
    return (Floats)((magnitude < (0x7c00u << 13) ? finite : other) | (bits & 0x8000) << 16);
#endif
  }

  PENLIGHT_INLINE void store(uint16_t* to, Floats value) {
#if defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_maskz_cvtps_ph(0xffff, (__m512)value, _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT));
#else
    const Bits sign = (Bits)value >> 16 & 0x8000;
    const Floats size = (Floats)((Bits)value & 0x7fffffff);
    const Floats least = size < 65536.0f ? size : splat(65536.0f);  // which is infinity here
    // Added to a power of two that is 2^13 times its own, it keeps 11 bits, or what a subnormal has.
    const Bits exponent = (Bits)least & 0x7f800000, lowest = Bits{} + (113u << 23);
    const Floats power = (Floats)((exponent > lowest ? exponent : lowest) + (13u << 23));
    Floats sum = least + power;
    keep_sum(sum);
    const Bits finite = (Bits)((sum - power) * 0x1p-112f) >> 13;
    store_halves(to, (value == value ? finite : Bits{} + 0x7e00u) | sign);
#endif
  }

 private:
  // Compilers that may fuse or reorder must not see the sum and the difference at once.
  PENLIGHT_INLINE void keep_sum(Floats& sum) { __asm__("" : "+m"(sum)); }
};

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
