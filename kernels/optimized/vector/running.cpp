// Running sums and products along one dimension.
//
// Numbers of floating point are taken in their order, as in ATen: in another one, large ones that cancel each
// other or products beyond the range would be others on their way. Several rows are walked at once, so that
// none waits for the other. Of integers the sums of a row are found a vector at a time: to each of its lanes
// are added the ones before it, and then what came before the vector, for which alone the next one waits.
#include "running.h"

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kWide = kLanes / 2;  // numbers of 64 bits in a vector

template <class V>
struct PlacesOf {
  typedef int64_t Type __attribute__((vector_size(sizeof(V))));
};

// Lanes of `a`, and after them of `b`, both of type V, in the order of the numbers.
#if defined(__clang__)
#define PENLIGHT_SHUFFLE_WIDE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PENLIGHT_SHUFFLE_WIDE(a, b, ...) __builtin_shuffle(a, b, typename PlacesOf<V>::Type{__VA_ARGS__})
#endif

// Every lane `by` further, zeros in the first ones.
template <int by, class V>
PENLIGHT_INLINE V moved(V x) {
  constexpr int w = kWide;
  constexpr auto from = [](int lane) { return lane < by ? lane : w + lane - by; };
  if constexpr (kWide == 8) {
    return PENLIGHT_SHUFFLE_WIDE(V{}, x, from(0), from(1), from(2), from(3), from(4), from(5), from(6),
                                 from(7));
  } else if constexpr (kWide == 4) {
    return PENLIGHT_SHUFFLE_WIDE(V{}, x, from(0), from(1), from(2), from(3));
  } else {
    return PENLIGHT_SHUFFLE_WIDE(V{}, x, from(0), from(1));
  }
}

template <class V>
PENLIGHT_INLINE V last_in_all(V x) {
  constexpr int last = kWide - 1;
  if constexpr (kWide == 8) {
    return PENLIGHT_SHUFFLE_WIDE(x, x, last, last, last, last, last, last, last, last);
  } else if constexpr (kWide == 4) {
    return PENLIGHT_SHUFFLE_WIDE(x, x, last, last, last, last);
  } else {
    return PENLIGHT_SHUFFLE_WIDE(x, x, last, last);
  }
}

template <int by = 1, class V>
PENLIGHT_INLINE V scanned(V x) {
  if constexpr (by < kWide) {
    return scanned<2 * by>(x + moved<by>(x));
  } else {
    return x;
  }
}

struct OfFloats {
  using Element = float;
  using Number = double;
  using Vector = HalfDoubles;
  static constexpr bool kHasVectorSums = false;
  PENLIGHT_INLINE HalfDoubles load_wide(const float* from) {
    HalfFloats x;
    memcpy(&x, from, sizeof x);
    return __builtin_convertvector(x, HalfDoubles);
  }
  PENLIGHT_INLINE void store_wide(float* to, HalfDoubles sums) {
    const HalfFloats x = __builtin_convertvector(sums, HalfFloats);
    memcpy(to, &x, sizeof x);
  }
};

// Without a sign, since what wraps around is defined then.
struct OfIntegers {
  using Element = uint64_t;
  using Number = uint64_t;
  typedef uint64_t Vector __attribute__((vector_size(kWide * 8)));
  static constexpr bool kHasVectorSums = true;
  PENLIGHT_INLINE Vector load_wide(const uint64_t* from) {
    Vector x;
    memcpy(&x, from, sizeof x);
    return x;
  }
  PENLIGHT_INLINE void store_wide(uint64_t* to, Vector sums) { memcpy(to, &sums, sizeof sums); }
};

template <bool products, class X>
PENLIGHT_INLINE X joined(X a, X b) {
  if constexpr (products) return a * b;
  return a + b;
}

void sum_row(const uint64_t* x, ptrdiff_t count, uint64_t* out) {
  OfIntegers::Vector before = {};
  ptrdiff_t i = 0;
  for (; i + kWide <= count; i += kWide) {
    const auto sums = scanned(OfIntegers::load_wide(x + i));
    OfIntegers::store_wide(out + i, before + sums);
    before += last_in_all(sums);
  }
  for (uint64_t total = before[0]; i < count; ++i) out[i] = total += x[i];
}

