// Integers of every width and truth values, a vector at a time.
#include "numbers.h"

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kBytes = kLanes * 4;

template <class T>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};
template <class T>
using Vector = typename VectorOf<T>::Type;
template <class T>
constexpr ptrdiff_t kCount = kBytes / static_cast<ptrdiff_t>(sizeof(T));

#if !defined(__AVX__)
// A byte for each lane of so many. (GCC makes no vector whose size depends on a parameter.)
template <size_t size>
struct BytesFor;
template <>
struct BytesFor<2> {
  typedef uint8_t Type __attribute__((vector_size(kBytes / 2)));
};
template <>
struct BytesFor<4> {
  typedef uint8_t Type __attribute__((vector_size(kBytes / 4)));
};
template <>
struct BytesFor<8> {
  typedef uint8_t Type __attribute__((vector_size(kBytes / 8)));
};
#endif

template <class V>
PENLIGHT_INLINE V load_vector(const void* from) {
  V value;
  memcpy(&value, from, sizeof value);
  return value;
}

// --- truth values, a byte to a lane of any width --------------------------------------------------

// 1 for each lane whose bits are set, else 0.
template <class T, class Mask>
PENLIGHT_INLINE void store_truths(uint8_t* to, Mask mask) {
  if constexpr (sizeof(T) == 1) {
    const Vector<uint8_t> ones = (Vector<uint8_t>)mask & (Vector<uint8_t>{} + uint8_t{1});
    memcpy(to, &ones, sizeof ones);
  } else {
#if defined(__AVX512F__)
    if constexpr (sizeof(T) == 2) {
      const __m256i ones = _mm256_maskz_set1_epi8(_mm512_movepi16_mask((__m512i)mask), 1);
      memcpy(to, &ones, 32);
    } else if constexpr (sizeof(T) == 4) {
      const __m128i ones = _mm_maskz_set1_epi8(_mm512_movepi32_mask((__m512i)mask), 1);
      memcpy(to, &ones, 16);
    } else {
      const __m128i ones = _mm_maskz_set1_epi8(_mm512_movepi64_mask((__m512i)mask), 1);
      memcpy(to, &ones, 8);
    }
#elif defined(__AVX2__)
    __m128i low = _mm256_castsi256_si128((__m256i)mask), high = _mm256_extracti128_si256((__m256i)mask, 1);
    if constexpr (sizeof(T) == 8) {
      low = _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), 0x88));
      high = low;
    }
    if constexpr (sizeof(T) >= 4) low = high = _mm_packs_epi32(low, high);
    const __m128i ones = _mm_and_si128(_mm_packs_epi16(low, high), _mm_set1_epi8(1));
    memcpy(to, &ones, kCount<T>);
#else
    using Bytes = typename BytesFor<sizeof(T)>::Type;
    const Bytes ones = __builtin_convertvector(mask, Bytes) & (Bytes{} + uint8_t{1});
    memcpy(to, &ones, sizeof ones);
#endif
  }
}

// --- steps -----------------------------------------------------------------------------------------

// Where a run stands. Elements after the last whole vector go through memory of one, for which the loop is
// entered again: few as they are, code of their own would be most of this file.
struct Walk {
  const char* at[2];
  ptrdiff_t steps[2];  // bytes
  char* to;
  ptrdiff_t vectors;

  const NumberStep* step;
  ptrdiff_t item, result;  // bytes of an element
  bool is_last;
  alignas(64) char last[3][kBytes];
};

__attribute__((noinline)) void begin(Walk& walk, const NumberStep& p, ptrdiff_t item, ptrdiff_t result) {
  walk.step = &p;
  walk.item = item;
  walk.result = result;
  walk.vectors = p.count / (kBytes / item);
  walk.to = static_cast<char*>(p.to);
  walk.is_last = false;
  for (int k = 0; k < 2; ++k) {
    walk.at[k] = static_cast<const char*>(p.from[k]);
    walk.steps[k] = p.is_number[k] ? 0 : kBytes;
  }
}

