// Distances between rows: all pairs of two sets (cdist), all pairs within one (pdist).
#include <math.h>

#include "kernels/common/matrices.h"

namespace penlight::portable {

// Of two rows.
template <class T>
static T distance(const T* a, const T* b, dim_t count, double p) {
  // add(total, difference) for each column, in as many totals as compilers make vectors of, which join()
  // makes one of.
  const auto fold = [&](auto add, auto join) {
    constexpr int kLanes = 16;
    dim_t i = 0;
    if (count < kLanes) {
      T total = 0;
      for (; i < count; ++i) total = add(total, math::fabs(a[i] - b[i]));
      return total;
    }
    T lanes[kLanes] = {};
    for (; i + kLanes <= count; i += kLanes) {
      for (int k = 0; k < kLanes; ++k) lanes[k] = add(lanes[k], math::fabs(a[i + k] - b[i + k]));
    }
    for (int k = 0; i < count; ++i, ++k) lanes[k] = add(lanes[k], math::fabs(a[i] - b[i]));
    for (int k = 0; k < kLanes / 2; ++k) lanes[k] = join(lanes[k], lanes[k + kLanes / 2]);
    for (int k = 0; k < kLanes / 4; ++k) lanes[k] = join(lanes[k], lanes[k + kLanes / 4]);
    return join(join(lanes[0], lanes[1]), join(lanes[2], lanes[3]));
  };
  const auto total_of = [&](auto add) { return fold(add, [](T x, T y) { return x + y; }); };
  if (p == 0) return total_of([](T total, T d) { return total + (d != 0 ? T(1) : T(0)); });
  if (p == 1) return total_of([](T total, T d) { return total + d; });
  if (p == 2) return math::sqrt(total_of([](T total, T d) { return total + d * d; }));
  if (isinf(p)) {
    const auto larger = [](T total, T d) {
      const T most = d > total ? d : total;
      return d != d ? d : most;  // a branch for these alone, which can be foreseen
    };
    return fold(larger, larger);
  }
  const auto add_power = [p](T total, T d) { return total + static_cast<T>(pow(d, p)); };
  return static_cast<T>(pow(total_of(add_power), 1 / p));
}

static bool check_power(KernelContext& ctx, double p) {
  return check(ctx, p >= 0, "the power of a distance cannot be negative");
}

// x1 [..., P, M] and x2 [..., R, M] to [..., P, R]; batches broadcast. compute_mode
// chooses between algorithms of different accuracy elsewhere; there is one here.
void cdist_forward_out(KernelContext& ctx, const Tensor& x1, const Tensor& x2, double p, Optional<int64_t>,
                       Tensor& out) {
  if (x1.dim() < 2 || x2.dim() < 2 || x1.size(-1) != x2.size(-1))
    return ctx.fail("rows of x1 ({} dimensions) and x2 ({} dimensions) do not match", x1.dim(), x2.dim());
  if (!check_power(ctx, p) || !check_same_dtype(ctx, x1, x2) || !check_same_dtype(ctx, x1, out)) return;
  Shape shape(x1.sizes().slice(0, static_cast<size_t>(x1.dim() - 2)));
  if (!broadcast_into(ctx, shape, x2.sizes().slice(0, static_cast<size_t>(x2.dim() - 2)))) return;
  const dim_t rows = x1.size(-2), columns = x2.size(-2), length = x1.size(-1);
  dispatch_real(ctx, out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Batch batch(ctx, shape);
    const T *a = batch.read<T>(x1, 2), *b = batch.read<T>(x2, 2);
    T* to = batch.write<T>(out, {rows, columns});
    batch.for_each([&] {
      T* one = to;
      for (dim_t i = 0; i < rows; ++i) {
        for (dim_t j = 0; j < columns; ++j) *one++ = distance(a + i * length, b + j * length, length, p);
      }
    });
  });
}

// self [N, M] to the N (N - 1) / 2 distances of each row to those after it.
void pdist_forward_out(KernelContext& ctx, const Tensor& self, double p, Tensor& out) {
  if (!check_rank(ctx, self, 2, "self") || !check_power(ctx, p) || !check_same_dtype(ctx, self, out)) return;
  const dim_t rows = self.size(0), length = self.size(1);
  const dim_t sizes[] = {rows > 1 ? rows * (rows - 1) / 2 : 0};
  if (!ctx.resize(out, sizes)) return;
  dispatch_real(ctx, out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T* data = dense_copy<T>(ctx, self);
    T *const all = scratch<T>(ctx, sizes[0]), *to = all;
    if (!ctx.ok()) return;
    for (dim_t i = 0; i < rows; ++i) {
      for (dim_t j = i + 1; j < rows; ++j) *to++ = distance(data + i * length, data + j * length, length, p);
    }
    dense_store(all, out);
  });
}

}  // namespace penlight::portable
