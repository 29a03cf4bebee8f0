// Softmax over a dimension: of rows, or, where it is not the last, of many columns at once.
#include "functions.h"
#include "routines.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// In each lane what `join` makes of all lanes of its group of `count`, a power of two.
template <int count, class Join>
PENLIGHT_INLINE Floats over_groups(Floats x, Join&& join) {
  if constexpr (count == 1) {
    return x;
  } else {
    const Floats half = over_groups<count / 2>(x, join);
    return join(half, swap_lanes<count / 2>(half));
  }
}

// Rows of `count` elements, several of which a vector holds. A NaN that a maximum loses is in the sum.
template <int count>
void softmax_groups(const Softmax& p) {
  const auto most = [](Floats a, Floats b) __attribute__((always_inline)) { return at_least(a, b); };
  const auto sum = [](Floats a, Floats b) __attribute__((always_inline)) { return a + b; };
  for (ptrdiff_t i = p.first * count; i < p.last * count; i += kLanes) {
    const ptrdiff_t left = p.last * count - i;
    const Floats x = load_part(p.input + i, left);
    const Floats value = exp_of_score(x - over_groups<count>(x, most));
    store_part(p.output + i, value * (splat(1.0f) / over_groups<count>(value, sum)), left);
  }
}

// Rows that one vector holds.
void softmax_short_rows(const Softmax& p) {
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
  for (ptrdiff_t r = p.first; r < p.last; ++r) {
    const Floats x = load_part(p.input + r * p.count, p.count) + padding;
    const Floats value = exp_of_score(x - splat(max_lanes(x)));
    store_part(p.output + r * p.count, value * splat(1.0f / sum_lanes(value)), p.count);
  }
}

void softmax_rows(const Softmax& p) {
  if (p.count <= kLanes && !p.logarithm) return softmax_short_rows(p);
  for (ptrdiff_t r = p.first; r < p.last; ++r) {
    const float* x = p.input + r * p.count;
    float* out = p.output + r * p.count;
    Floats most = splat(-__builtin_inff());
    ptrdiff_t i = 0;
    for (; i + kLanes <= p.count; i += kLanes) most = at_least(load(x + i), most);
    float largest = max_lanes(most);
    for (; i < p.count; ++i) largest = x[i] > largest ? x[i] : largest;
    const Floats shift = splat(largest);
    const auto weight = [&](auto v) __attribute__((always_inline)) { return exp_of_score(v - shift); };
    if (p.logarithm) {
      const Floats sum = splat(static_cast<float>(__builtin_log(sum_of(x, p.count, weight))));
      for (i = 0; i < p.count; i += kLanes) {
        const ptrdiff_t left = p.count - i;
        store_part(out + i, load_part(x + i, left) - shift - sum, left);
      }
      continue;
    }
    apply_to_run(x, out, p.count, weight);
    const auto same = [](Floats v) __attribute__((always_inline)) { return v; };
    const Floats factor = splat(static_cast<float>(1.0 / sum_of(out, p.count, same)));
    for (i = 0; i < p.count; i += kLanes) {
      const ptrdiff_t left = p.count - i;
      store_part(out + i, load_part(out + i, left) * factor, left);
    }
  }
}

constexpr ptrdiff_t kRows = 64;  // whose exponentials are summed before they are added to the others

// `vectors` vectors of columns, `left` columns of which there are.
template <int vectors>
void softmax_block(const Softmax& p, const float* x, float* out, ptrdiff_t left) {
  const auto each = [&](auto&& body) __attribute__((always_inline)) { repeat<vectors>(body); };
  Floats most[vectors], total[vectors];
  each([&](auto v) __attribute__((always_inline)) {
    most[v] = splat(-__builtin_inff());
    total[v] = splat(0.0f);
  });
  for (ptrdiff_t i = 0; i < p.count; ++i) {
    each([&](auto v) __attribute__((always_inline)) {
      most[v] = at_least(load_part(x + i * p.inner + v * kLanes, left - v * kLanes), most[v]);
    });
  }
  for (ptrdiff_t first = 0; first < p.count; first += kRows) {
    Floats sums[vectors] = {};
    for (ptrdiff_t i = first; i < min_of(first + kRows, p.count); ++i) {
      each([&](auto v) __attribute__((always_inline)) {
        const ptrdiff_t at = i * p.inner + v * kLanes, some = left - v * kLanes;
        const Floats value = exp_of_score(load_part(x + at, some) - most[v]);
        sums[v] += value;
        if (!p.logarithm) store_part(out + at, value, some);
      });
    }
    each([&](auto v) __attribute__((always_inline)) { total[v] += sums[v]; });
  }
  each([&](auto v) __attribute__((always_inline)) {
    total[v] = p.logarithm ? log_of(total[v]) : splat(1.0f) / total[v];
  });
  for (ptrdiff_t i = 0; i < p.count; ++i) {
    each([&](auto v) __attribute__((always_inline)) {
      const ptrdiff_t at = i * p.inner + v * kLanes, some = left - v * kLanes;
      const Floats value =
          p.logarithm ? load_part(x + at, some) - most[v] - total[v] : load_part(out + at, some) * total[v];
      store_part(out + at, value, some);
    });
  }
}

