// The greatest, or least, few of rows, in order, with their places.
//
// Elements are compared as whole numbers, whose order is that of the floats; those that do not come
// before the last one found so far are passed over a vector at a time.
#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// What is asked for first has the greatest rank. No number is greater than all, and both zeros are equal.
template <bool greatest>
PENLIGHT_INLINE Ints ranks_of(Floats x) {
  const Floats same = x + splat(0.0f);
  Ints bits;
  memcpy(&bits, &same, sizeof bits);
  bits ^= (bits >> 31) & splat_int(0x7fffffff);
  const Ints missing = x != x;
  bits = (bits & ~missing) | (splat_int(0x7fffffff) & missing);
  return greatest ? bits : ~bits;
}

constexpr ptrdiff_t kFew = 32;  // that are moved one by one

// The best so far, in order: a rank, and below it how far the place is from the last that can be, so
// that among equals the first comes first.
struct Best {
  int64_t* found;
  ptrdiff_t count, most;

  int32_t last_rank() const { return static_cast<int32_t>(found[most - 1] >> 32); }

  void offer(int32_t rank, int32_t place) {
    const int64_t item = static_cast<int64_t>(rank) * (int64_t{1} << 32) + (INT32_MAX - place);
    if (count == most && item < found[most - 1]) return;
    ptrdiff_t at = count < most ? count++ : most - 1;
    if (most <= kFew) {
      for (; at > 0 && found[at - 1] < item; --at) found[at] = found[at - 1];
    } else {
      ptrdiff_t low = 0, high = at;
      while (low < high) {
        const ptrdiff_t middle = (low + high) / 2;
        if (found[middle] > item) {
          low = middle + 1;
        } else {
          high = middle;
        }
      }
      memmove(found + low + 1, found + low, static_cast<size_t>(at - low) * sizeof(int64_t));
      at = low;
    }
    found[at] = item;
  }
};

template <bool greatest>
void row(const TopK& t, const float* x, Best& best) {
  best.count = 0;
  for (ptrdiff_t i = 0; i < t.length; i += kLanes) {
    const ptrdiff_t left = min_of(t.length - i, kLanes);
    const Ints ranks = ranks_of<greatest>(load_part(x + i, left));
    int32_t lanes[kLanes];
    if (best.count < best.most) {
      memcpy(lanes, &ranks, sizeof ranks);
      for (ptrdiff_t lane = 0; lane < left; ++lane) best.offer(lanes[lane], static_cast<int32_t>(i + lane));
      continue;
    }
    int32_t last = best.last_rank();
    if (!any_of(ranks > splat_int(last))) continue;
    memcpy(lanes, &ranks, sizeof ranks);
    for (ptrdiff_t lane = 0; lane < left; ++lane) {
      if (lanes[lane] <= last) continue;
      best.offer(lanes[lane], static_cast<int32_t>(i + lane));
      last = best.last_rank();
    }
  }
}

}  // namespace

void top_k(const TopK& t) {
  Best best = {t.scratch, 0, t.count};
  for (ptrdiff_t r = t.first; r < t.last; ++r) {
    const float* x = t.input + r * t.length;
    if (t.greatest) {
      row<true>(t, x, best);
    } else {
      row<false>(t, x, best);
    }
    for (ptrdiff_t i = 0; i < t.count; ++i) {
      const int64_t place = INT32_MAX - (best.found[i] & UINT32_MAX);
      t.values[r * t.count + i] = x[place];
      t.indices[r * t.count + i] = place;
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
