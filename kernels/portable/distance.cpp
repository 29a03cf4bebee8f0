// Distances between rows: all pairs of two sets (cdist), all pairs within one (pdist).
#include <math.h>
#include <penlight/kernel.h>

#include "kernels/common/checks.h"
#include "kernels/common/convert.h"
#include "kernels/common/math.h"
#include "kernels/common/view.h"

namespace penlight::portable {

namespace {

// Of two rows, whose columns are a step apart.
template <class S>
Compute<S> distance(const S* a, dim_t a_step, const S* b, dim_t b_step, dim_t count, double p) {
  using T = Compute<S>;
  // add(total, difference) for each column.
  const auto total_of = [&](auto add) {
    T total = 0;
    for (dim_t i = 0; i < count; ++i)
      total = add(total, math::fabs(static_cast<T>(a[i * a_step]) - static_cast<T>(b[i * b_step])));
    return total;
  };
  if (p == 0) return total_of([](T total, T d) { return total + (d != 0 ? T(1) : T(0)); });
  if (p == 1) return total_of([](T total, T d) { return total + d; });
  if (p == 2) return math::sqrt(total_of([](T total, T d) { return total + d * d; }));
  if (isinf(p)) {
    bool is_number = true;  // beside the comparison, which then is no branch
    const T most = total_of([&](T total, T d) {
      is_number &= d == d;
      return d > total ? d : total;
    });
    return is_number ? most : static_cast<T>(NAN);
  }
  const auto add_power = [p](T total, T d) { return total + static_cast<T>(pow(d, p)); };
  return static_cast<T>(pow(total_of(add_power), 1 / p));
}

bool check_power(KernelContext& ctx, double p) {
  return check(ctx, p >= 0, "the power of a distance cannot be negative");
}

}  // namespace

// x1 [..., P, M] and x2 [..., R, M] to [..., P, R]; batches broadcast. compute_mode
// chooses between algorithms of different accuracy elsewhere; there is one here.
void cdist_forward_out(KernelContext& ctx, const Tensor& x1, const Tensor& x2, double p, Optional<int64_t>,
                       Tensor& out) {
  if (x1.dim() < 2 || x2.dim() < 2 || x1.size(-1) != x2.size(-1))
    return ctx.fail("rows of x1 ({} dimensions) and x2 ({} dimensions) do not match", x1.dim(), x2.dim());
  if (!check_power(ctx, p) || !check_same_dtype(ctx, x1, x2) || !check_same_dtype(ctx, x1, out)) return;
  const size_t batch1 = static_cast<size_t>(x1.dim() - 2), batch2 = static_cast<size_t>(x2.dim() - 2);
  Shape shape(x1.sizes().slice(0, batch1));
  if (!broadcast_into(ctx, shape, x2.sizes().slice(0, batch2))) return;
  const dim_t rows = x1.size(-2), columns = x2.size(-2), length = x1.size(-1);
  const auto batch_of = [&](dim_t height, dim_t width) {
    Shape sizes = shape;
    sizes.append(height);
    sizes.append(width);
    return sizes;
  };
  View from1 = view_of(x1), from2 = view_of(x2);
  if (!ctx.resize(out, batch_of(rows, columns)) ||
      !expand_view(ctx, from1, SizesRef(batch_of(rows, length))) ||
      !expand_view(ctx, from2, SizesRef(batch_of(columns, length))))
    return;
  const View results = view_of(out);
  dispatch<Floats>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    for_each_place({&results, &from1, &from2}, shape.dim, [&](char* const* at) {
      S* const to = reinterpret_cast<S*>(at[0]);
      const S *a = reinterpret_cast<const S*>(at[1]), *b = reinterpret_cast<const S*>(at[2]);
      for (dim_t i = 0; i < rows; ++i) {
        for (dim_t j = 0; j < columns; ++j) {
          to[i * out.stride(-2) + j * out.stride(-1)] = static_cast<S>(distance(
              a + i * x1.stride(-2), x1.stride(-1), b + j * x2.stride(-2), x2.stride(-1), length, p));
        }
      }
    });
  });
}

// self [N, M] to the N (N - 1) / 2 distances of each row to those after it.
void pdist_forward_out(KernelContext& ctx, const Tensor& self, double p, Tensor& out) {
  if (!check_rank(ctx, self, 2, "self") || !check_power(ctx, p) || !check_same_dtype(ctx, self, out)) return;
  const dim_t rows = self.size(0);
  const dim_t sizes[] = {rows > 1 ? rows * (rows - 1) / 2 : 0};
  if (!ctx.resize(out, sizes)) return;
  dispatch<Floats>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    const S* data = self.const_data_ptr<S>();
    dim_t at = 0;
    for (dim_t i = 0; i < rows; ++i) {
      for (dim_t j = i + 1; j < rows; ++j) {
        out.mutable_data_ptr<S>()[at++ * out.stride(0)] =
            static_cast<S>(distance(data + i * self.stride(0), self.stride(1), data + j * self.stride(0),
                                    self.stride(1), self.size(1), p));
      }
    }
  });
}

}  // namespace penlight::portable
