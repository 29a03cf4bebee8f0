// Linear layers of many rows, by Strassen's algorithm.
#include "linear.h"

namespace penlight::optimized {

Tensor& linear_strassen_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                            const Optional<Tensor>& residual, int64_t outputs, int64_t activation, double low,
                            double high, Tensor& out) {
  run_linear(ctx, input, weight, residual, outputs, activation, low, high, true, out);
  return out;
}

}  // namespace penlight::optimized