// False when all is done.
__attribute__((noinline)) bool goes_on(Walk& walk) {
  const ptrdiff_t left = walk.step->count % (kBytes / walk.item), whole = walk.step->count - left;
  if (left == 0) return false;
  if (walk.is_last) {
    memcpy(static_cast<char*>(walk.step->to) + whole * walk.result, walk.last[2],
           static_cast<size_t>(left * walk.result));
    return false;
  }
  for (int k = 0; k < 2; ++k) {
    walk.at[k] = static_cast<const char*>(walk.step->from[k]);
    if (walk.step->is_number[k]) continue;
    memset(walk.last[k], 0, kBytes);
    memcpy(walk.last[k], walk.at[k] + whole * walk.item, static_cast<size_t>(left * walk.item));
    walk.at[k] = walk.last[k];
  }
  walk.to = walk.last[2];
  walk.vectors = 1;
  return walk.is_last = true;
}

// apply(a, b, to) for each vector of elements of T; the result has elements of `result` bytes.
template <class T, ptrdiff_t result, class Apply>
PENLIGHT_INLINE void over(const NumberStep& p, Apply&& apply) {
  Walk walk;
  begin(walk, p, sizeof(T), result);
  do {
    const char *a = walk.at[0], *b = walk.at[1];
    char* to = walk.to;
    for (ptrdiff_t left = walk.vectors; left > 0; --left, to += result * kCount<T>) {
      apply(load_vector<Vector<T>>(a), load_vector<Vector<T>>(b), to);
      a += walk.steps[0];
      b += walk.steps[1];
    }
  } while (goes_on(walk));
}

template <class T, class F>
PENLIGHT_INLINE void two(const NumberStep& p, F&& f) {
  over<T, sizeof(T)>(p, [&](Vector<T> a, Vector<T> b, char* to) __attribute__((always_inline)) {
    const Vector<T> value = (Vector<T>)f(a, b);
    memcpy(to, &value, sizeof value);
  });
}

template <class T, class F>
PENLIGHT_INLINE void predicate(const NumberStep& p, F&& f) {
  over<T, 1>(p, [&](Vector<T> a, Vector<T> b, char* to) __attribute__((always_inline)) {
    store_truths<T>(reinterpret_cast<uint8_t*>(to), f(a, b));
  });
}

// Bits know no type.
template <class F>
PENLIGHT_INLINE void bits(const NumberStep& p, ptrdiff_t size, F&& f) {
  NumberStep bytes = p;
  bytes.count *= size;
  two<uint8_t>(bytes, f);
}

#define PENLIGHT_NUMBERS(...) [](auto a, auto b) __attribute__((always_inline)) { return __VA_ARGS__; }

// What is the same for numbers with a sign and without.
template <class T>
void run_unsigned(const NumberStep& p) {
  switch (p.op) {
    case NumberOp::Add:
      return two<T>(p, PENLIGHT_NUMBERS(a + b));
    case NumberOp::Sub:
      return two<T>(p, PENLIGHT_NUMBERS(a - b));
    case NumberOp::Mul:
      return two<T>(p, PENLIGHT_NUMBERS(a * b));
    case NumberOp::And:
      return bits(p, sizeof(T), PENLIGHT_NUMBERS(a & b));
    case NumberOp::Or:
      return bits(p, sizeof(T), PENLIGHT_NUMBERS(a | b));
    case NumberOp::Xor:
      return bits(p, sizeof(T), PENLIGHT_NUMBERS(a ^ b));
    case NumberOp::Equal:
      return predicate<T>(p, PENLIGHT_NUMBERS(a == b));
    case NumberOp::NotEqual:
      return predicate<T>(p, PENLIGHT_NUMBERS(a != b));
    case NumberOp::ShiftLeft:
      if constexpr (sizeof(T) >= 4) {
        constexpr T kBits = sizeof(T) * 8;
        // Compilers may make of a shift by too much what they like.
        two<T>(p, PENLIGHT_NUMBERS(b < kBits ? a << (b & (kBits - 1)) : a - a));
      }
      return;
    default:
      return;
  }
}

