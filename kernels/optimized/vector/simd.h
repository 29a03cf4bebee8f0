// One vector of floats as wide as the instruction set that a file is compiled for.
//
// The files of this folder are compiled once for each instruction set, into a
// namespace of its own. They hold no inline function with a name that other
// files share: the linker would keep one copy of it, perhaps the one that an
// older machine cannot run. So everything here is `static` and always inlined.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX__)
#include <immintrin.h>
#elif defined(__SSE__)
#include <xmmintrin.h>
#endif

#define PENLIGHT_INLINE static inline __attribute__((always_inline))

namespace penlight::optimized {
namespace PENLIGHT_ISA {

// And the rows and columns, in vectors, of a matrix product that its registers hold.
#if defined(__AVX512F__)
constexpr int kLanes = 16, kTileRows = 12, kTileVectors = 2;
#elif defined(__AVX__)
constexpr int kLanes = 8, kTileRows = 6, kTileVectors = 2;
#elif defined(__aarch64__)
constexpr int kLanes = 4, kTileRows = 6, kTileVectors = 4;
#else
constexpr int kLanes = 4, kTileRows = 4, kTileVectors = 2;
#endif

#ifdef PENLIGHT_FEW_TILES
constexpr bool kFewTiles = true;  // of a binary that is to be small
#else
constexpr bool kFewTiles = false;
#endif

// A wide tile, for cores that prefers_wide_tiles() names: 24 of these load 10 vectors, not 14; and it has
// so few pointers that several steps of a sum are unrolled without moving any of them to memory.
constexpr int kWideRows = kTileRows / 2, kWideVectors = 2 * kTileVectors;
constexpr bool kHasWideTiles = !kFewTiles && kLanes == 16;

// Steps of a sum that are unrolled: where two threads share a core, each starts half of its instructions, and
// twelve products with what else a step takes are more than that. Tiles of AVX-512 but wide ones have more
// rows than there are registers for their addresses, which unrolling would have moved around.
constexpr int kStepsAtOnce = 4;
constexpr bool kUnrollsSteps = !kFewTiles && kLanes == 8;

typedef float Floats __attribute__((vector_size(kLanes * 4)));
typedef int32_t Ints __attribute__((vector_size(kLanes * 4)));
typedef double Doubles __attribute__((vector_size(kLanes * 8)));
// Half of a vector's lanes, which fill one in double precision.
typedef float HalfFloats __attribute__((vector_size(kLanes * 2)));
typedef double HalfDoubles __attribute__((vector_size(kLanes * 4)));
typedef int64_t HalfLongs __attribute__((vector_size(kLanes * 4)));

// Lanes of `a`, and after them of `b`, in the order of the numbers. GCC before 12 has only the other name.
#if defined(__clang__)
#define PENLIGHT_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PENLIGHT_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, Ints{__VA_ARGS__})
#endif

// Else compilers read memory again for each use.
PENLIGHT_INLINE void keep_in_register(Floats& x) {
#if defined(__x86_64__)
  __asm__("" : "+v"(x));
#else
  (void)x;
#endif
}
PENLIGHT_INLINE void keep_in_register(const float*& x) { __asm__("" : "+r"(x)); }
PENLIGHT_INLINE void keep_in_memory(Floats& x) { __asm__("" : "+m"(x)); }

// sum += x * y, with AVX2 in the register where sum is. Of several steps together compilers put new sums into
// the register of a factor, until none of the 16 is left and sums wait in memory. AVX-512 has 32, and its
// products can read and spread a factor themselves.
PENLIGHT_INLINE void multiply_add(Floats& sum, Floats x, Floats y) {
#if defined(__FMA__) && !defined(__AVX512F__)
  __asm__("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(x), "x"(y));
#else
  sum += x * y;
#endif
}

PENLIGHT_INLINE Floats load(const float* from) {
  Floats value;
  memcpy(&value, from, sizeof value);
  return value;
}

PENLIGHT_INLINE void store(float* to, Floats value) { memcpy(to, &value, sizeof value); }

// How numbers lie in memory, and how a vector of them is read and written; others are in halves.h.
struct Singles {
  using Element = float;

  PENLIGHT_INLINE Floats load(const float* from) { return PENLIGHT_ISA::load(from); }
  PENLIGHT_INLINE void store(float* to, Floats value) { PENLIGHT_ISA::store(to, value); }
};

PENLIGHT_INLINE Ints load_ints(const int32_t* from) {
  Ints value;
  memcpy(&value, from, sizeof value);
  return value;
}

// One byte to a lane. GCC 12 takes a general conversion apart, byte by byte.
PENLIGHT_INLINE Ints load_bytes(const uint8_t* from) {
#if defined(__AVX512F__)
  return (Ints)_mm512_maskz_cvtepu8_epi32(0xffff, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__AVX2__)
  return (Ints)_mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#else
  typedef uint8_t Bytes __attribute__((vector_size(kLanes)));
  Bytes bytes;
  memcpy(&bytes, from, sizeof bytes);
  return __builtin_convertvector(bytes, Ints);
#endif
}

// Subtracting zero, not adding it, keeps the sign of -0.
PENLIGHT_INLINE Floats splat(float value) { return value - Floats{}; }
PENLIGHT_INLINE Ints splat_int(int32_t value) { return value - Ints{}; }

// 1 where `mask` is set, else 0, in a byte to a lane.
PENLIGHT_INLINE void store_bytes(uint8_t* to, Ints mask) {
  const Ints ones = mask & splat_int(1);
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)ones));
#elif defined(__AVX2__)
  const __m128i words =
      _mm_packs_epi32(_mm256_castsi256_si128((__m256i)ones), _mm256_extracti128_si256((__m256i)ones, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packs_epi16(words, words));
#else
  for (int lane = 0; lane < kLanes; ++lane) to[lane] = static_cast<uint8_t>(ones[lane]);
#endif
}

// The first `left` lanes, or all.
PENLIGHT_INLINE void store_as_longs(int64_t* to, Ints value, ptrdiff_t left) {
  int32_t lanes[kLanes];
  memcpy(lanes, &value, sizeof lanes);
  if (left >= kLanes) {
    for (int i = 0; i < kLanes; ++i) to[i] = lanes[i];
  } else {
    for (ptrdiff_t i = 0; i < left; ++i) to[i] = lanes[i];
  }
}

// Is it set for any lane?
PENLIGHT_INLINE bool has_any(Ints mask) {
  int32_t lanes[kLanes], any = 0;
  memcpy(lanes, &mask, sizeof lanes);
  for (int i = 0; i < kLanes; ++i) any |= lanes[i];
  return any != 0;
}

PENLIGHT_INLINE ptrdiff_t min_of(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }
PENLIGHT_INLINE ptrdiff_t max_of(ptrdiff_t a, ptrdiff_t b) { return a > b ? a : b; }
PENLIGHT_INLINE ptrdiff_t round_up(ptrdiff_t count, ptrdiff_t step) {
  return (count + step - 1) / step * step;
}

// The first `count` lanes, fewer than all; the others are zero, and their memory is not
// touched. By masks where the instruction set has them: an array on the stack would be
// read before its parts are written there.
#if defined(__AVX512F__)
PENLIGHT_INLINE __mmask16 mask_of(ptrdiff_t count) {
  return static_cast<__mmask16>((1u << (count > 0 ? count : 0)) - 1);
}
PENLIGHT_INLINE Floats load_some(const float* from, ptrdiff_t count) {
  return (Floats)_mm512_maskz_loadu_ps(mask_of(count), from);
}
PENLIGHT_INLINE void store_some(float* to, Floats value, ptrdiff_t count) {
  _mm512_mask_storeu_ps(to, mask_of(count), (__m512)value);
}
#elif defined(__AVX__)
PENLIGHT_INLINE __m256i mask_of(ptrdiff_t count) {
  static const int32_t kMasks[2 * kLanes] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
  __m256i mask;
  memcpy(&mask, kMasks + kLanes - (count > 0 ? count : 0), sizeof mask);
  return mask;
}
PENLIGHT_INLINE Floats load_some(const float* from, ptrdiff_t count) {
  return (Floats)_mm256_maskload_ps(from, mask_of(count));
}
PENLIGHT_INLINE void store_some(float* to, Floats value, ptrdiff_t count) {
  _mm256_maskstore_ps(to, mask_of(count), (__m256)value);
}
#else
PENLIGHT_INLINE Floats load_some(const float* from, ptrdiff_t count) {
  float lanes[kLanes] = {};
  for (ptrdiff_t i = 0; i < count; ++i) lanes[i] = from[i];
  return load(lanes);
}
PENLIGHT_INLINE void store_some(float* to, Floats value, ptrdiff_t count) {
  float lanes[kLanes];
  store(lanes, value);
  for (ptrdiff_t i = 0; i < count; ++i) to[i] = lanes[i];
}
#endif

// The first `count` lanes of `value`; the others are zero.
PENLIGHT_INLINE Floats first_lanes(Floats value, ptrdiff_t count) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_mov_ps(mask_of(count), (__m512)value);
#elif defined(__AVX__)
  return (Floats)_mm256_and_ps((__m256)value, (__m256)mask_of(count));
#else
  float lanes[kLanes] = {};
  store_some(lanes, value, count);
  return load(lanes);
#endif
}