// In each lane of `values` what `join` makes of all lanes of its column, of `columns` that repeat.
template <class Join>
void over_columns(Floats* values, ptrdiff_t vectors, ptrdiff_t columns, Join&& join) {
  float lanes[kLanes * kLanes], joined[kLanes];
  const ptrdiff_t count = vectors * kLanes;
  for (ptrdiff_t v = 0; v < vectors; ++v) store(lanes + v * kLanes, values[v]);
  for (ptrdiff_t c = 0; c < columns; ++c) {
    joined[c] = lanes[c];
    for (ptrdiff_t i = c + columns; i < count; i += columns) joined[c] = join(joined[c], lanes[i]);
    for (ptrdiff_t i = c; i < count; i += columns) lanes[i] = joined[c];
  }
  for (ptrdiff_t v = 0; v < vectors; ++v) values[v] = load(lanes + v * kLanes);
}

// Several rows in a vector, where columns are few: after `vectors` of them lanes are the same columns again.
void softmax_narrow(const Softmax& p, const float* x, float* out) {
  ptrdiff_t vectors = p.inner;
  while (vectors % 2 == 0) vectors /= 2;
  const ptrdiff_t end = p.count * p.inner, block = kRows * vectors * kLanes;
  const auto each = [&](ptrdiff_t from, ptrdiff_t to, auto&& body) __attribute__((always_inline)) {
    for (ptrdiff_t i = from, v = 0; i < to; i += kLanes, v = v + 1 == vectors ? 0 : v + 1) body(i, v);
  };
  Floats most[kLanes], total[kLanes];
  for (ptrdiff_t v = 0; v < vectors; ++v) {
    most[v] = splat(-__builtin_inff());
    total[v] = splat(0.0f);
  }
  // Whole periods, and then the last one, which ends with the last row.
  const ptrdiff_t period = vectors * kLanes;
  each(0, end / period * period, [&](ptrdiff_t i, ptrdiff_t v) __attribute__((always_inline)) {
    most[v] = at_least(load(x + i), most[v]);
  });
  each(end - period, end, [&](ptrdiff_t i, ptrdiff_t v) __attribute__((always_inline)) {
    most[v] = at_least(load(x + i), most[v]);
  });
  over_columns(most, vectors, p.inner, [](float a, float b) { return a > b ? a : b; });
  for (ptrdiff_t first = 0; first < end; first += block) {
    Floats sums[kLanes] = {};
    each(first, min_of(first + block, end), [&](ptrdiff_t i, ptrdiff_t v) __attribute__((always_inline)) {
      const ptrdiff_t left = end - i;
      const Floats value = exp_of_score(load_part(x + i, left) - most[v]);
      sums[v] += left < kLanes ? first_lanes(value, left) : value;
      if (!p.logarithm) store_part(out + i, value, left);
    });
    for (ptrdiff_t v = 0; v < vectors; ++v) total[v] += sums[v];
  }
  over_columns(total, vectors, p.inner, [](float a, float b) { return a + b; });
  for (ptrdiff_t v = 0; v < vectors; ++v) total[v] = p.logarithm ? log_of(total[v]) : splat(1.0f) / total[v];
  each(0, end, [&](ptrdiff_t i, ptrdiff_t v) __attribute__((always_inline)) {
    const ptrdiff_t left = end - i;
    const Floats value =
        p.logarithm ? load_part(x + i, left) - most[v] - total[v] : load_part(out + i, left) * total[v];
    store_part(out + i, value, left);
  });
}

}  // namespace

void softmax(const Softmax& p) {
  if (p.inner == 1) return softmax_rows(p);
  if (p.inner <= kLanes / 2 && p.count >= 2 * kLanes) {
    const ptrdiff_t step = p.count * p.inner;
    for (ptrdiff_t part = p.first; part < p.last; ++part) {
      softmax_narrow(p, p.input + part * step, p.output + part * step);
    }
    return;
  }
  const ptrdiff_t blocks = (p.inner + kReducedColumns - 1) / kReducedColumns;
  for (ptrdiff_t part = p.first; part < p.last; ++part) {
    const ptrdiff_t first = part % blocks * kReducedColumns, end = min_of(first + kReducedColumns, p.inner);
    for (ptrdiff_t column = first; column < end; column += 4 * kLanes) {
      const ptrdiff_t at = part / blocks * p.count * p.inner + column, left = end - column;
      if (left > 3 * kLanes) {
        softmax_block<4>(p, p.input + at, p.output + at, left);
      } else if (left > 2 * kLanes) {
        softmax_block<3>(p, p.input + at, p.output + at, left);
      } else if (left > kLanes) {
        softmax_block<2>(p, p.input + at, p.output + at, left);
      } else {
        softmax_block<1>(p, p.input + at, p.output + at, left);
      }
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
