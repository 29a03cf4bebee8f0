// As its author wrote it for ExecuTorch.
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <executorch/runtime/kernel/kernel_includes.h>

namespace torch {
namespace executor {
namespace native {

using Tensor = executorch::aten::Tensor;
using executorch::aten::optional;

Tensor& custom_linear_out(KernelRuntimeContext& ctx, const Tensor& weight, const Tensor& input,
                          const optional<Tensor>& bias, Tensor& out) {
  ET_KERNEL_CHECK(ctx, weight.dim() == 2 && input.dim() == 2, InvalidArgument, out);
  ET_KERNEL_CHECK_MSG(ctx, weight.size(1) == input.size(1), InvalidArgument, out,
                      "inner sizes %zd and %zd differ", (ssize_t)weight.size(1), (ssize_t)input.size(1));
  ET_KERNEL_CHECK(ctx, weight.scalar_type() == input.scalar_type(), InvalidArgument, out);
  ET_KERNEL_CHECK(ctx, !bias.has_value() || bias.value().scalar_type() == input.scalar_type(),
                  InvalidArgument, out);
  Tensor::SizesType sizes[2] = {input.size(0), weight.size(0)};
  ET_KERNEL_CHECK(ctx, resize_tensor(out, {sizes, 2}) == Error::Ok, InvalidArgument, out);
  ET_SWITCH_REAL_TYPES(input.scalar_type(), ctx, "custom_linear.out", CTYPE, [&]() {
    const CTYPE* w = weight.const_data_ptr<CTYPE>();
    const CTYPE* x = input.const_data_ptr<CTYPE>();
    CTYPE* y = out.mutable_data_ptr<CTYPE>();
    for (int64_t n = 0; n < sizes[0]; ++n) {
      for (int64_t o = 0; o < sizes[1]; ++o) {
        CTYPE sum = bias.has_value() ? bias.value().const_data_ptr<CTYPE>()[o] : CTYPE(0);
        for (int64_t i = 0; i < weight.size(1); ++i)
          sum += w[o * weight.size(1) + i] * x[n * weight.size(1) + i];
        y[n * sizes[1] + o] = sum;
      }
    }
  });
  return out;
}

// Without a context, and with scratch from one of its own.
std::tuple<Tensor&, Tensor&> min_max_out(const Tensor& input, Tensor& low, Tensor& high) {
  KernelRuntimeContext context{};
  resize_tensor(low, executorch::aten::ArrayRef<int32_t>());
  resize_tensor(high, executorch::aten::ArrayRef<int32_t>());
  Result<void*> copied = context.allocate_temp(input.nbytes());
  if (!copied.ok()) return {low, high};
  std::memcpy(*copied, input.const_data_ptr(), input.nbytes());
  ET_SWITCH_FLOATH_TYPES(input.scalar_type(), context, "min_max.out", CTYPE, [&] {
    const CTYPE* values = static_cast<const CTYPE*>(copied.get());
    auto found = std::minmax_element(values, values + input.numel());
    *low.mutable_data_ptr<CTYPE>() = *found.first;
    *high.mutable_data_ptr<CTYPE>() = *found.second;
  });
  return {low, high};
}

}  // namespace native
}  // namespace executor
}  // namespace torch

EXECUTORCH_LIBRARY(etop, "custom_linear.out", torch::executor::native::custom_linear_out);
EXECUTORCH_LIBRARY(etop, "min_max.out", torch::executor::native::min_max_out);