// from[at[i]] in lane i.
PENLIGHT_INLINE Floats gather(const float* from, Ints at) {
#if defined(__AVX512F__)
  // GCC 12 warns of the plain one, whose header leaves what masked lanes would have undefined.
  return (Floats)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xffff, (__m512i)at, from, 4);
#elif defined(__AVX2__)
  return (Floats)_mm256_i32gather_ps(from, (__m256i)at, 4);
#else
  Floats value = {};
  for (int lane = 0; lane < kLanes; ++lane) value[lane] = from[at[lane]];
  return value;
#endif
}

// Lane at[i], of AVX-512 at[i] % 16, of a vector in lane i.
PENLIGHT_INLINE Floats pick_lanes(Floats x, Ints at) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_permutexvar_ps(0xffff, (__m512i)at, (__m512)x);
#elif defined(__AVX2__)
  return (Floats)_mm256_permutevar8x32_ps((__m256)x, (__m256i)at);
#else
  float lanes[kLanes];
  store(lanes, x);
  return gather(lanes, at);
#endif
}

// As many of the `left` elements as a vector holds.
PENLIGHT_INLINE Floats load_part(const float* from, ptrdiff_t left) {
  return left >= kLanes ? load(from) : load_some(from, left);
}
PENLIGHT_INLINE void store_part(float* to, Floats value, ptrdiff_t left) {
  if (left >= kLanes) {
    store(to, value);
  } else {
    store_some(to, value, left);
  }
}

