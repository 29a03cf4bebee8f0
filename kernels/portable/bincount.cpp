// How often each whole number occurs, or the sum of the weights that come with it.
#include "dense_copy.h"
#include "kernels/common/checks.h"

namespace penlight::portable {

void bincount_out(KernelContext& ctx, const Tensor& self, const Optional<Tensor>& weights, int64_t minlength,
                  Tensor& out) {
  const dim_t count = self.numel();
  if (!check(ctx, self.dim() == 1 || count == 0, "bincount takes a tensor of one dimension") ||
      !check(ctx, minlength >= 0, "bincount: the least length is below 0") ||
      !check(ctx, !weights || (weights.value().dim() == 1 && weights.value().numel() == count),
             "bincount takes as many weights as numbers"))
    return;
  const int64_t* numbers = dense_copy<int64_t>(ctx, self);
  const double* shares = weights ? dense_copy(ctx, weights.value()) : nullptr;
  if (!ctx.ok()) return;
  constexpr int64_t kMost = INTPTR_MAX / 8;  // so that sizes in bytes do not overflow
  if (!check(ctx, minlength < kMost, "bincount: the least length is too large")) return;
  int64_t length = minlength;
  for (dim_t i = 0; i < count; ++i) {
    if (numbers[i] < 0 || numbers[i] >= kMost)
      return ctx.fail(Status::KernelFailed, "bincount: {} cannot be counted", numbers[i]);
    if (numbers[i] >= length) length = numbers[i] + 1;
  }
  const dim_t size = static_cast<dim_t>(length);
  if (!ctx.resize(out, SizesRef(&size, 1))) return;
  const auto add_up = [&](auto zero) {
    using C = decltype(zero);
    C* sums = scratch<C>(ctx, size);
    if (!sums) return;
    for (dim_t i = 0; i < size; ++i) sums[i] = zero;
    for (dim_t i = 0; i < count; ++i)
      sums[numbers[i]] += same_type<C, double> && shares ? static_cast<C>(shares[i]) : C(1);
    dense_store(sums, out);
  };
  is_floating(out.scalar_type()) ? add_up(0.0) : add_up(int64_t{0});
}

}  // namespace penlight::portable
