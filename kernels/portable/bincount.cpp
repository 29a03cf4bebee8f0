// How often each whole number occurs, or the sum of the weights that come with it.
#include "kernels/common/checks.h"
#include "span.h"

namespace penlight::portable {

void bincount_out(KernelContext& ctx, const Tensor& self, const Optional<Tensor>& weights, int64_t minlength,
                  Tensor& out) {
  const dim_t count = self.numel();
  if (!check(ctx, self.dim() == 1 || count == 0, "bincount takes a tensor of one dimension") ||
      !check(ctx, minlength >= 0, "bincount: the least length is below 0") ||
      !check(ctx, !weights || (weights.value().dim() == 1 && weights.value().numel() == count),
             "bincount takes as many weights as numbers")) {
    return;
  }
  int64_t* numbers = ctx.allocate_scratch_array<int64_t>(static_cast<size_t>(count) + 1);
  double* shares = weights ? ctx.allocate_scratch_array<double>(static_cast<size_t>(count) + 1) : nullptr;
  if (!ctx.ok()) return;
  Span(self, 0, self.dim()).load(numbers, self.const_data_ptr(), 0);
  if (weights) Span(weights.value(), 0, 1).load(shares, weights.value().const_data_ptr(), 0);
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
  const Span bins(out, 0, 1);
  const auto add_up = [&](auto zero) {
    using C = decltype(zero);
    C* sums = ctx.allocate_scratch_array<C>(static_cast<size_t>(size) + 1);
    if (!sums) return;
    for (dim_t i = 0; i < size; ++i) sums[i] = zero;
    for (dim_t i = 0; i < count; ++i)
      sums[numbers[i]] += same_type<C, double> && shares ? static_cast<C>(shares[i]) : C(1);
    bins.store(sums, out.mutable_data_ptr(), 0);
  };
  is_floating(out.scalar_type()) ? add_up(0.0) : add_up(int64_t{0});
}

}  // namespace penlight::portable
