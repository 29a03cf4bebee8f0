// Distances between rows: all pairs of two sets (cdist), all pairs within one (pdist).
#include <math.h>
#include <penlight/kernel.h>

#include "kernels/common/checks.h"
#include "kernels/common/convert.h"
#include "kernels/common/math.h"

namespace penlight::portable {

namespace {

// One row of a matrix: `data` with `step` from one column to the next.
template <class S>
struct Row {
  const S* data;
  dim_t step;
};

template <class S>
Compute<S> distance(Row<S> a, Row<S> b, dim_t count, double p) {
  using T = Compute<S>;
  T total = 0;
  const auto difference = [&](dim_t i) {
    return math::fabs(static_cast<T>(a.data[i * a.step]) - static_cast<T>(b.data[i * b.step]));
  };
  if (p == 0) {
    for (dim_t i = 0; i < count; ++i) total += difference(i) != 0 ? T(1) : T(0);
    return total;
  }
  if (p == 1) {
    for (dim_t i = 0; i < count; ++i) total += difference(i);
    return total;
  }
  if (p == 2) {
    for (dim_t i = 0; i < count; ++i) total += difference(i) * difference(i);
    return static_cast<T>(sqrt(total));
  }
  if (isinf(p)) {
    for (dim_t i = 0; i < count; ++i) {
      const T d = difference(i);
      total = d > total || d != d ? d : total;
    }
    return total;
  }
  for (dim_t i = 0; i < count; ++i) total += static_cast<T>(pow(difference(i), p));
  return static_cast<T>(pow(total, 1 / p));
}

bool check_power(KernelContext& ctx, double p) {
  if (p >= 0) return true;
  return ctx.refuse(Status::InvalidArgument, "the power of a distance cannot be negative");
}

}  // namespace

// x1 [..., P, M] and x2 [..., R, M] to [..., P, R]; batches broadcast. compute_mode
// chooses between algorithms of different accuracy elsewhere; there is one here.
Tensor& cdist_forward_out(KernelContext& ctx, const Tensor& x1, const Tensor& x2, double p,
                          Optional<int64_t> compute_mode, Tensor& out) {
  (void)compute_mode;
  if (x1.dim() < 2 || x2.dim() < 2 || x1.size(-1) != x2.size(-1))
    return ctx.fail(out, Status::InvalidArgument,
                    "rows of x1 ({} dimensions) and x2 ({} dimensions) do not match", x1.dim(), x2.dim());
  if (!check_power(ctx, p) || !check_same_dtype(ctx, x1, x2) || !check_same_dtype(ctx, x1, out)) return out;
  const dim_t rank = x1.dim() > x2.dim() ? x1.dim() : x2.dim();
  dim_t sizes[kMaxDim], batches = 1;
  for (dim_t d = 3; d <= rank; ++d) {
    const dim_t a = d <= x1.dim() ? x1.size(-d) : 1, b = d <= x2.dim() ? x2.size(-d) : 1;
    if (a != b && a != 1 && b != 1)
      return ctx.fail(out, Status::InvalidArgument, "batches of {} and {} cannot be broadcast", a, b);
    sizes[rank - d] = a == 1 ? b : a;
    batches *= sizes[rank - d];
  }
  const dim_t rows = sizes[rank - 2] = x1.size(-2), columns = sizes[rank - 1] = x2.size(-2);
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank)))) return out;
  dispatch<Floats>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    for (dim_t batch = 0; batch < batches; ++batch) {
      const S* a = x1.const_data_ptr<S>();
      const S* b = x2.const_data_ptr<S>();
      S* to = out.mutable_data_ptr<S>();
      dim_t rest = batch;
      for (dim_t d = 3; d <= rank; ++d) {
        const dim_t index = rest % sizes[rank - d];
        rest /= sizes[rank - d];
        if (d <= x1.dim() && x1.size(-d) != 1) a += index * x1.stride(-d);
        if (d <= x2.dim() && x2.size(-d) != 1) b += index * x2.stride(-d);
        to += index * out.stride(-d);
      }
      for (dim_t i = 0; i < rows; ++i) {
        for (dim_t j = 0; j < columns; ++j) {
          to[i * out.stride(-2) + j * out.stride(-1)] =
              static_cast<S>(distance<S>({a + i * x1.stride(-2), x1.stride(-1)},
                                         {b + j * x2.stride(-2), x2.stride(-1)}, x1.size(-1), p));
        }
      }
    }
  });
  return out;
}

// self [N, M] to the N (N - 1) / 2 distances of each row to those after it.
Tensor& pdist_forward_out(KernelContext& ctx, const Tensor& self, double p, Tensor& out) {
  if (!check_rank(ctx, self, 2, "self") || !check_power(ctx, p) || !check_same_dtype(ctx, self, out))
    return out;
  const dim_t rows = self.size(0);
  const dim_t sizes[] = {rows > 1 ? rows * (rows - 1) / 2 : 0};
  if (!ctx.resize(out, sizes)) return out;
  dispatch<Floats>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    const S* data = self.const_data_ptr<S>();
    dim_t at = 0;
    for (dim_t i = 0; i < rows; ++i) {
      for (dim_t j = i + 1; j < rows; ++j) {
        out.mutable_data_ptr<S>()[at++ * out.stride(0)] =
            static_cast<S>(distance<S>({data + i * self.stride(0), self.stride(1)},
                                       {data + j * self.stride(0), self.stride(1)}, self.size(1), p));
      }
    }
  });
  return out;
}

}  // namespace penlight::portable