// Lane by lane where `mask` is set (all bits), from `yes`, else from `no`.
PENLIGHT_INLINE Floats select(Ints mask, Floats yes, Floats no) { return mask ? yes : no; }

// Every lane in the place of the one `width` further, and the other way round.
template <int width, class Vector>
PENLIGHT_INLINE Vector swap_lanes(Vector x) {
  constexpr int w = width;
  if constexpr (kLanes == 16) {
    return PENLIGHT_SHUFFLE(x, x, 0 ^ w, 1 ^ w, 2 ^ w, 3 ^ w, 4 ^ w, 5 ^ w, 6 ^ w, 7 ^ w, 8 ^ w, 9 ^ w,
                            10 ^ w, 11 ^ w, 12 ^ w, 13 ^ w, 14 ^ w, 15 ^ w);
  } else if constexpr (kLanes == 8) {
    return PENLIGHT_SHUFFLE(x, x, 0 ^ w, 1 ^ w, 2 ^ w, 3 ^ w, 4 ^ w, 5 ^ w, 6 ^ w, 7 ^ w);
  } else {
    return PENLIGHT_SHUFFLE(x, x, 0 ^ w, 1 ^ w, 2 ^ w, 3 ^ w);
  }
}

// Adds lanes `width`, width / 2, ... 1 apart.
template <int width>
PENLIGHT_INLINE Floats fold_lanes(Floats value) {
  if constexpr (width == 0) {
    return value;
  } else {
    return fold_lanes<width / 2>(value + swap_lanes<width>(value));
  }
}

