// Sums, means, products, any and all, counts.
#include "kernels/common/reduce.h"

#include <string.h>

#include "kernels/common/complex.h"

namespace penlight::portable {

struct Same {
  template <class C>
  C operator()(C x) const {
    return x;
  }
  template <class C>
  C finish(C total) const {
    return total;
  }
};

struct NanAsZero : Same {
  template <class C>
  C operator()(C x) const {
    return x == x ? x : C(0);
  }
};

struct Mean : Same {
  dim_t count;
  template <class C>
  C finish(C total) const {
    return total / static_cast<C>(count);
  }
};

struct Multiply {
  template <class C>
  static constexpr C identity() {
    return C(1);
  }
  template <class C>
  static C apply(C a, C b) {
    return math::times(a, b);
  }
};

// NaN is not zero, hence true.
struct Any {
  template <class C>
  static constexpr C identity() {
    return C(0);
  }
  template <class C>
  static C apply(C a, C b) {
    return static_cast<C>(int{a != C(0)} | int{b != C(0)});
  }
};

struct All {
  template <class C>
  static constexpr C identity() {
    return C(1);
  }
  template <class C>
  static C apply(C a, C b) {
    return static_cast<C>(int{a != C(0)} & int{b != C(0)});
  }
};

// dispatch_compute() for the sums, products and counts that complex numbers have too.
template <class Body>
static void dispatch_number(KernelContext& ctx, ScalarType type, Body&& body) {
  if (!is_complex(type)) {
    dispatch_compute(ctx, type, body);
  } else if constexpr (kComplexSelected) {
    body(TypeTag<Complex>{});
  }
}

// Folded in the compute type of `type`.
template <class Function>
static void fold(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, ScalarType type,
                 Tensor& out) {
  ReduceLoop loop;
  Tensor* outs[] = {&out};
  if (!loop.prepare(ctx, self, mask, keepdim, outs, 1)) return;
  dispatch_number(ctx, type, [&](auto tag) {
    using C = typename decltype(tag)::type;
    FoldOf<C, Function> operation(out);
    loop.run<C>(operation);
  });
}

// Elements become out's dtype first, as in ATen: a sum of floats given as int64
// is a sum of integers.
template <class Map>
static void sum(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dims, bool keepdim,
                Tensor& out) {
  uint32_t mask;
  if (!reduced_dims(ctx, self, dims, mask)) return;
  if (out.scalar_type() == ScalarType::Bool)
    return fold<Any>(ctx, self, mask, keepdim, self.scalar_type(), out);
  ReduceLoop loop;
  Tensor* outs[] = {&out};
  if (!loop.prepare(ctx, self, mask, keepdim, outs, 1)) return;
  dispatch_number(ctx, out.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    SumOf<C, Map, C> operation(out);
    loop.run<C>(operation);
  });
}

void sum_int_list_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                      Optional<ScalarType>, Tensor& out) {
  sum<Same>(ctx, self, dim, keepdim, out);
}

void sum_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  sum<Same>(ctx, self, nullopt, false, out);
}

void nansum_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                Optional<ScalarType>, Tensor& out) {
  if (!is_floating(self.scalar_type())) return sum<Same>(ctx, self, dim, keepdim, out);
  sum<NanAsZero>(ctx, self, dim, keepdim, out);
}

static void mean(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dims, bool keepdim,
                 Tensor& out) {
  uint32_t mask;
  ReduceLoop loop;
  Tensor* outs[] = {&out};
  if (!is_floating(out.scalar_type()) && !is_complex(out.scalar_type()))
    return ctx.fail(Status::InvalidArgument, "a mean is floating point, out has dtype {}",
                    dtype_name(out.scalar_type()));
  if (!reduced_dims(ctx, self, dims, mask) || !loop.prepare(ctx, self, mask, keepdim, outs, 1)) return;
  Mean map;
  map.count = loop.elements();
  dispatch_number(ctx, out.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    if constexpr (!same_type<C, int64_t>) {
      SumOf<C, Mean, C> operation(out, map);
      loop.run<C>(operation);
    }
  });
}

void mean_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
              Optional<ScalarType>, Tensor& out) {
  mean(ctx, self, dim, keepdim, out);
}

void mean_dtype_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  mean(ctx, self, nullopt, false, out);
}

static void product(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dims, bool keepdim,
                    Tensor& out) {
  uint32_t mask;
  if (!reduced_dims(ctx, self, dims, mask)) return;
  if (out.scalar_type() == ScalarType::Bool)
    return fold<All>(ctx, self, mask, keepdim, self.scalar_type(), out);
  fold<Multiply>(ctx, self, mask, keepdim, out.scalar_type(), out);
}

