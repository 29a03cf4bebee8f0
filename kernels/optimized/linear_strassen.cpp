// Linear layers of many rows, by Strassen's algorithm.
#include "linear.h"

namespace penlight::optimized {

Tensor& linear_strassen_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                                   const Optional<Tensor>& residual, int64_t outputs,
                                   ArrayRef<int64_t> direct, int64_t activation, double low, double high,
                                   Tensor& out) {
  const Blocks blocks = {direct.data(), static_cast<dim_t>(direct.size())};
  run_linear(ctx, input, weight, residual, outputs, activation, low, high, &blocks, out);
  return out;
}

}  // namespace penlight::optimized
