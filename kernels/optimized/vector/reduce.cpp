// Sums, means and Euclidean norms of what lies one after the other, or a fixed distance apart.
#include "functions.h"
#include "routines.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Lines that are summed in float32; the sums of longer columns' pieces are added to one another.
constexpr ptrdiff_t kLines = 64;

PENLIGHT_INLINE float finished(const Reduce& p, double total) {
  if (p.reduction == Reduction::Mean) total /= static_cast<double>(p.count);
  return static_cast<float>(p.reduction == Reduction::Norm ? __builtin_sqrt(total) : total);
}

template <class Term>
void rows(const Reduce& p, Term&& term) {
  for (ptrdiff_t o = p.first; o < p.last; ++o) {
    const float* x = p.input + o * p.count;
    const double total = sum_of(x, p.count, term);
    p.output[o] = finished(p, total - total == 0.0 ? total : sum_in_double(x, p.count, 1, term));
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
  const float share = 1.0f / static_cast<float>(p.count);
  Floats wild{};
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    Floats value = totals[v];
    wild += value - value;
    if (p.reduction == Reduction::Mean) value *= splat(share);
    if (p.reduction == Reduction::Norm) value = sqrt_of(value);
    store_part(out + v * kLanes, value, left - v * kLanes);
  });
  if (sum_lanes(wild) == 0.0f) return;
  for (ptrdiff_t c = 0; c < min_of(left, vectors * kLanes); ++c) {
    out[c] = finished(p, sum_in_double(x + c, p.count, p.inner, term));
  }
}

template <class Term>
void reduce_by(const Reduce& p, Term&& term) {
  if (p.inner == 1) return rows(p, term);
  constexpr int kVectors = 4;
  for (ptrdiff_t o = p.first; o < p.last; ++o) {
    const float* x = p.input + o * p.count * p.inner;
    float* out = p.output + o * p.inner;
    ptrdiff_t c = p.first_column;
    for (; c + kVectors * kLanes <= p.last_column; c += kVectors * kLanes) {
      columns<kVectors>(p, x + c, out + c, kVectors * kLanes, term);
    }
    for (; c < p.last_column; c += kLanes) columns<1>(p, x + c, out + c, p.last_column - c, term);
  }
}

}  // namespace

void reduce(const Reduce& p) {
  if (p.reduction == Reduction::Norm) {
    reduce_by(p, [](auto x) __attribute__((always_inline)) { return x * x; });
  } else {
    reduce_by(p, [](auto x) __attribute__((always_inline)) { return x; });
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