// Of `rows` rows at once.
template <class Of, bool products, int rows>
void walk_rows(const typename Of::Element* x, ptrdiff_t count, typename Of::Element* out) {
  typename Of::Number total[rows];
  repeat<rows>([&](auto r) __attribute__((always_inline)) { total[r] = products ? 1 : 0; });
  for (ptrdiff_t i = 0; i < count; ++i) {
    repeat<rows>([&](auto r) __attribute__((always_inline)) {
      total[r] = joined<products>(total[r], static_cast<typename Of::Number>(x[r * count + i]));
      out[r * count + i] = static_cast<typename Of::Element>(total[r]);
    });
  }
}

// Of some vectors of columns.
template <class Of, bool products, int vectors>
void walk_columns(const Running& p, const typename Of::Element* x, typename Of::Element* out) {
  typename Of::Vector total[vectors];
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    total[v] = typename Of::Vector{} + static_cast<typename Of::Number>(products ? 1 : 0);
  });
  for (ptrdiff_t i = 0; i < p.count; ++i, x += p.inner, out += p.inner) {
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      total[v] = joined<products>(total[v], Of::load_wide(x + v * kWide));
      Of::store_wide(out + v * kWide, total[v]);
    });
  }
}

// The last columns, fewer than a vector has lanes.
template <class Of, bool products>
void walk_few(const Running& p, const typename Of::Element* x, ptrdiff_t columns, typename Of::Element* out) {
  typename Of::Number total[kWide];
  for (int c = 0; c < kWide; ++c) total[c] = products ? 1 : 0;
  for (ptrdiff_t i = 0; i < p.count; ++i, x += p.inner, out += p.inner) {
    for (ptrdiff_t c = 0; c < columns; ++c) {
      total[c] = joined<products>(total[c], static_cast<typename Of::Number>(x[c]));
      out[c] = static_cast<typename Of::Element>(total[c]);
    }
  }
}

template <class Of, bool products, int rows>
void run_rows(const Running& p, ptrdiff_t first, const typename Of::Element* x, typename Of::Element* out) {
  for (; first + rows <= p.last; first += rows) {
    walk_rows<Of, products, rows>(x + first * p.count, p.count, out + first * p.count);
  }
  if constexpr (rows > 1) run_rows<Of, products, rows / 2>(p, first, x, out);
}

template <class Of, bool products>
void run(const Running& p) {
  using T = typename Of::Element;
  const T* const input = static_cast<const T*>(p.input);
  T* const output = static_cast<T*>(p.output);
  if constexpr (Of::kHasVectorSums && !products) {
    if (p.inner == 1 && p.count >= kWide) {
      for (ptrdiff_t r = p.first; r < p.last; ++r)
        sum_row(input + r * p.count, p.count, output + r * p.count);
      return;
    }
  }
  constexpr int kRows = 8;
  if (p.inner == 1) return run_rows<Of, products, kRows>(p, p.first, input, output);
  constexpr int kVectors = 4;
  const ptrdiff_t blocks = (p.inner + kRunningColumns - 1) / kRunningColumns;
  for (ptrdiff_t part = p.first; part < p.last; ++part) {
    ptrdiff_t c = part % blocks * kRunningColumns;
    const ptrdiff_t last = min_of(c + kRunningColumns, p.inner), at = part / blocks * p.count * p.inner;
    const T* const x = input + at;
    T* const out = output + at;
    for (; c + kVectors * kWide <= last; c += kVectors * kWide) {
      walk_columns<Of, products, kVectors>(p, x + c, out + c);
    }
    for (; c + kWide <= last; c += kWide) walk_columns<Of, products, 1>(p, x + c, out + c);
    if (c < last) walk_few<Of, products>(p, x + c, last - c, out + c);
  }
}

}  // namespace

void running(const Running& p) {
  if (p.integers) return p.products ? run<OfIntegers, true>(p) : run<OfIntegers, false>(p);
  p.products ? run<OfFloats, true>(p) : run<OfFloats, false>(p);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
