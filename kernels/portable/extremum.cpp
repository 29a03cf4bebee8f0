// Greatest and smallest elements, and where they are. NaN wins over everything;
// among equals the first.
#include "kernels/common/reduce.h"

namespace penlight::portable {

template <bool greatest>
struct Ordered {
  template <class C>
  static bool before(C a, C b) {
    return greatest ? a > b : a < b;
  }
  template <class C>
  static constexpr C worst() {
    if constexpr (same_type<C, int64_t>) return greatest ? INT64_MIN : INT64_MAX;
    if constexpr (!same_type<C, int64_t>)
      return static_cast<C>(greatest ? -__builtin_inf() : __builtin_inf());
  }
};
using Greater = Ordered<true>;
using Less = Ordered<false>;

template <class Order>
struct Best {
  template <class C>
  static constexpr C identity() {
    return Order::template worst<C>();
  }
  template <class C>
  static C apply(C a, C b) {
    return (Order::before(b, a) | (b != b)) ? b : a;  // without a branch: compilers turn it into vector code
  }
};

// The best element's place, and the element itself where it is wanted. Places
// count from 0 in the order in which elements are met.
template <class C, class Order>
struct PlaceOf {
  PlaceOf(Tensor* value_out, Tensor& place_out) : values(value_out), places(place_out) {}

  Tensor* values;
  Tensor& places;
  int64_t seen;
  C best[kReduceColumns];
  int64_t place[kReduceColumns];

  void start(int) { seen = 0; }

  static bool beats(C x, C best) { return Order::before(x, best) || (x != x && best == best); }

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
static bool check_reduced_sizes(KernelContext& ctx, const Tensor& self, uint32_t mask) {
  for (int d = 0; d < self.dim(); ++d) {
    if ((mask & (1u << d)) && self.size(d) == 0)
      return ctx.refuse(Status::InvalidArgument,
                        "no greatest or smallest of 0 elements: dimension {} has size 0", d);
  }
  return true;
}

template <class Order>
static void extremum(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dims, bool keepdim,
                     Tensor& out) {
  uint32_t mask;
  ReduceLoop loop;
  Tensor* outs[] = {&out};
  if (!check_same_dtype(ctx, self, out) || !reduced_dims(ctx, self, dims, mask) ||
      !check_reduced_sizes(ctx, self, mask) || !loop.prepare(ctx, self, mask, keepdim, outs, 1)) {
    return;
  }
  dispatch_compute(ctx, self.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    FoldOf<C, Best<Order>> operation(out);
    loop.run<C>(operation);
  });
}

// `values` may be null.
template <class Order>
static void place(KernelContext& ctx, const Tensor& self, Optional<int64_t> dim, bool keepdim, Tensor* values,
                  Tensor& places) {
  uint32_t mask;
  ReduceLoop loop;
  Tensor* outs[] = {values ? values : &places, &places};
  const Optional<ArrayRef<int64_t>> dims = dim ? ArrayRef<int64_t>(&dim.value(), 1) : ArrayRef<int64_t>();
  if (values && !check_same_dtype(ctx, self, *values)) return;
  if (!reduced_dims(ctx, self, dims, mask) || !check_reduced_sizes(ctx, self, mask) ||
      !loop.prepare(ctx, self, mask, keepdim, outs, values ? 2 : 1, true)) {
    return;
  }
  dispatch_compute(ctx, self.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    PlaceOf<C, Order> operation(values, places);
    loop.run<C>(operation);
  });
}

void amax_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, bool keepdim, Tensor& out) {
  extremum<Greater>(ctx, self, dim, keepdim, out);
}

void amin_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, bool keepdim, Tensor& out) {
  extremum<Less>(ctx, self, dim, keepdim, out);
}

void max_unary_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  extremum<Greater>(ctx, self, nullopt, false, out);
}

void min_unary_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  extremum<Less>(ctx, self, nullopt, false, out);
}

void aminmax_out(KernelContext& ctx, const Tensor& self, Optional<int64_t> dim, bool keepdim, Tensor& min,
                 Tensor& max) {
  const Optional<ArrayRef<int64_t>> dims = dim ? ArrayRef<int64_t>(&dim.value(), 1) : ArrayRef<int64_t>();
  extremum<Less>(ctx, self, dims, keepdim, min);
  if (ctx.ok()) extremum<Greater>(ctx, self, dims, keepdim, max);
}

void argmax_out(KernelContext& ctx, const Tensor& self, Optional<int64_t> dim, bool keepdim, Tensor& out) {
  place<Greater>(ctx, self, dim, keepdim, nullptr, out);
}

void argmin_out(KernelContext& ctx, const Tensor& self, Optional<int64_t> dim, bool keepdim, Tensor& out) {
  place<Less>(ctx, self, dim, keepdim, nullptr, out);
}

void max_dim_max(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& max,
                 Tensor& max_values) {
  place<Greater>(ctx, self, dim, keepdim, &max, max_values);
}

void min_dim_min(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& min,
                 Tensor& min_indices) {
  place<Less>(ctx, self, dim, keepdim, &min, min_indices);
}

}  // namespace penlight::portable
