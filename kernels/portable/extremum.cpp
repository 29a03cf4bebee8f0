// Greatest and smallest elements, and where they are. NaN wins over everything;
// among equals the first.
#include <math.h>

#include "kernels/common/reduce.h"

namespace penlight::portable {

namespace {

enum Order : bool { kLeast, kGreatest };

template <Order order, class C>
bool before(C a, C b) {
  return order == kGreatest ? a > b : a < b;
}

// What every other element is before.
template <Order order, class C>
constexpr C worst() {
  if constexpr (same_type<C, int64_t>) return order == kGreatest ? INT64_MIN : INT64_MAX;
  if constexpr (!same_type<C, int64_t>) return order == kGreatest ? -HUGE_VALF : HUGE_VALF;
}

// The best element's place, and the element itself where it is wanted. Places
// count from 0 in the order in which elements are met.
template <class C, Order order>
struct PlaceOf {
  PlaceOf(Tensor* value_out, Tensor& place_out) : values(value_out), places(place_out) {}

  Tensor* values;
  Tensor& places;
  int64_t seen;
  C best[kReduceColumns];
  int64_t place[kReduceColumns];

  void start(int) { seen = 0; }

  static bool beats(C x, C best) { return before<order>(x, best) || (x != x && best == best); }

  void row(const C* x, dim_t count) {
    dim_t i = 0;
    if (seen == 0) take(0, x[i++], 0);
    C held = best[0];
    for (; i < count; ++i) {
      if (beats(x[i], held)) {
        held = x[i];
        place[0] = seen + i;
      }
    }
    best[0] = held;
    seen += count;
  }

  void column(const C* x, int columns) {
    for (int k = 0; k < columns; ++k) {
      if (seen == 0 || beats(x[k], best[k])) take(k, x[k], seen);
    }
    ++seen;
  }

  void take(int k, C x, int64_t at) {
    best[k] = x;
    place[k] = at;
  }

  // Outputs are (places) or (values, places).
  void store(const dim_t* offset, const dim_t* stride, int columns) {
    if (values) store_block(*values, *offset++, *stride++, best, columns);
    store_block(places, *offset, *stride, place, columns);
  }
};

// There is no greatest element of nothing: refused as a whole, even where the result would be empty.
bool prepare(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, bool keepdim, Tensor& out,
             Tensor* second, bool ordered, ReduceLoop& loop) {
  if (!loop.prepare(ctx, self, dims, keepdim, out, second, ordered)) return false;
  return check(ctx, loop.elements() > 0, "there is no greatest or smallest of 0 elements");
}

template <Order order>
void extremum(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, bool keepdim, Tensor& out) {
  ReduceLoop loop;
  if (!check_same_dtype(ctx, self, out) || !prepare(ctx, self, dims, keepdim, out, nullptr, false, loop))
    return;
  dispatch_compute(ctx, self.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    // Without a branch: compilers turn it into vector code.
    loop.run<C>(
        fold_of(out, worst<order, C>(), [](C a, C b) { return (before<order>(b, a) | (b != b)) ? b : a; }));
  });
}

// `values` may be null.
template <Order order>
void place(KernelContext& ctx, const Tensor& self, const Optional<int64_t>& dim, bool keepdim, Tensor* values,
           Tensor& places) {
  ReduceLoop loop;
  if ((values && !check_same_dtype(ctx, self, *values)) ||
      !prepare(ctx, self, dims_of(dim), keepdim, values ? *values : places, values ? &places : nullptr, true,
               loop))
    return;
  dispatch_compute(ctx, self.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    loop.run<C>(PlaceOf<C, order>(values, places));
  });
}

}  // namespace

// Kernels of one order: along dimensions, of all elements, the place along a dimension, both.
#define PENLIGHT_EXTREMUM(along_dims, of_all, place_along_dim, along_dim, order)                        \
  void along_dims(KernelContext& ctx, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) { \
    extremum<order>(ctx, self, dim, keepdim, out);                                                      \
  }                                                                                                     \
  void of_all(KernelContext& ctx, const Tensor& self, Tensor& out) {                                    \
    extremum<order>(ctx, self, nullopt, false, out);                                                    \
  }                                                                                                     \
  void place_along_dim(KernelContext& ctx, const Tensor& self, Optional<int64_t> dim, bool keepdim,     \
                       Tensor& out) {                                                                   \
    place<order>(ctx, self, dim, keepdim, nullptr, out);                                                \
  }                                                                                                     \
  void along_dim(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,     \
                 Tensor& indices) {                                                                     \
    place<order>(ctx, self, dim, keepdim, &values, indices);                                            \
  }
PENLIGHT_EXTREMUM(amax_out, max_unary_out, argmax_out, max_dim_max, kGreatest)
PENLIGHT_EXTREMUM(amin_out, min_unary_out, argmin_out, min_dim_min, kLeast)

void aminmax_out(KernelContext& ctx, const Tensor& self, Optional<int64_t> dim, bool keepdim, Tensor& min,
                 Tensor& max) {
  extremum<kLeast>(ctx, self, dims_of(dim), keepdim, min);
  if (ctx.ok()) extremum<kGreatest>(ctx, self, dims_of(dim), keepdim, max);
}

}  // namespace penlight::portable
