// An operator of this project: x times its sine.
#include <math.h>
#include <penlight/kernel.h>

using namespace penlight;

static Tensor& swing_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  if (x.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float) {
    ctx.fail(Status::NotSupported, "swing takes float32, not {}", dtype_name(x.scalar_type()));
    return out;
  }
  const float* from = x.const_data_ptr<float>();
  float* to = out.mutable_data_ptr<float>();
  for (dim_t i = 0; i < x.numel(); ++i) to[i] = from[i] * sinf(from[i]);
  return out;
}

PENLIGHT_LIBRARY(example, "swing(Tensor x) -> Tensor", swing_out)
