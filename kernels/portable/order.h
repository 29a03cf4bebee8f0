// One order for elements of every dtype: as int64 keys.
//
// Floats map to integers that compare as they do, with -0 equal to 0 and NaN
// above everything (ATen's order); ~key reverses. Sorting code is then compiled
// once, whatever the dtype.
#pragma once

#include "kernels/common/convert.h"
#include "kernels/common/view.h"

namespace penlight {

struct Ranked {
  int64_t key;
  dim_t place;
};

inline bool ranks_before(const Ranked& a, const Ranked& b) {
  return a.key < b.key || (a.key == b.key && a.place < b.place);
}

inline bool has_order(ScalarType type) {
  return is_floating(type) || type == ScalarType::Bool || is_integral(type);
}

constexpr int64_t kNanKey = INT64_MAX;

// From so many on, counting their digits is quicker than comparing them.
constexpr dim_t kManyRanked = 256;

// Keys of floats: their bits, as integers that compare as they do. Fewer than 64 are the highest ones, so
// that the lower digits of all keys are alike.
template <class Float, class Bits>
inline void order_floats(const Float* x, dim_t count, int64_t* keys) {
  constexpr int kUnused = 64 - 8 * static_cast<int>(sizeof(Bits));
  constexpr Bits kAllButSign = static_cast<Bits>(INT64_MAX >> kUnused);
  for (dim_t i = 0; i < count; ++i) {
    const Float canonical = x[i] + Float(0);  // -0 becomes 0
    Bits bits;
    memcpy(&bits, &canonical, sizeof bits);
    const uint64_t mirrored = static_cast<uint64_t>(bits < 0 ? bits ^ kAllButSign : bits);
    keys[i] = x[i] == x[i] ? static_cast<int64_t>(mirrored << kUnused) : kNanKey;
  }
}

// Keys of `count` elements, places from `place` on. Strides in elements.
inline void rank_elements(ScalarType type, const void* from, dim_t stride, dim_t place, dim_t count,
                          bool descending, Ranked* to) {
  constexpr dim_t kBlock = 64;
  const dim_t step = stride * static_cast<dim_t>(element_size(type));
  for (dim_t first = 0; first < count; first += kBlock) {
    const dim_t n = count - first < kBlock ? count - first : kBlock;
    const char* block = static_cast<const char*>(from) + first * step;
    int64_t keys[kBlock];
    if (type == ScalarType::Double) {
      double x[kBlock];
      load_block(x, type, block, stride, n);
      order_floats<double, int64_t>(x, n, keys);
    } else if (is_floating(type)) {
      float x[kBlock];
      load_block(x, type, block, stride, n);
      order_floats<float, int32_t>(x, n, keys);
    } else {
      load_block(keys, type, block, stride, n);
    }
    for (dim_t i = 0; i < n; ++i) {
      to[first + i].key = descending ? ~keys[i] : keys[i];
      to[first + i].place = place + first + i;
    }
  }
}

// By one byte of the keys after the other, from the lowest on; those that are equal in all are left out.
inline void sort_by_digits(Ranked* items, Ranked* spare, dim_t count) {
  Ranked* const lists[] = {items, spare};
  int at = 0;
  const auto bits = [](const Ranked& item) { return static_cast<uint64_t>(item.key) ^ uint64_t { 1 } << 63; };
  uint64_t differing = 0;
  for (dim_t i = 0; i < count; ++i) differing |= bits(items[i]) ^ bits(items[0]);
  for (int shift = 0; shift < 64; shift += 8) {
    if (!(differing >> shift & 255)) continue;
    dim_t places[256] = {}, place = 0;
    const Ranked* const from = lists[at];
    for (dim_t i = 0; i < count; ++i) ++places[bits(from[i]) >> shift & 255];
    for (dim_t& one : places) {
      const dim_t first = place;
      place += one;
      one = first;
    }
    at = 1 - at;
    for (dim_t i = 0; i < count; ++i) lists[at][places[bits(from[i]) >> shift & 255]++] = from[i];
  }
  if (at == 1) memcpy(items, spare, static_cast<size_t>(count) * sizeof(Ranked));
}

constexpr dim_t kRankedRun = 16;

// At most kRankedRun items to their places, which are found by comparing each with each: no branch depends on
// what they are. `to` may be `from`.
inline void sort_run(const Ranked* from, dim_t count, Ranked* to) {
  Ranked items[kRankedRun];
  dim_t places[kRankedRun];
  for (dim_t i = 0; i < count; ++i) {
    const int64_t key = from[i].key;
    dim_t behind = 0;
    for (dim_t j = 0; j < i; ++j) {
      const dim_t is_behind = key < items[j].key ? 1 : 0;
      places[j] += is_behind;
      behind += is_behind;
    }
    items[i] = from[i];
    places[i] = i - behind;
  }
  for (dim_t i = 0; i < count; ++i) to[places[i]] = items[i];
}

// Two sorted runs, [0, middle) and [middle, count), that differ by one item at most: from both ends at once,
// as no step of one end waits for the other, and neither run ends before all but one item have their places.
// The products are in place of branches, whose outcome nobody can foresee.
inline void merge_runs(const Ranked* from, dim_t middle, dim_t count, Ranked* to) {
  const dim_t half = middle < count - middle ? middle : count - middle;
  dim_t a = 0, b = middle, last_a = middle - 1, last_b = count - 1;
  for (dim_t i = 0; i < half; ++i) {
    const dim_t is_b = from[b].key < from[a].key ? 1 : 0;
    to[i] = from[a + (b - a) * is_b];
    b += is_b;
    a += 1 - is_b;
    const dim_t is_a = from[last_b].key < from[last_a].key ? 1 : 0;
    to[count - 1 - i] = from[last_b + (last_a - last_b) * is_a];
    last_a -= is_a;
    last_b -= 1 - is_a;
  }
  if (2 * half < count) to[half] = from[a <= last_a ? a : b];
}

// Sorts by ranks_before(). `spare` has room for as many.
inline void sort_ranked(Ranked* items, Ranked* spare, dim_t count) {
  if (count >= kManyRanked) return sort_by_digits(items, spare, count);
  // As many runs as some power of two, so that no two differ by more than one item, nor do those made of
  // them.
  int levels = 0;
  while ((count - 1) >> levels >= kRankedRun) ++levels;
  Ranked* const lists[] = {items, spare};
  int at = levels & 1;
  const auto begin = [count](dim_t run, int level) { return run * count >> level; };
  for (dim_t run = 0; run < dim_t{1} << levels; ++run) {
    const dim_t first = begin(run, levels);
    sort_run(items + first, begin(run + 1, levels) - first, lists[at] + first);
  }
  for (; levels > 0; --levels, at = 1 - at) {
    for (dim_t run = 0; run < dim_t{1} << levels; run += 2) {
      const dim_t first = begin(run, levels), middle = begin(run + 1, levels), last = begin(run + 2, levels);
      merge_runs(lists[at] + first, middle - first, last - first, lists[1 - at] + first);
    }
  }
}

// Leaves those that come first among `count` in `items[0, wanted)`, by ranks_before() but in no order but
// that the last of them is in `items[wanted - 1]`. By one byte of the keys after the other, from the highest
// on: only those whose place is not known yet are looked at again. `spare` has room for all.
inline void select_first(Ranked* items, Ranked* spare, dim_t count, dim_t wanted) {
  if (count < kManyRanked) return sort_ranked(items, spare, count);
  const auto digit = [](const Ranked& item, int shift) {
    return (static_cast<uint64_t>(item.key) ^ uint64_t{1} << 63) >> shift & 255;
  };
  Ranked *chosen = items, *open = items;
  for (int shift = 56; shift >= 0 && count > 1; shift -= 8) {
    dim_t many[256] = {};
    for (dim_t i = 0; i < count; ++i) ++many[digit(open[i], shift)];
    uint64_t last = 0;
    dim_t before = 0;
    while (before + many[last] < wanted) before += many[last++];
    if (many[last] == count) continue;
    wanted -= before;
    dim_t left = 0;
    for (dim_t i = 0; i < count; ++i) {
      const Ranked item = open[i];
      const uint64_t own = digit(item, shift);
      if (own < last) *chosen++ = item;
      if (own == last) spare[left++] = item;
    }
    open = spare;
    count = left;
  }
  memmove(chosen, open, static_cast<size_t>(wanted) * sizeof(Ranked));
}

// All elements of a tensor, places counted in row-major order.
inline void rank_all(const Tensor& self, bool descending, Ranked* to) {
  const View view = at_least_1d(self);
  const int last = view.dim - 1;
  const dim_t length = view.sizes[last], item = static_cast<dim_t>(self.element_size());
  if (length == 0) return;
  dim_t place = 0;
  for_each_place({&view}, last, [&](char* const* at) {
    rank_elements(self.scalar_type(), at[0], view.strides[last] / item, place, length, descending,
                  to + place);
    place += length;
  });
}

// The address of the element at a place counted in row-major order.
inline char* element_at(const Tensor& self, dim_t place) {
  dim_t offset = 0;
  for (int d = static_cast<int>(self.dim()); d-- > 0;) {
    offset += place % self.size(d) * self.stride(d);
    place /= self.size(d);
  }
  return address(self, offset);
}

}  // namespace penlight
