// Sums, means, Euclidean norms and extremes of what lies one after the other, or a fixed distance apart, and
// the choice between them and variances.h.
#include "dots.h"
#include "functions.h"
#include "variances.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

PENLIGHT_INLINE float finished(const Reduce& p, double total) {
  if (p.reduction == Reduction::Mean) total /= static_cast<double>(p.count);
  return static_cast<float>(p.reduction == Reduction::Norm ? __builtin_sqrt(total) : total);
}

template <class Term>
void rows(const Reduce& p, ptrdiff_t first, ptrdiff_t last, Term&& term) {
  for (ptrdiff_t o = first; o < last; ++o) {
    const float* x = p.input + o * p.count;
    const double total = sum_of(x, p.count, term);
    p.output[o] = finished(p, total - total == 0.0 ? total : sum_in_double(x, p.count, 1, term));
  }
}

// The totals of a vector, as they are wanted.
PENLIGHT_INLINE Floats finished(const Reduce& p, Floats totals) {
  if (p.reduction == Reduction::Mean) return totals * splat(1.0f / static_cast<float>(p.count));
  return p.reduction == Reduction::Norm ? sqrt_of(totals) : totals;
}

// A vector of rows at a time, where adding up the lanes of each would take longer than the rest. Those
// past the last are as the last, so that each row is summed alike wherever the work is split.
template <class Term>
void short_rows(const Reduce& p, Term&& term) {
  for (ptrdiff_t o = p.first; o < p.last; o += kLanes) {
    const ptrdiff_t left = p.last - o;
    const float* x[kLanes];
    Floats sums[kLanes];
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
      x[i] = p.input + (o + min_of(i, left - 1)) * p.count;
      sums[i] = Floats{};
    });
    for (ptrdiff_t c = 0; c < p.count; c += kLanes) {
      repeat<kLanes>(
          [&](auto i) __attribute__((always_inline)) { sums[i] += term(load_part(x[i] + c, p.count - c)); });
    }
    const Floats totals = sums_of(sums);
    store_part(p.output + o, finished(p, totals), left);
    if (sum_lanes(totals - totals) == 0.0f) continue;
    for (ptrdiff_t i = 0; i < min_of(left, kLanes); ++i) {
      if (totals[i] - totals[i] != 0.0f) rows(p, o + i, o + i + 1, term);
    }
  }
}

// Some vectors of columns, `left` of which are there.
template <int vectors, class Term>
PENLIGHT_INLINE void columns(const Reduce& p, const float* x, float* out, ptrdiff_t left, Term&& term) {
  Floats totals[vectors] = {};
  for (ptrdiff_t begin = 0; begin < p.count; begin += kLines) {
    const ptrdiff_t end = min_of(begin + kLines, p.count);
    Floats sums[vectors] = {};
    for (ptrdiff_t i = begin; i < end; ++i) {
      repeat<vectors>([&](auto v) __attribute__((always_inline)) {
        sums[v] += term(load_part(x + i * p.inner + v * kLanes, left - v * kLanes));
      });
    }
    repeat<vectors>([&](auto v) __attribute__((always_inline)) { totals[v] += sums[v]; });
  }
  Floats wild{};
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    wild += totals[v] - totals[v];
    store_part(out + v * kLanes, finished(p, totals[v]), left - v * kLanes);
  });
  if (sum_lanes(wild) == 0.0f) return;
  for (ptrdiff_t c = 0; c < min_of(left, vectors * kLanes); ++c) {
    out[c] = finished(p, sum_in_double(x + c, p.count, p.inner, term));
  }
}

// Lanes `width` apart, added up.
template <int width, int lanes = kLanes>
PENLIGHT_INLINE Floats folded(Floats value) {
  if constexpr (lanes > width) return folded<width, lanes / 2>(value + swap_lanes<lanes / 2>(value));
  return value;
}

// As many columns as `width`, of which several lines are one vector.
template <int width, class Term>
void narrow_columns(const Reduce& p, Term&& term) {
  const ptrdiff_t count = p.count * width;
  for (ptrdiff_t o = p.first; o < p.last; ++o) {
    const float* x = p.input + o * count;
    Floats totals{};
    for (ptrdiff_t begin = 0; begin < count; begin += kLines * kLanes) {
      const ptrdiff_t end = min_of(begin + kLines * kLanes, count);
      Floats sums[2] = {};
      for (ptrdiff_t i = begin; i < end; i += 2 * kLanes) {
        repeat<2>([&](auto v) __attribute__((always_inline)) {
          const ptrdiff_t left = end - i - v * kLanes;
          sums[v] += term(load_part(x + i + v * kLanes, max_of(left, 0)));
        });
      }
      totals += sums[0] + sums[1];
    }
    totals = folded<width>(totals);
    const Floats result = finished(p, totals);
    float* out = p.output + o * width;
    for (ptrdiff_t c = 0; c < width; ++c) {
      const bool wild = totals[c] - totals[c] != 0.0f;
      out[c] = wild ? finished(p, sum_in_double(x + c, p.count, width, term)) : result[c];
    }
  }
}

template <class Term>
void reduce_by(const Reduce& p, Term&& term) {
  if (p.inner == 1) return p.count <= kLines ? short_rows(p, term) : rows(p, p.first, p.last, term);
  if (p.inner == 2) return narrow_columns<2>(p, term);  // as pairs of complex numbers are
  each_columns(p, [&](auto count, const float* x, float* out, ptrdiff_t left) __attribute__((always_inline)) {
    constexpr int vectors = decltype(count)();
    columns<vectors>(p, x, out, left, term);
  });
}

