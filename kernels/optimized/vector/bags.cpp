// Sums, means and maxima over bags of rows of a table. Columns stay in registers while the rows of a bag are
// read, and rows of a table that no cache holds are fetched before they are wanted.
#include "bags.h"

#include "halves.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kAhead = 8;  // indices

// As many of the `left` elements as a vector holds.
template <class Source>
PENLIGHT_INLINE Floats load_columns(const typename Source::Element* from, ptrdiff_t left) {
  if constexpr (sizeof(*from) == sizeof(float)) {
    return load_part(from, left);
  } else {
    if (left >= kLanes) return Source::load(from);
    typename Source::Element some[kLanes] = {};
    memcpy(some, from, static_cast<size_t>(left) * sizeof *some);
    return Source::load(some);
  }
}

template <class Source>
PENLIGHT_INLINE void store_columns(typename Source::Element* to, Floats value, ptrdiff_t left) {
  if (left >= kLanes) return Source::store(to, value);
  typename Source::Element some[kLanes];
  Source::store(some, value);
  memcpy(to, some, static_cast<size_t>(left) * sizeof *some);
}

// Calls body(index, row) with the columns from `column` on, in so many vectors, of the rows that count.
template <class Source, int vectors, class Body>
PENLIGHT_INLINE void for_each_row(const BagsOfRows& b, ptrdiff_t bag, ptrdiff_t column, Body&& body) {
  const auto* const table = static_cast<const typename Source::Element*>(b.table) + column;
  const ptrdiff_t end = b.starts[bag + 1], all = b.starts[b.count];
  for (ptrdiff_t i = b.starts[bag]; i < end; ++i) {
    if (i + kAhead < all) {
      const auto* const ahead = table + b.indices[i + kAhead] * b.pitch;
      repeat<vectors>([&](auto v) { __builtin_prefetch(ahead + v * kLanes); });
    }
    if (b.indices[i] != b.padding) body(i, table + b.indices[i] * b.pitch);
  }
}

template <class Source, int vectors>
void sum_columns(const BagsOfRows& b, ptrdiff_t bag, ptrdiff_t column, ptrdiff_t used) {
  const ptrdiff_t left = b.width - column;
  Floats sums[vectors] = {};
  for_each_row<Source, vectors>(b, bag, column, [&](ptrdiff_t i, const typename Source::Element* row) {
    const Floats factor = splat(b.factors ? b.factors[i] : 1.0f);
    repeat<vectors>(
        [&](auto v) { sums[v] += factor * load_columns<Source>(row + v * kLanes, left - v * kLanes); });
  });
  auto* const to = static_cast<typename Source::Element*>(b.output) + bag * b.width + column;
  const Floats divisor = splat(b.reduction == BagReduction::Mean && used > 0 ? static_cast<float>(used) : 1);
  repeat<vectors>(
      [&](auto v) { store_columns<Source>(to + v * kLanes, sums[v] / divisor, left - v * kLanes); });
}

// The first row stays where a later one is not greater; so does NaN.
template <class Source, int vectors>
void greatest_columns(const BagsOfRows& b, ptrdiff_t bag, ptrdiff_t column) {
  const ptrdiff_t left = b.width - column;
  Floats most[vectors] = {};
  Ints rows[vectors] = {};
  Ints is_first = splat_int(-1);
  for_each_row<Source, vectors>(b, bag, column, [&](ptrdiff_t i, const typename Source::Element* from) {
    const Ints row = splat_int(static_cast<int32_t>(b.indices[i]));
    repeat<vectors>([&](auto v) {
      const Floats x = load_columns<Source>(from + v * kLanes, left - v * kLanes);
      const Ints takes = is_first | (x > most[v]);
      most[v] = select(takes, x, most[v]);
      rows[v] = takes ? row : rows[v];
    });
    is_first = Ints{};
  });
  auto* const to = static_cast<typename Source::Element*>(b.output) + bag * b.width + column;
  int64_t* const places = b.maxima + bag * b.width + column;
  repeat<vectors>([&](auto v) {
    store_columns<Source>(to + v * kLanes, most[v], left - v * kLanes);
    store_as_longs(places + v * kLanes, rows[v], left - v * kLanes);
  });
}

template <class Source>
void reduce_bag(const BagsOfRows& b, ptrdiff_t bag) {
  ptrdiff_t used = 0;
  if (b.reduction == BagReduction::Mean) {
    for (ptrdiff_t i = b.starts[bag]; i < b.starts[bag + 1]; ++i) used += b.indices[i] != b.padding;
  }
  for (ptrdiff_t column = 0; column < b.width;) {
    const ptrdiff_t vectors = (b.width - column) / kLanes;
    const auto columns = [&](auto count) {
      if (b.reduction == BagReduction::Greatest) {
        greatest_columns<Source, decltype(count){}>(b, bag, column);
      } else {
        sum_columns<Source, decltype(count){}>(b, bag, column, used);
      }
      column += count * kLanes;
    };
    if (vectors >= 8) {
      columns(Index<8>());
    } else if (vectors >= 4) {
      columns(Index<4>());
    } else if (vectors >= 2) {
      columns(Index<2>());
    } else {
      columns(Index<1>());
    }
  }
}

template <class Source>
void reduce_all(const BagsOfRows& b) {
  for (ptrdiff_t bag = b.first; bag < b.last; ++bag) reduce_bag<Source>(b, bag);
}

}  // namespace

void reduce_bags(const BagsOfRows& b) {
  if (b.format == Format::Float32) return reduce_all<Singles>(b);
  (b.format == Format::BFloat16 ? reduce_all<BFloat16s> : reduce_all<Float16s>)(b);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