template <class T>
void run_ordered(const NumberStep& p) {
  switch (p.op) {
    case NumberOp::Minimum:
      return two<T>(p, PENLIGHT_NUMBERS(a < b ? a : b));
    case NumberOp::Maximum:
      return two<T>(p, PENLIGHT_NUMBERS(a > b ? a : b));
    case NumberOp::Less:
      return predicate<T>(p, PENLIGHT_NUMBERS(a < b));
    case NumberOp::LessEqual:
      return predicate<T>(p, PENLIGHT_NUMBERS(a <= b));
    default:
      return;
  }
}

template <class T, class U>
void shift_right(const NumberStep& p) {
  constexpr T kMost = sizeof(T) * 8 - 1;
  two<T>(p, [](Vector<T> a, Vector<T> b) __attribute__((always_inline)) {
    return a >> ((Vector<U>)b > static_cast<U>(kMost) ? Vector<T>{} + kMost : b);
  });
}

// All that is asked of floats.
template <class T>
void is_not_zero(const NumberStep& p) {
  predicate<T>(p, [](Vector<T> a, Vector<T> b) __attribute__((always_inline)) { return a != b; });
}

#undef PENLIGHT_NUMBERS

bool is_ordered(NumberOp op) {
  return op == NumberOp::Minimum || op == NumberOp::Maximum || op == NumberOp::Less ||
         op == NumberOp::LessEqual;
}

// --- conversions -----------------------------------------------------------------------------------

template <class From, class To>
void convert(const NumberConversion& p) {
  const From* __restrict from = static_cast<const From*>(p.input);
  To* __restrict to = static_cast<To*>(p.output);
  for (ptrdiff_t i = 0; i < p.count; ++i) to[i] = static_cast<To>(from[i]);
}

// What GCC 12 makes of these two loops is slower than one element at a time.
#if defined(__AVX2__)
PENLIGHT_INLINE void store_low_bytes(uint8_t* to, Ints from) {
#if defined(__AVX512F__)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(0xffff, (__m512i)from));
#else
  const __m256i bytes = (__m256i)(from & splat_int(255));
  const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(to), _mm_packus_epi16(words, words));
#endif
}

PENLIGHT_INLINE void store_wide(int64_t* to, const int32_t* from) {
#if defined(__AVX512F__)
  __m256i some;
  memcpy(&some, from, sizeof some);
  _mm512_storeu_si512(to, _mm512_maskz_cvtepi32_epi64(0xff, some));
#else
  __m128i some;
  memcpy(&some, from, sizeof some);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_cvtepi32_epi64(some));
#endif
}
#endif

void low_bytes(const NumberConversion& p) {
  const int32_t* from = static_cast<const int32_t*>(p.input);
  uint8_t* to = static_cast<uint8_t*>(p.output);
  ptrdiff_t i = 0;
#if defined(__AVX2__)
  for (; i + kLanes <= p.count; i += kLanes) store_low_bytes(to + i, load_ints(from + i));
#endif
  for (; i < p.count; ++i) to[i] = static_cast<uint8_t>(from[i]);
}

void widened(const NumberConversion& p) {
  const int32_t* from = static_cast<const int32_t*>(p.input);
  int64_t* to = static_cast<int64_t*>(p.output);
  ptrdiff_t i = 0;
#if defined(__AVX2__)
  for (; i + kLanes / 2 <= p.count; i += kLanes / 2) store_wide(to + i, from + i);
#endif
  for (; i < p.count; ++i) to[i] = from[i];
}

constexpr double k31 = 2147483648.0, k63 = 9223372036854775808.0;

// What is not between the limits is the lowest.
template <class From, class To>
void truncate(const NumberConversion& p, From above, From below) {
  const From* __restrict from = static_cast<const From*>(p.input);
  To* __restrict to = static_cast<To*>(p.output);
  const From lowest = -below;
  for (ptrdiff_t i = 0; i < p.count; ++i) {
    const From x = from[i];
    to[i] = static_cast<To>(static_cast<int>(x > above) & static_cast<int>(x < below) ? x : lowest);
  }
}

