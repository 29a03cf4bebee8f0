// Two vectors, or two pairs of them, as one number. In a long function of one vector each step waits for the
// step before, and a processor's queues hold too few of the steps of the vectors that follow.
#pragma once

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

template <class Half>
struct Twice {
  Half a, b;

  Twice() = default;
  __attribute__((always_inline)) Twice(Half of_a, Half of_b) : a(of_a), b(of_b) {}
  // One vector in every place: constants need not say how many there are.
  template <class One>
  __attribute__((always_inline)) Twice(One all) : a(all), b(all) {}

#define PENLIGHT_OPERATOR(sign)                                                        \
  __attribute__((always_inline)) friend inline Twice operator sign(Twice x, Twice y) { \
    return {x.a sign y.a, x.b sign y.b};                                               \
  }
  PENLIGHT_OPERATOR(+)
  PENLIGHT_OPERATOR(-)
  PENLIGHT_OPERATOR(*)
  PENLIGHT_OPERATOR(/)
  PENLIGHT_OPERATOR(&)
  PENLIGHT_OPERATOR(|)
#undef PENLIGHT_OPERATOR
  __attribute__((always_inline)) friend inline Twice operator-(Twice x) { return {-x.a, -x.b}; }
  __attribute__((always_inline)) friend inline Twice operator<<(Twice x, int by) {
    return {x.a << by, x.b << by};
  }
  __attribute__((always_inline)) friend inline Twice operator>>(Twice x, int by) {
    return {x.a >> by, x.b >> by};
  }
  __attribute__((always_inline)) friend inline auto operator<(Twice x, Twice y) {
    return Twice<decltype(x.a < y.a)>{x.a < y.a, x.b < y.b};
  }
  __attribute__((always_inline)) friend inline Twice at_least(Twice x, Twice low) {
    return {at_least(x.a, low.a), at_least(x.b, low.b)};
  }
  __attribute__((always_inline)) friend inline Twice at_most(Twice x, Twice high) {
    return {at_most(x.a, high.a), at_most(x.b, high.b)};
  }
  template <class Mask>
  __attribute__((always_inline)) friend inline Twice select(Twice<Mask> mask, Twice yes, Twice no) {
    return {select(mask.a, yes.a, no.a), select(mask.b, yes.b, no.b)};
  }
};

// The same bits as the other kind of number.
PENLIGHT_INLINE Ints bits_of(Floats x) { return (Ints)x; }
PENLIGHT_INLINE Floats number_of(Ints bits) { return (Floats)bits; }
template <class Half>
PENLIGHT_INLINE auto bits_of(Twice<Half> x) {
  return Twice<decltype(bits_of(x.a))>{bits_of(x.a), bits_of(x.b)};
}
template <class Half>
PENLIGHT_INLINE auto number_of(Twice<Half> bits) {
  return Twice<decltype(number_of(bits.a))>{number_of(bits.a), number_of(bits.b)};
}
template <class F>
using BitsOf = decltype(bits_of(F()));

PENLIGHT_INLINE Floats added_up(Floats x) { return x; }
template <class Half>
PENLIGHT_INLINE Floats added_up(Twice<Half> x) {
  return added_up(x.a) + added_up(x.b);
}

// Are long functions to be given four vectors? Processors with vectors of 16 floats have queues that are long
// enough for one.
constexpr bool kByFours = !kFewTiles && kLanes < 16;

// to[i] = f(from[i]) as long as that is so and there are four whole vectors, from each of which `step`
// elements lead to the next in `from`. How many elements that were.
template <class F>
PENLIGHT_INLINE ptrdiff_t apply_together(const float* from, ptrdiff_t step, float* to, ptrdiff_t count,
                                         F&& f) {
  ptrdiff_t done = 0;
  if constexpr (kByFours) {
    using Two = Twice<Floats>;
    for (; done + 4 * kLanes <= count; done += 4 * kLanes, from += 4 * step, to += 4 * kLanes) {
      const Twice<Two> y = f(
          Twice<Two>(Two(load(from), load(from + step)), Two(load(from + 2 * step), load(from + 3 * step))));
      store(to, y.a.a);
      store(to + kLanes, y.a.b);
      store(to + 2 * kLanes, y.b.a);
      store(to + 3 * kLanes, y.b.b);
    }
  }
  return done;
}

// to[i] = f(from[i]); the rest of the last vector is computed, too, but not stored.
template <class F>
PENLIGHT_INLINE void apply_to_run(const float* from, float* to, ptrdiff_t count, F&& f) {
  for (ptrdiff_t i = apply_together(from, kLanes, to, count, f); i < count; i += kLanes) {
    store_part(to + i, f(load_part(from + i, count - i)), count - i);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
