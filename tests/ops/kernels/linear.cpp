#include <penlight/kernel.h>

using namespace penlight;

Tensor& custom_linear_out(KernelContext& ctx, const Tensor& weight, const Tensor& input,
                          const Optional<Tensor>& bias, Tensor& out) {
  const dim_t sizes[] = {input.size(0), weight.size(0)};
  if (!ctx.resize(out, {sizes, 2})) return out;
  const ScalarType dtype = ScalarType::Float;
  if (input.scalar_type() != dtype || weight.scalar_type() != dtype ||
      (bias && bias->scalar_type() != dtype)) {
    ctx.decline();
    return out;
  }
  const float* w = weight.const_data_ptr<float>();
  const float* x = input.const_data_ptr<float>();
  float* y = out.mutable_data_ptr<float>();
  const dim_t width = weight.size(1);
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t o = 0; o < sizes[1]; ++o) {
      float sum = bias.has_value() ? bias->const_data_ptr<float>()[o] : 0.0f;
      for (dim_t i = 0; i < width; ++i) sum += w[o * width + i] * x[n * width + i];
      y[n * sizes[1] + o] = sum;
    }
  }
  return out;
}

PENLIGHT_LIBRARY(testlin, "custom_linear(Tensor weight, Tensor input, Tensor? bias) -> Tensor",
                 custom_linear_out, shapes("[o,i], [n,i], [o]? -> [n,o]"))