void prod_int_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Optional<ScalarType>,
                  Tensor& out) {
  product(ctx, self, ArrayRef<int64_t>(&dim, 1), keepdim, out);
}

void prod_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  product(ctx, self, nullopt, false, out);
}

// An empty list reduces nothing here: each element is its own any().
template <class Function>
static void logical(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dims, bool keepdim,
                    Tensor& out) {
  uint32_t mask;
  if (!reduced_dims(ctx, self, dims, mask, false)) return;
  fold<Function>(ctx, self, mask, keepdim, self.scalar_type(), out);
}

void any_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  logical<Any>(ctx, self, ArrayRef<int64_t>(&dim, 1), keepdim, out);
}

void any_dims_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                  Tensor& out) {
  logical<Any>(ctx, self, dim, keepdim, out);
}

void any_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  logical<Any>(ctx, self, nullopt, false, out);
}

void all_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) {
  logical<All>(ctx, self, ArrayRef<int64_t>(&dim, 1), keepdim, out);
}

void all_dims_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                  Tensor& out) {
  logical<All>(ctx, self, dim, keepdim, out);
}

void all_all_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  logical<All>(ctx, self, nullopt, false, out);
}

// The bits of 64-bit numbers, combined by exclusive or.
struct Xor {
  template <class C>
  static constexpr C identity() {
    return C(0);
  }
  template <class C>
  static C apply(C a, C b) {
    uint64_t bits, more;
    memcpy(&bits, &a, sizeof bits);
    memcpy(&more, &b, sizeof more);
    bits ^= more;
    memcpy(&a, &bits, sizeof bits);
    return a;
  }
};

// Stores bits, to an output of uint64, not numbers.
template <class C>
struct HashOf : FoldOf<C, Xor> {
  using FoldOf<C, Xor>::FoldOf;
  void store(const dim_t* offset, const dim_t* stride, int columns) {
    C* to = static_cast<C*>(this->out.data_ptr()) + offset[0];
    for (int k = 0; k < columns; ++k) to[k * stride[0]] = this->value[k];
  }
};

void hash_tensor_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, bool keepdim,
                     int64_t mode, Tensor& out) {
  uint32_t mask;
  ReduceLoop loop;
  Tensor* outs[] = {&out};
  if (!check(ctx, mode == 0, "hash_tensor: the only mode is 0") || !reduced_dims(ctx, self, dim, mask) ||
      !loop.prepare(ctx, self, mask, keepdim, outs, 1) ||
      !check(ctx, loop.elements() > 0, "hash_tensor: there is nothing to reduce")) {
    return;
  }
  if (is_floating(self.scalar_type())) {
    HashOf<double> operation(out);
    loop.run<double>(operation);
  } else {
    HashOf<int64_t> operation(out);
    loop.run<int64_t>(operation);
  }
}

// Counted in int64: a float stops counting at 2^24.
template <class C>
struct CountOf {
  explicit CountOf(Tensor& to) : out(to) {}

  Tensor& out;
  int64_t count[kReduceColumns];

  void start(int columns) {
    for (int k = 0; k < columns; ++k) count[k] = 0;
  }
  void row(const C* x, dim_t n) {
    for (dim_t i = 0; i < n; ++i) count[0] += x[i] != C(0);
  }
  void column(const C* x, int columns) {
    for (int k = 0; k < columns; ++k) count[k] += x[k] != C(0);
  }
  void store(const dim_t* offset, const dim_t* stride, int columns) {
    char* to = static_cast<char*>(out.data_ptr()) + offset[0] * static_cast<dim_t>(out.element_size());
    store_block(out.scalar_type(), to, stride[0], count, columns);
  }
};

static void count_nonzero(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
                          Tensor& out) {
  uint32_t mask;
  ReduceLoop loop;
  Tensor* outs[] = {&out};
  if (!reduced_dims(ctx, self, dims, mask) || !loop.prepare(ctx, self, mask, false, outs, 1)) return;
  dispatch_compute(ctx, self.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    CountOf<C> operation(out);
    loop.run<C>(operation);
  });
}

void count_nonzero_dim_int_list_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim,
                                    Tensor& out) {
  count_nonzero(ctx, self, dim, out);
}

void count_nonzero_out(KernelContext& ctx, const Tensor& self, Optional<int64_t> dim, Tensor& out) {
  if (!dim) return count_nonzero(ctx, self, nullopt, out);
  count_nonzero(ctx, self, ArrayRef<int64_t>(&dim.value(), 1), out);
}

}  // namespace penlight::portable
