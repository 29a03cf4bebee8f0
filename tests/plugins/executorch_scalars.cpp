// A kernel file for ExecuTorch that reads numbers with its functions and macro.
#include <executorch/kernels/portable/cpu/scalar_utils.h>
#include <executorch/runtime/kernel/kernel_includes.h>

namespace torch {
namespace executor {
namespace native {

using exec_aten::Scalar;
using exec_aten::Tensor;

// The number, as int8_t, uint64_t, float, Half, double and bool see it: -1 where they cannot.
Tensor& seen_out(KernelRuntimeContext& ctx, const Scalar& a, Tensor& out) {
  double* values = out.mutable_data_ptr<double>();
  ET_KERNEL_CHECK(ctx, out.numel() == 7, InvalidArgument, out);
  int8_t tiny = 0;
  uint64_t whole = 0;
  float single = 0;
  exec_aten::Half half;
  double real = 0;
  bool truth = false;
  values[0] = utils::extract_scalar(a, &tiny) ? tiny : -1;
  values[1] = utils::extract_scalar(a, &whole) ? static_cast<double>(whole) : -1;
  values[2] = utils::extract_scalar(a, &single) ? single : -1;
  values[3] = utils::extract_scalar(a, &half) ? static_cast<float>(half) : -1;
  values[4] = utils::extract_scalar(a, &real) ? real : -1;
  values[5] = utils::extract_scalar(a, &truth) ? truth : -1;
  values[6] = static_cast<double>(utils::get_scalar_dtype(a));
  return out;
}

Tensor& filled_out(KernelRuntimeContext& ctx, const Tensor& x, const Scalar& value, Tensor& out) {
  ET_KERNEL_CHECK(ctx, resize_tensor(out, x.sizes()) == Error::Ok, InvalidArgument, out);
  ET_SWITCH_REAL_TYPES(out.scalar_type(), ctx, "filled.out", CTYPE, [&]() {
    CTYPE number;
    ET_EXTRACT_SCALAR(value, number);
    for (ssize_t i = 0; i < out.numel(); ++i) out.mutable_data_ptr<CTYPE>()[i] = number;
  });
  return out;
}

}  // namespace native
}  // namespace executor
}  // namespace torch

EXECUTORCH_LIBRARY(etscalars, "seen.out", torch::executor::native::seen_out);
EXECUTORCH_LIBRARY(etscalars, "filled.out", torch::executor::native::filled_out);