// The instruction takes what is out of range, and NaN, for the lowest. Compilers convert one at a time.
void truncate_to_longs(const NumberConversion& p) {
#if defined(__AVX512DQ__)
  constexpr ptrdiff_t kTogether = 8;
  const float* from = static_cast<const float*>(p.input);
  int64_t* to = static_cast<int64_t*>(p.output);
  for (ptrdiff_t i = 0; i < p.count; i += kTogether) {
    const ptrdiff_t left = p.count - i;
    const __mmask8 some = static_cast<__mmask8>(left < kTogether ? (1 << left) - 1 : 0xff);
    const __m256 x = _mm256_maskz_loadu_ps(some, from + i);
    _mm512_mask_storeu_epi64(to + i, some, _mm512_maskz_cvttps_epi64(some, x));
  }
#else
  truncate<float, int64_t>(p, static_cast<float>(-k63), static_cast<float>(k63));
#endif
}

constexpr int pair(NumberType from, NumberType to) {
  return static_cast<int>(from) * 8 + static_cast<int>(to);
}

// --- rows ------------------------------------------------------------------------------------------

template <class T, class F>
PENLIGHT_INLINE T fold_row(const T* x, ptrdiff_t length, T start, F&& f) {
  constexpr ptrdiff_t lanes = kCount<T>, kAtOnce = 4;
  const Vector<T> none = Vector<T>{} + start;
  Vector<T> parts[kAtOnce] = {none, none, none, none};
  for (; length >= kAtOnce * lanes; length -= kAtOnce * lanes, x += kAtOnce * lanes) {
    repeat<kAtOnce>([&](auto k) __attribute__((always_inline)) {
      parts[k] = f(parts[k], load_vector<Vector<T>>(x + k * lanes));
    });
  }
  for (; length >= lanes; length -= lanes, x += lanes) parts[0] = f(parts[0], load_vector<Vector<T>>(x));
  alignas(64) T values[lanes];
  if (length > 0) {
    memcpy(values, &none, sizeof none);
    memcpy(values, x, static_cast<size_t>(length) * sizeof(T));
    parts[1] = f(parts[1], load_vector<Vector<T>>(values));
  }
  const Vector<T> all = f(f(parts[0], parts[1]), f(parts[2], parts[3]));
  // Halves of halves, as far as 16 bytes.
  typedef T Few __attribute__((vector_size(16)));
  constexpr ptrdiff_t few = 16 / static_cast<ptrdiff_t>(sizeof(T));
  memcpy(values, &all, sizeof all);
  for (ptrdiff_t left = lanes / 2; left >= few; left /= 2) {
    for (ptrdiff_t i = 0; i < left; i += few) {
      const Few some = f(load_vector<Few>(values + i), load_vector<Few>(values + left + i));
      memcpy(values + i, &some, sizeof some);
    }
  }
  T total = values[0];
  for (ptrdiff_t i = 1; i < few; ++i) total = f(total, values[i]);
  return total;
}

template <class T, class Out, class F>
void fold_rows(const NumberRows& p, T start, F&& f) {
  const T* x = static_cast<const T*>(p.input);
  for (ptrdiff_t row = 0; row < p.rows; ++row, x += p.length) {
    const T total = fold_row(x, p.length, start, f);
    static_cast<Out*>(p.output)[row] = static_cast<Out>(total);
  }
}

template <class T>
void extremes(const NumberRows& p) {
  constexpr bool is_signed = static_cast<T>(-1) < T(0);
  constexpr uint64_t bits = sizeof(T) * 8;
  constexpr T most = static_cast<T>(~uint64_t{0} >> (64 - bits + (is_signed ? 1 : 0)));
  constexpr T least = static_cast<T>(is_signed ? -most - 1 : 0);
  if (p.fold == NumberFold::Least) {
    fold_rows<T, T>(p, most, [](auto a, auto b) __attribute__((always_inline)) { return a < b ? a : b; });
  } else {
    fold_rows<T, T>(p, least, [](auto a, auto b) __attribute__((always_inline)) { return a > b ? a : b; });
  }
}

}  // namespace

