#include <penlight/kernel.h>

using namespace penlight;

static Tensor& half_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[i] * 0.5f;
  }
  return out;
}

PENLIGHT_LIBRARY(project, "half(Tensor x) -> Tensor", half_out)
