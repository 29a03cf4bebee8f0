// What is done to each row of a matrix: normalisation, softmax.
#include "functions.h"
#include "routines.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

void finish_row(const NormRows& p, const float* x, float* out, float mean, float rstd) {
  const Floats means = splat(mean), factors = splat(rstd);
  for (ptrdiff_t i = 0; i < p.count; i += kLanes) {
    const ptrdiff_t left = p.count - i;
    Floats value = (load_part(x + i, left) - means) * factors;
    if (p.weight) value *= load_part(p.weight + i, left);
    if (p.bias) value += load_part(p.bias + i, left);
    store_part(out + i, value, left);
  }
}

}  // namespace

void norm_rows(const NormRows& p) {
  // Several rows at once: the steps of one wait for each other, those of several do not.
  constexpr ptrdiff_t kTogether = 4;
  const double share = 1.0 / static_cast<double>(p.count);
  for (ptrdiff_t first = p.first_row; first < p.last_row; first += kTogether) {
    const ptrdiff_t rows = min_of(kTogether, p.last_row - first);
    const float* x = p.input + first * p.count;
    float means[kTogether] = {}, rstds[kTogether];
    double variances[kTogether];
    for (ptrdiff_t j = 0; p.centered && j < rows; ++j) {
      const auto same = [](Floats v) __attribute__((always_inline)) { return v; };
      double exact = sum_of(x + j * p.count, p.count, same) * share;
      if (exact - exact != 0.0) exact = mean_in_double(x + j * p.count, p.count);
      means[j] = static_cast<float>(exact);
    }
    for (ptrdiff_t j = 0; j < rows; ++j) {
      const Floats mean = splat(means[j]);
      const auto square = [&](Floats v) __attribute__((always_inline)) { return (v - mean) * (v - mean); };
      variances[j] = sum_of(x + j * p.count, p.count, square) * share;
    }
    for (ptrdiff_t j = 0; j < rows; ++j) {
      rstds[j] = static_cast<float>(1.0 / __builtin_sqrt(variances[j] + p.eps));
    }
    for (ptrdiff_t j = 0; j < rows; ++j) {
      finish_row(p, x + j * p.count, p.output + (first + j) * p.count, means[j], rstds[j]);
      if (p.means) p.means[first + j] = means[j];
      if (p.rstds) p.rstds[first + j] = rstds[j];
    }
  }
}

namespace {

// Lane i: lane i ^ step of `x`.
template <int step>
PENLIGHT_INLINE Floats crossed(Floats x) {
#if defined(__AVX512F__)
  if constexpr (step == 1) {
    return PENLIGHT_SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  } else if constexpr (step == 2) {
    return PENLIGHT_SHUFFLE(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
  } else if constexpr (step == 4) {
    return PENLIGHT_SHUFFLE(x, x, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11);
  } else {
    return PENLIGHT_SHUFFLE(x, x, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7);
  }
#elif defined(__AVX__)
  if constexpr (step == 1) {
    return PENLIGHT_SHUFFLE(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
  } else if constexpr (step == 2) {
    return PENLIGHT_SHUFFLE(x, x, 2, 3, 0, 1, 6, 7, 4, 5);
  } else {
    return PENLIGHT_SHUFFLE(x, x, 4, 5, 6, 7, 0, 1, 2, 3);
  }
#else
  if constexpr (step == 1) {
    return PENLIGHT_SHUFFLE(x, x, 1, 0, 3, 2);
  } else {
    return PENLIGHT_SHUFFLE(x, x, 2, 3, 0, 1);
  }
#endif
}

// In each lane what `join` makes of all lanes of its group of `count`, a power of two.
template <int count, class Join>
PENLIGHT_INLINE Floats over_groups(Floats x, Join&& join) {
  if constexpr (count == 1) {
    return x;
  } else {
    const Floats half = over_groups<count / 2>(x, join);
    return join(half, crossed<count / 2>(half));
  }
}

// Rows of `count` elements, several of which a vector holds. A NaN that a maximum loses is in the sum.
template <int count>
void softmax_groups(const SoftmaxRows& p) {
  const auto most = [](Floats a, Floats b) __attribute__((always_inline)) { return at_least(a, b); };
  const auto sum = [](Floats a, Floats b) __attribute__((always_inline)) { return a + b; };
  for (ptrdiff_t i = p.first_row * count; i < p.last_row * count; i += kLanes) {
    const ptrdiff_t left = p.last_row * count - i;
    const Floats x = load_part(p.input + i, left);
    const Floats value = exp_of_score(x - over_groups<count>(x, most));
    store_part(p.output + i, value * (splat(1.0f) / over_groups<count>(value, sum)), left);
  }
}

// Rows that one vector holds.
void softmax_short_rows(const SoftmaxRows& p) {
  if (p.count == 2) return softmax_groups<2>(p);
  if (p.count == 4) return softmax_groups<4>(p);
  if constexpr (kLanes >= 8) {
    if (p.count == 8) return softmax_groups<8>(p);
  }
  if constexpr (kLanes >= 16) {
    if (p.count == 16) return softmax_groups<16>(p);
  }
  float past[kLanes];
  for (ptrdiff_t i = 0; i < kLanes; ++i) past[i] = i < p.count ? 0.0f : -__builtin_inff();
  const Floats padding = load(past);
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const Floats x = load_part(p.input + r * p.count, p.count) + padding;
    const Floats value = exp_of_score(x - splat(max_lanes(x)));
    store_part(p.output + r * p.count, value * splat(1.0f / sum_lanes(value)), p.count);
  }
}

}  // namespace

void softmax_rows(const SoftmaxRows& p) {
  if (p.count <= kLanes && !p.logarithm) return softmax_short_rows(p);
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const float* x = p.input + r * p.count;
    float* out = p.output + r * p.count;
    Floats most = splat(-__builtin_inff());
    ptrdiff_t i = 0;
    for (; i + kLanes <= p.count; i += kLanes) most = at_least(load(x + i), most);
    float largest = max_lanes(most);
    for (; i < p.count; ++i) largest = x[i] > largest ? x[i] : largest;
    const Floats shift = splat(largest);
    if (p.logarithm) {
      const auto term = [&](Floats v) __attribute__((always_inline)) { return exp_of_score(v - shift); };
      const Floats sum = splat(static_cast<float>(__builtin_log(sum_of(x, p.count, term))));
      for (i = 0; i < p.count; i += kLanes) {
        const ptrdiff_t left = p.count - i;
        store_part(out + i, load_part(x + i, left) - shift - sum, left);
      }
      continue;
    }
    for (i = 0; i < p.count; i += kLanes) {
      const ptrdiff_t left = p.count - i;
      store_part(out + i, exp_of_score(load_part(x + i, left) - shift), left);
    }
    const auto same = [](Floats v) __attribute__((always_inline)) { return v; };
    const Floats factor = splat(static_cast<float>(1.0 / sum_of(out, p.count, same)));
    for (i = 0; i < p.count; i += kLanes) {
      const ptrdiff_t left = p.count - i;
      store_part(out + i, load_part(out + i, left) * factor, left);
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
