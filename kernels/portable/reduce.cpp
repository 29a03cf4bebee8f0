// Sums, means, products, any and all, counts.
#include "kernels/common/reduce.h"

#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

using Dims = Optional<IntArrayRef>;  // none: all of them

constexpr auto kProduct = PENLIGHT_OF_2(math::times(a, b));
// NaN is not zero, hence true.
constexpr auto kAny = PENLIGHT_OF_2(static_cast<T>(int{a != T(0)} | int{b != T(0)}));
constexpr auto kAll = PENLIGHT_OF_2(static_cast<T>(int{a != T(0)} & int{b != T(0)}));

// dispatch_compute() for the sums, products and counts that complex numbers have too.
template <class Body>
void dispatch_number(KernelContext& ctx, ScalarType type, Body&& body) {
  if (!is_complex(type)) {
    dispatch_compute(ctx, type, body);
  } else if constexpr (kComplexSelected) {
    body(TypeTag<Complex>{});
  }
}

// Folded in the compute type of `type`.
template <class Function>
void fold(KernelContext& ctx, const Tensor& self, Dims dims, bool keepdim, ScalarType type, int nothing,
          Function function, Tensor& out, bool empty_is_all = true) {
  ReduceLoop loop;
  if (!loop.prepare(ctx, self, dims, keepdim, out, nullptr, false, empty_is_all)) return;
  dispatch_number(ctx, type, [&](auto tag) {
    using C = typename decltype(tag)::type;
    loop.run<C>(fold_of(out, C(nothing), function));
  });
}

enum Total : uint8_t { kSum, kMean };

// Elements become out's dtype first, as in ATen: a sum of floats given as int64
// is a sum of integers.
template <class Map>
void total(KernelContext& ctx, const Tensor& self, Dims dims, bool keepdim, Total kind, Map map,
           Tensor& out) {
  ReduceLoop loop;
  if (!loop.prepare(ctx, self, dims, keepdim, out)) return;
  dispatch_number(ctx, out.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    loop.run<C>(sum_of<C>(out, map, [&](auto sum) {
      return kind == kMean ? static_cast<C>(sum) / static_cast<C>(loop.elements()) : static_cast<C>(sum);
    }));
  });
}

void product(KernelContext& ctx, const Tensor& self, Dims dims, bool keepdim, Tensor& out) {
  if (out.scalar_type() == ScalarType::Bool)
    return fold(ctx, self, dims, keepdim, self.scalar_type(), 1, kAll, out);
  fold(ctx, self, dims, keepdim, out.scalar_type(), 1, kProduct, out);
}

}  // namespace

void sum_int_list_out(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, bool keepdim,
                      Optional<ScalarType>, Tensor& out) {
  if (out.scalar_type() != ScalarType::Bool) return total(ctx, self, dims, keepdim, kSum, kConvert, out);
  fold(ctx, self, dims, keepdim, self.scalar_type(), 0, kAny, out);
}

void sum_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  sum_int_list_out(ctx, self, nullopt, false, nullopt, out);
}

void nansum_out(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dim, bool keepdim,
                Optional<ScalarType>, Tensor& out) {
  if (!is_floating(self.scalar_type())) return sum_int_list_out(ctx, self, dim, keepdim, nullopt, out);
  total(ctx, self, dim, keepdim, kSum, PENLIGHT_OF_1(x == x ? x : T(0)), out);
}

// Calls no fold, so that a build for a program with means alone has none.
void mean_out(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, bool keepdim,
              Optional<ScalarType>, Tensor& out) {
  const ScalarType type = out.scalar_type();
  if (is_floating(type) || is_complex(type)) return total(ctx, self, dims, keepdim, kMean, kConvert, out);
  ctx.fail("a mean is floating point, out has dtype {}", dtype_name(type));
}

void mean_dtype_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  mean_out(ctx, self, nullopt, false, nullopt, out);
}

void prod_int_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Optional<ScalarType>,
                  Tensor& out) {
  product(ctx, self, dims_of(dim), keepdim, out);
}

void prod_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  product(ctx, self, nullopt, false, out);
}

// An empty list reduces nothing here: each element is its own any().
void any_dims_out(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, bool keepdim,
                  Tensor& out) {
  fold(ctx, self, dims, keepdim, self.scalar_type(), 0, kAny, out, false);
}

void all_dims_out(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, bool keepdim,
                  Tensor& out) {
  fold(ctx, self, dims, keepdim, self.scalar_type(), 1, kAll, out, false);
}

// Kernels of one fold: along a dimension, of all elements.
#define PENLIGHT_LOGICAL(along_dim, of_all, along_dims)                                            \
  void along_dim(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& out) { \
    along_dims(ctx, self, dims_of(dim), keepdim, out);                                             \
  }                                                                                                \
  void of_all(KernelContext& ctx, const Tensor& self, Tensor& out) {                               \
    along_dims(ctx, self, nullopt, false, out);                                                    \
  }
PENLIGHT_LOGICAL(any_out, any_all_out, any_dims_out)
PENLIGHT_LOGICAL(all_out, all_all_out, all_dims_out)

// Counted in int64: a float stops counting at 2^24.
void count_nonzero_dim_int_list_out(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims,
                                    Tensor& out) {
  ReduceLoop loop;
  if (!loop.prepare(ctx, self, dims, false, out)) return;
  dispatch_compute(ctx, self.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    loop.run<C>(sum_of<C>(out, PENLIGHT_OF_1(x != T(0) ? T(1) : T(0)),
                          [](auto total) { return static_cast<int64_t>(total); }));
  });
}

void count_nonzero_out(KernelContext& ctx, const Tensor& self, Optional<int64_t> dim, Tensor& out) {
  count_nonzero_dim_int_list_out(ctx, self, dims_of(dim), out);
}

// The bits of 64-bit numbers, combined by exclusive or: the result is bits too, in an output of uint64.
template <class To, class From>
static To bits_as(From x) {
  To bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
constexpr auto kXor = PENLIGHT_OF_2(bits_as<T>(bits_as<int64_t>(a) ^ bits_as<int64_t>(b)));

template <class C>
struct HashOf : FoldOf<C, decltype(kXor)> {
  void store(const dim_t* offset, const dim_t* stride, int columns) {
    int64_t bits[kReduceColumns];
    memcpy(bits, this->value, sizeof bits);
    store_block(this->out, offset[0], stride[0], bits, columns);
  }
};

void hash_tensor_out(KernelContext& ctx, const Tensor& self, IntArrayRef dim, bool keepdim, int64_t mode,
                     Tensor& out) {
  ReduceLoop loop;
  if (!check(ctx, mode == 0, "hash_tensor: the only mode is 0") ||
      !loop.prepare(ctx, self, dim, keepdim, out) ||
      !check(ctx, loop.elements() > 0, "hash_tensor: there is nothing to reduce"))
    return;
  if (!is_floating(self.scalar_type())) return loop.run<int64_t>(HashOf<int64_t>{{out, 0, kXor}});
  loop.run<double>(HashOf<double>{{out, 0, kXor}});
}

}  // namespace penlight::portable
