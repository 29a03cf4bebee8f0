// weight [o, i], input [n, i], bias [o] or none; result [n, o].
#include <penlight/kernel.h>

using namespace penlight;

Tensor& custom_linear_out(KernelContext& ctx, const Tensor& weight, const Tensor& input,
                          const Optional<Tensor>& bias, Tensor& out) {
  if (weight.dim() != 2 || input.dim() != 2 || weight.size(1) != input.size(1)) {
    ctx.fail(Status::InvalidArgument, "custom_linear takes [o, i] and [n, i]");
    return out;
  }
  if (weight.scalar_type() != ScalarType::Float || input.scalar_type() != ScalarType::Float) {
    ctx.fail(Status::InvalidArgument, "custom_linear takes float32, got {}", dtype_name(input.scalar_type()));
    return out;
  }
  if (bias && (bias->scalar_type() != ScalarType::Float || bias->numel() != weight.size(0))) {
    ctx.fail(Status::InvalidArgument, "custom_linear takes a bias of float32, [o]");
    return out;
  }
  const dim_t sizes[] = {input.size(0), weight.size(0)};
  if (!ctx.resize(out, sizes)) return out;
  const float* w = weight.const_data_ptr<float>();
  const float* x = input.const_data_ptr<float>();
  const float* b = bias.has_value() ? bias->const_data_ptr<float>() : nullptr;
  float* y = out.mutable_data_ptr<float>();
  const dim_t inner = weight.size(1);
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t o = 0; o < sizes[1]; ++o) {
      float sum = b ? b[o] : 0.0f;
      for (dim_t i = 0; i < inner; ++i) sum += w[o * inner + i] * x[n * inner + i];
      y[n * sizes[1] + o] = sum;
    }
  }
  return out;
}

PENLIGHT_LIBRARY(testing, "custom_linear(Tensor weight, Tensor input, Tensor? bias) -> Tensor",
                 custom_linear_out, shapes("[o,i], [n,i], [o]? -> [n,o]"))