// What is no NaN, of lanes or of one number in double.
struct Present {
  __attribute__((always_inline)) Floats operator()(Floats x) const { return select(x == x, x, Floats{}); }
  __attribute__((always_inline)) double operator()(double x) const { return x == x ? x : 0.0; }
};

template <int width = kLanes / 2>
PENLIGHT_INLINE float product_of_lanes(Floats value) {
  value *= swap_lanes<width>(value);
  if constexpr (width == 1) {
    return value[0];
  } else {
    return product_of_lanes<width / 2>(value);
  }
}

// NaN wins, and stays.
template <bool greatest, class T>
PENLIGHT_INLINE auto beats(T x, T best) {
  return (greatest ? x > best : x < best) | (x != x);
}

template <bool greatest>
PENLIGHT_INLINE Floats better(Floats value, Floats best) {
  return select(beats<greatest>(value, best), value, best);
}

template <bool greatest, int width = kLanes / 2>
PENLIGHT_INLINE float best_lane(Floats found) {
  const Floats best = better<greatest>(swap_lanes<width>(found), found);
  if constexpr (width == 1) {
    return best[0];
  } else {
    return best_lane<greatest, width / 2>(best);
  }
}

// The last vector of a row is read from where the row has as many elements left: some of them twice.
template <bool greatest>
float extreme_of(const float* x, ptrdiff_t count) {
  if (count < kLanes) {
    float best = x[0];
    for (ptrdiff_t i = 1; i < count; ++i) best = beats<greatest>(x[i], best) ? x[i] : best;
    return best;
  }
  Floats found = load(x + count - kLanes);
  ptrdiff_t i = 0;
  if (count >= kVectors * kLanes) {
    Floats several[kVectors];
    repeat<kVectors>([&](auto v) __attribute__((always_inline)) { several[v] = load(x + v * kLanes); });
    for (i = kVectors * kLanes; i + kVectors * kLanes <= count; i += kVectors * kLanes) {
      repeat<kVectors>([&](auto v) __attribute__((always_inline)) {
        several[v] = better<greatest>(load(x + i + v * kLanes), several[v]);
      });
    }
    for (const Floats& one : several) found = better<greatest>(one, found);
  }
  for (; i + kLanes < count; i += kLanes) found = better<greatest>(load(x + i), found);
  return best_lane<greatest>(found);
}

template <bool greatest>
void extremes(const Reduce& p) {
  if (p.inner == 1) {
    for (ptrdiff_t o = p.first; o < p.last; ++o) {
      p.output[o] = extreme_of<greatest>(p.input + o * p.count, p.count);
    }
    return;
  }
  each_columns(p, [&](auto count, const float* x, float* out, ptrdiff_t left) __attribute__((always_inline)) {
    constexpr int vectors = decltype(count)();
    Floats best[vectors];
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      best[v] = load_part(x + v * kLanes, left - v * kLanes);
    });
    for (ptrdiff_t i = 1; i < p.count; ++i) {
      repeat<vectors>([&](auto v) __attribute__((always_inline)) {
        const Floats value = load_part(x + i * p.inner + v * kLanes, left - v * kLanes);
        best[v] = better<greatest>(value, best[v]);
      });
    }
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      store_part(out + v * kLanes, best[v], left - v * kLanes);
    });
  });
}

// Factors are taken in turns, as many as kVectors vectors hold.
float product_of(const float* x, ptrdiff_t count) {
  float rest = 1.0f;
  if (count < kLanes) {
    for (ptrdiff_t i = 0; i < count; ++i) rest *= x[i];
    return rest;
  }
  Floats products[kVectors];
  repeat<kVectors>([&](auto v) __attribute__((always_inline)) { products[v] = splat(1.0f); });
  ptrdiff_t i = 0;
  for (; i + kVectors * kLanes <= count; i += kVectors * kLanes) {
    repeat<kVectors>([&](auto v) __attribute__((always_inline)) { products[v] *= load(x + i + v * kLanes); });
  }
  for (; i + kLanes <= count; i += kLanes) products[0] *= load(x + i);
  for (; i < count; ++i) rest *= x[i];
  return product_of_lanes((products[0] * products[1]) * (products[2] * products[3])) * rest;
}

void products(const Reduce& p) {
  if (p.inner == 1) {
    for (ptrdiff_t o = p.first; o < p.last; ++o) p.output[o] = product_of(p.input + o * p.count, p.count);
    return;
  }
  each_columns(p, [&](auto count, const float* x, float* out, ptrdiff_t left) __attribute__((always_inline)) {
    constexpr int vectors = decltype(count)();
    Floats product[vectors];
    repeat<vectors>([&](auto v) __attribute__((always_inline)) { product[v] = splat(1.0f); });
    for (ptrdiff_t i = 0; i < p.count; ++i) {
      repeat<vectors>([&](auto v) __attribute__((always_inline)) {
        product[v] *= load_part(x + i * p.inner + v * kLanes, left - v * kLanes);
      });
    }
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      store_part(out + v * kLanes, product[v], left - v * kLanes);
    });
  });
}

}  // namespace

void reduce(const Reduce& p) {
  if (p.reduction == Reduction::Variance || p.reduction == Reduction::Deviation) {
    return p.inner == 1 ? variances_of_rows(p) : variances_of_columns(p);
  }
  if (p.reduction == Reduction::Product) return products(p);
  if (p.reduction == Reduction::Present) return reduce_by(p, Present{});
  if (p.reduction == Reduction::Greatest) return extremes<true>(p);
  if (p.reduction == Reduction::Least) return extremes<false>(p);
  if (p.reduction == Reduction::Norm) {
    reduce_by(p, [](auto x) __attribute__((always_inline)) { return x * x; });
  } else {
    reduce_by(p, [](auto x) __attribute__((always_inline)) { return x; });
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
