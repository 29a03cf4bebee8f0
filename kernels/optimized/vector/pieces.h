// Float32 as the sum of three bfloat16, in the order in which a matrix unit takes them.
//
// A piece has 8 of the 24 digits of a number, the first one rounded to the nearest: what that leaves is the
// next one's, so that the three are the number exactly, unless it is so small that the last would be
// subnormal. The second is at most 2^-9 of it, the third 2^-16: products of these two are at most 2^-25 of
// that of two numbers.
#pragma once

#include "matrix_unit.h"
#include "routines.h"

#if defined(PENLIGHT_HAS_AMX) && defined(__AVX512F__)

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kPieces = 3;
constexpr ptrdiff_t kPiece = kSplitRows * kSplitStep;  // elements of a tile of one piece
constexpr ptrdiff_t kSplit = kPieces * kPiece;         // of all pieces of 16 rows, or of a panel

PENLIGHT_INLINE Ints top_of(Ints x) { return x & splat_int(static_cast<int32_t>(0xffff0000)); }
// Of which the top is the nearest to that of x.
PENLIGHT_INLINE Ints rounded(Ints x) { return x + splat_int(0x8000); }
PENLIGHT_INLINE Ints rest_of(Ints x, Ints top) { return (Ints)((Floats)x - (Floats)top_of(top)); }

// As bits: sizes of numbers have their order, and what is not finite is above all.
PENLIGHT_INLINE Ints size_of(Ints x) { return x & splat_int(0x7fffffff); }
PENLIGHT_INLINE Ints larger_of(Ints a, Ints b) { return a > b ? a : b; }

template <int width = kLanes / 2>
PENLIGHT_INLINE int32_t largest_lane(Ints x) {
  const Ints both = larger_of(x, swap_lanes<width>(x));
  if constexpr (width == 1) {
    return both[0];
  } else {
    return largest_lane<width / 2>(both);
  }
}

// May a row, or column, whose largest size this is be multiplied by pieces? Between the bounds what is lost,
// of pieces and of products that are subnormal, has no weight in its sums; and nothing is infinite.
PENLIGHT_INLINE bool is_middling(int32_t most) {
  constexpr float low = 0x1p-40f, high = 0x1p60f;
  float size;
  memcpy(&size, &most, sizeof size);
  return size == 0.0f || (size >= low && size <= high);
}

// Not memset(): compilers make of that an instruction which waits for all before it.
template <int lines>
PENLIGHT_INLINE void clear_sizes(int32_t* to) {
  repeat<lines>([&](auto i) __attribute__((always_inline)) {
    const Ints zero{};
    memcpy(to + i * kLanes, &zero, sizeof zero);
  });
}

// `count` elements of a row, and zeros after them: its line of a tile of each piece.
PENLIGHT_INLINE void split_row(const float* from, ptrdiff_t count, uint16_t* to, int32_t* most) {
  alignas(64) static const uint16_t kTops[kSplitStep] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                         23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                         45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  Ints tops;
  memcpy(&tops, kTops, sizeof tops);
  Ints x = (Ints)load_part(from, count), y = (Ints)load_part(from + kLanes, count - kLanes);
  const Ints sizes = larger_of(load_ints(most), larger_of(size_of(x), size_of(y)));
  memcpy(most, &sizes, sizeof sizes);
  repeat<kPieces>([&](auto piece) __attribute__((always_inline)) {
    const Ints a = piece == 0 ? rounded(x) : x, b = piece == 0 ? rounded(y) : y;
    const __m512i line = _mm512_permutex2var_epi16((__m512i)a, (__m512i)tops, (__m512i)b);
    memcpy(to + piece * kPiece, &line, sizeof line);
    if constexpr (piece + 1 < kPieces) {
      x = rest_of(x, a);
      y = rest_of(y, b);
    }
  });
}

// Two k of a panel, or one and zeros, or neither: a line of a tile of each piece.
PENLIGHT_INLINE void split_weights(const float* from, ptrdiff_t count, uint16_t* to, Ints& most) {
  typedef uint32_t Words __attribute__((vector_size(kLanes * 4)));
  Ints x{}, y{};
  if (count > 0) x = (Ints)load(from);
  if (count > 1) y = (Ints)load(from + kPanel);
  most = larger_of(most, larger_of(size_of(x), size_of(y)));
  repeat<kPieces>([&](auto piece) __attribute__((always_inline)) {
    const Ints a = piece == 0 ? rounded(x) : x, b = piece == 0 ? rounded(y) : y;
    const Ints line = (Ints)((Words)a >> 16) | top_of(b);
    memcpy(to + piece * kPiece, &line, sizeof line);
    if constexpr (piece + 1 < kPieces) {
      x = rest_of(x, a);
      y = rest_of(y, b);
    }
  });
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized

#endif