// Pairwise, so that the error does not grow with the width.
PENLIGHT_INLINE float sum_lanes(Floats value) { return fold_lanes<kLanes / 2>(value)[0]; }

// Sums of lanes `width` apart: of `a` in the lanes whose number lacks that bit, in the others of `b`.
template <int width>
PENLIGHT_INLINE Floats fold_both(Floats a, Floats b) {
  Ints numbers = {};
  for (int lane = 0; lane < kLanes; ++lane) numbers[lane] = lane;
  const Ints of_a = (numbers & width) == 0;
  return select(of_a, a, b) + swap_lanes<width>(select(of_a, b, a));
}

template <int width = kLanes / 2>
PENLIGHT_INLINE float max_lanes(Floats value) {
  const Floats other = swap_lanes<width>(value), most = select(other > value, other, value);
  if constexpr (width == 1) {
    return most[0];
  } else {
    return max_lanes<width / 2>(most);
  }
}

// Is any bit of a mask set?
PENLIGHT_INLINE bool any_of(Ints mask) {
  uint64_t words[kLanes / 2], all = 0;
  memcpy(words, &mask, sizeof words);
  for (int i = 0; i < kLanes / 2; ++i) all |= words[i];
  return all != 0;
}

// A NaN in `x` comes out, as clamp and relu of PyTorch have it. x86 has just that in one
// instruction, which compilers do not find; the one of Arm takes another zero of two.
PENLIGHT_INLINE Floats at_least(Floats x, Floats low) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_max_ps(0xFFFF, (__m512)low, (__m512)x);
#elif defined(__AVX__)
  return (Floats)_mm256_max_ps((__m256)low, (__m256)x);
#elif defined(__SSE__)
  return (Floats)_mm_max_ps((__m128)low, (__m128)x);
#else
  return low > x ? low : x;
#endif
}
PENLIGHT_INLINE Floats at_most(Floats x, Floats high) {
#if defined(__AVX512F__)
  return (Floats)_mm512_maskz_min_ps(0xFFFF, (__m512)high, (__m512)x);
#elif defined(__AVX__)
  return (Floats)_mm256_min_ps((__m256)high, (__m256)x);
#elif defined(__SSE__)
  return (Floats)_mm_min_ps((__m128)high, (__m128)x);
#else
  return high < x ? high : x;
#endif
}

// Lane i is lane Order::of(i) of `a`, or of `b` from kLanes on.
template <class Order, class Vector>
PENLIGHT_INLINE Vector shuffle(Vector a, Vector b) {
  using O = Order;
  if constexpr (kLanes == 16) {
    return PENLIGHT_SHUFFLE(a, b, O::of(0), O::of(1), O::of(2), O::of(3), O::of(4), O::of(5), O::of(6),
                            O::of(7), O::of(8), O::of(9), O::of(10), O::of(11), O::of(12), O::of(13),
                            O::of(14), O::of(15));
  } else if constexpr (kLanes == 8) {
    return PENLIGHT_SHUFFLE(a, b, O::of(0), O::of(1), O::of(2), O::of(3), O::of(4), O::of(5), O::of(6),
                            O::of(7));
  } else {
    return PENLIGHT_SHUFFLE(a, b, O::of(0), O::of(1), O::of(2), O::of(3));
  }
}

// Index<0>(), Index<1>(), ... unrolled: arrays indexed by these stay in registers.
template <int value>
struct Index {
  constexpr operator int() const { return value; }
};
// Four at a time: compilers copy what is inlined once for each call that it is inside of.
template <int last, int first = 0, class Body>
PENLIGHT_INLINE void repeat(Body&& body) {
  if constexpr (first < last) body(Index<first>());
  if constexpr (first + 1 < last) body(Index<first + 1>());
  if constexpr (first + 2 < last) body(Index<first + 2>());
  if constexpr (first + 3 < last) body(Index<first + 3>());
  if constexpr (first + 4 < last) repeat<last, first + 4>(body);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
