// The places of elements that are not zero: a result whose size depends on data.
#include <penlight/kernel.h>

using namespace penlight;

Tensor& places_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  dim_t count = 0;
  for (dim_t i = 0; i < x.numel(); ++i) count += x.const_data_ptr<float>()[i] != 0.0f;
  const dim_t sizes[] = {count};
  if (!ctx.resize(out, {sizes, 1})) return out;
  for (dim_t i = 0, at = 0; i < x.numel(); ++i) {
    if (x.const_data_ptr<float>()[i] != 0.0f) out.mutable_data_ptr<int64_t>()[at++] = i;
  }
  return out;
}
PENLIGHT_LIBRARY(testplaces, "places(Tensor x) -> Tensor", places_out)

// The same, and takes note of how often it ran.
Tensor& counted_out(KernelContext& ctx, Tensor& runs, const Tensor& x, Tensor& out) {
  runs.mutable_data_ptr<int64_t>()[0] += 1;
  return places_out(ctx, x, out);
}
PENLIGHT_LIBRARY(testplaces, "counted(Tensor(a!) runs, Tensor x) -> Tensor", counted_out)