void numbers(const NumberStep& p) {
  const bool ordered = is_ordered(p.op);
  switch (p.type) {
    case NumberType::UInt8:
      return (ordered ? run_ordered<uint8_t> : run_unsigned<uint8_t>)(p);
    case NumberType::Int8:
      return (ordered ? run_ordered<int8_t> : run_unsigned<uint8_t>)(p);
    case NumberType::Int16:
      return (ordered ? run_ordered<int16_t> : run_unsigned<uint16_t>)(p);
    case NumberType::Int32:
      if (p.op == NumberOp::ShiftRight) return shift_right<int32_t, uint32_t>(p);
      return (ordered ? run_ordered<int32_t> : run_unsigned<uint32_t>)(p);
    case NumberType::Int64:
      if (p.op == NumberOp::ShiftRight) return shift_right<int64_t, uint64_t>(p);
      return (ordered ? run_ordered<int64_t> : run_unsigned<uint64_t>)(p);
    case NumberType::Float32:
      return is_not_zero<float>(p);
    case NumberType::Float64:
      return is_not_zero<double>(p);
  }
}

void convert_numbers(const NumberConversion& p) {
  using T = NumberType;
  switch (pair(p.from, p.to)) {
    case pair(T::UInt8, T::Int32):
      return convert<uint8_t, int32_t>(p);
    case pair(T::Int8, T::Int32):
      return convert<int8_t, int32_t>(p);
    case pair(T::Int16, T::Int32):
      return convert<int16_t, int32_t>(p);
    case pair(T::UInt8, T::Int64):
      return convert<uint8_t, int64_t>(p);
    case pair(T::Int8, T::Int64):
      return convert<int8_t, int64_t>(p);
    case pair(T::Int16, T::Int64):
      return convert<int16_t, int64_t>(p);
    case pair(T::UInt8, T::Float32):
      return convert<uint8_t, float>(p);
    case pair(T::Int8, T::Float32):
      return convert<int8_t, float>(p);
    case pair(T::Int16, T::Float32):
      return convert<int16_t, float>(p);
    case pair(T::Int32, T::UInt8):
    case pair(T::Int32, T::Int8):
      return low_bytes(p);
    case pair(T::Int32, T::Int16):
      return convert<uint32_t, uint16_t>(p);
    case pair(T::Int32, T::Int64):
      return widened(p);
    case pair(T::Int64, T::Int32):
      return convert<uint64_t, uint32_t>(p);
    case pair(T::Int32, T::Float32):
      return convert<int32_t, float>(p);
    case pair(T::Int64, T::Float32):
      return convert<int64_t, float>(p);
    case pair(T::Int32, T::Float64):
      return convert<int32_t, double>(p);
    case pair(T::Int64, T::Float64):
      return convert<int64_t, double>(p);
    case pair(T::Float32, T::Float64):
      return convert<float, double>(p);
    case pair(T::Float64, T::Float32):
      return convert<double, float>(p);
    // The float below the lowest: that one is in range, and becomes what those out of range do.
    case pair(T::Float32, T::Int32):
      return truncate<float, int32_t>(p, static_cast<float>(-k31), static_cast<float>(k31));
    case pair(T::Float64, T::Int32):
      return truncate<double, int32_t>(p, -k31 - 1, k31);
    case pair(T::Float32, T::Int64):
      return truncate_to_longs(p);
    case pair(T::Float64, T::Int64):
      return truncate<double, int64_t>(p, -k63, k63);
    default:
      return;
  }
}

void fold_number_rows(const NumberRows& p) {
  if (p.fold == NumberFold::Sum) {
    const auto plus = [](auto a, auto b) __attribute__((always_inline)) { return a + b; };
    if (p.type == NumberType::Int32) return fold_rows<int32_t, int64_t>(p, 0, plus);
    return fold_rows<uint64_t, uint64_t>(p, 0, plus);
  }
  switch (p.type) {
    case NumberType::UInt8:
      return extremes<uint8_t>(p);
    case NumberType::Int8:
      return extremes<int8_t>(p);
    case NumberType::Int16:
      return extremes<int16_t>(p);
    case NumberType::Int32:
      return extremes<int32_t>(p);
    default:
      return extremes<int64_t>(p);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
