// Vector norms and logsumexp.
#include <math.h>

#include "kernels/common/reduce.h"

namespace penlight::portable {

// Elements become out's dtype first, which is floating.
void norm_dtype_out(KernelContext& ctx, const Tensor& self, Optional<Scalar> order,
                    Optional<IntArrayRef> dims, bool keepdim, Optional<ScalarType>, Tensor& out) {
  const double p = order.value_or(Scalar(2)).to<double>();
  ReduceLoop loop;
  if (!is_floating(out.scalar_type()))
    return ctx.fail("a norm is floating point, out has dtype {}", dtype_name(out.scalar_type()));
  if (!loop.prepare(ctx, self, dims, keepdim, out)) return;
  if (self.numel() == 0 && (p < 0 || p == __builtin_inf()) && loop.elements() == 0)
    return ctx.fail("this norm of 0 elements is not defined");
  dispatch_compute(ctx, out.scalar_type(), [&](auto tag) {
    using C = typename decltype(tag)::type;
    if constexpr (!same_type<C, int64_t>) {
      const auto sum = [&](auto map, auto finish) { loop.run<C>(sum_of<C>(out, map, finish)); };
      // The extreme of absolute values, or NaN.
      const auto extreme = [&](auto before, C nothing) {
        loop.run<C>(fold_of(out, nothing, [=](C a, C b) {
          const C size = math::fabs(b);
          return (before(size, a) | (size != size)) ? size : a;
        }));
      };
      const auto itself = [](auto total) { return static_cast<C>(total); };
      const C power = static_cast<C>(p), inverse = static_cast<C>(1 / p);
      if (p == 0) {
        sum([](C x) { return x != C(0) ? C(1) : C(0); }, itself);
      } else if (p == 1 || loop.elements() == 1) {
        // Of one element no power, which may be too large or too small, need be taken.
        sum([](C x) { return math::fabs(x); }, itself);
      } else if (p == 2) {
        sum([](C x) { return x * x; }, [](auto total) { return math::sqrt(static_cast<C>(total)); });
      } else if (p == __builtin_inf()) {
        extreme([](C size, C a) { return size > a; }, C(0));
      } else if (p == -__builtin_inf()) {
        extreme([](C size, C a) { return size < a; }, static_cast<C>(__builtin_inf()));
      } else {
        sum([power](C x) { return math::pow(math::fabs(x), power); },
            [inverse](auto total) { return math::pow(static_cast<C>(total), inverse); });
      }
    }
  });
}

void norm_out(KernelContext& ctx, const Tensor& self, Optional<Scalar> p, IntArrayRef dim, bool keepdim,
              Tensor& out) {
  norm_dtype_out(ctx, self, p, dim, keepdim, nullopt, out);
}

void norm_scalar_opt_dtype_out(KernelContext& ctx, const Tensor& self, Optional<Scalar> p, ScalarType,
                               Tensor& out) {
  norm_dtype_out(ctx, self, p, nullopt, false, nullopt, out);
}

void norm_scalar_out(KernelContext& ctx, const Tensor& self, Scalar p, Tensor& out) {
  norm_dtype_out(ctx, self, p, nullopt, false, nullopt, out);
}

// The greatest element so far, and the sum of exp(x - greatest): no exponential
// is of a positive number, and infinities come out as themselves.
struct LogSumExpOf {
  explicit LogSumExpOf(Tensor& to) : out(to) {}

  Tensor& out;
  double greatest[kReduceColumns], sum[kReduceColumns];

  void start(int columns) {
    for (int k = 0; k < columns; ++k) {
      greatest[k] = -__builtin_inf();
      sum[k] = 0;
    }
  }

  void add(int k, double x) {
    if (x > greatest[k]) {
      sum[k] = sum[k] * exp(greatest[k] - x) + 1;
      greatest[k] = x;
    } else {
      sum[k] += x == greatest[k] ? 1 : exp(x - greatest[k]);
    }
  }

  void row(const double* x, dim_t count) {
    for (dim_t i = 0; i < count; ++i) add(0, x[i]);
  }

  void column(const double* x, int columns) {
    for (int k = 0; k < columns; ++k) add(k, x[k]);
  }

  void store(const dim_t* offset, const dim_t* stride, int columns) {
    for (int k = 0; k < columns; ++k) sum[k] = log(sum[k]) + greatest[k];
    store_block(out, offset[0], stride[0], sum, columns);
  }
};

void logsumexp_out(KernelContext& ctx, const Tensor& self, IntArrayRef dim, bool keepdim, Tensor& out) {
  ReduceLoop loop;
  if (loop.prepare(ctx, self, dim, keepdim, out)) loop.run<double>(LogSumExpOf(out));
}

}  // namespace penlight::portable
