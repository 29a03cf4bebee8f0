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

// Keys of `count` elements, places from `place` on. Strides in elements.
inline void rank_elements(ScalarType type, const void* from, dim_t stride, dim_t place, dim_t count,
                          bool descending, Ranked* to) {
  constexpr dim_t kBlock = 64;
  const dim_t step = stride * static_cast<dim_t>(element_size(type));
  for (dim_t first = 0; first < count; first += kBlock) {
    const dim_t n = count - first < kBlock ? count - first : kBlock;
    const char* block = static_cast<const char*>(from) + first * step;
    int64_t keys[kBlock];
    if (is_floating(type)) {
      double x[kBlock];
      load_block(x, type, block, stride, n);
      for (dim_t i = 0; i < n; ++i) {
        const double canonical = x[i] + 0.0;  // -0 becomes 0
        memcpy(&keys[i], &canonical, sizeof keys[i]);
        if (keys[i] < 0) keys[i] = INT64_MIN - keys[i] - 1;
        if (x[i] != x[i]) keys[i] = kNanKey;
      }
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

// Sorts by ranks_before(). `spare` has room for as many.
inline void sort_ranked(Ranked* items, Ranked* spare, dim_t count) {
  constexpr dim_t kRun = 12;
  if (count >= kManyRanked) return sort_by_digits(items, spare, count);
  for (dim_t first = 0; first < count; first += kRun) {
    const dim_t last = first + kRun < count ? first + kRun : count;
    for (dim_t i = first + 1; i < last; ++i) {
      const Ranked item = items[i];
      dim_t at = i;
      for (; at > first && item.key < items[at - 1].key; --at) items[at] = items[at - 1];
      items[at] = item;
    }
  }
  Ranked* const lists[] = {items, spare};
  int at = 0;
  for (dim_t width = kRun; width < count; width *= 2, at = 1 - at) {
    Ranked *const from = lists[at], *const to = lists[1 - at];
    for (dim_t first = 0; first < count; first += 2 * width) {
      const dim_t middle = first + width < count ? first + width : count;
      const dim_t last = middle + width < count ? middle + width : count;
      dim_t a = first, b = middle;
      for (dim_t i = first; i < last; ++i) {
        const bool second = a == middle || (b < last && from[b].key < from[a].key);
        to[i] = second ? from[b++] : from[a++];
      }
    }
  }
  if (at == 1) memcpy(items, spare, static_cast<size_t>(count) * sizeof(Ranked));
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
