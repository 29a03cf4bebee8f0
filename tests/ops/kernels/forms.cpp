// Forms that operators seldom have: none of the arguments a tensor, a tensor by keyword only,
// a dtype that only Python tells, state that vmap maps over.
#include <penlight/kernel.h>

using namespace penlight;

Tensor& ramp_out(KernelContext& ctx, int64_t n, double step, Tensor& out) {
  const dim_t sizes[] = {n};
  if (!ctx.resize(out, {sizes, 1})) return out;
  for (dim_t i = 0; i < n; ++i) out.mutable_data_ptr<float>()[i] = static_cast<float>(step * i);
  return out;
}
PENLIGHT_LIBRARY(testforms, "ramp(int n, float step=1.0) -> Tensor", ramp_out, shapes("-> f32[n]"))

Tensor& count_out(KernelContext& ctx, ArrayRef<Optional<Tensor>> xs, const Optional<Tensor>& y, Tensor& out) {
  if (!ctx.resize(out, {})) return out;
  float count = y ? 100.0f : 0.0f;
  for (const Optional<Tensor>& x : xs) count += x ? 1.0f : 0.0f;
  out.mutable_data_ptr<float>()[0] = count;
  return out;
}
PENLIGHT_LIBRARY(testforms, "count(Tensor?[] xs, Tensor? y=None) -> Tensor", count_out,
                 shapes("_, _? -> f32[]"))

Tensor& total_out(KernelContext& ctx, TensorList xs, Tensor& out) {
  if (!ctx.resize(out, xs[0].sizes())) return out;
  for (dim_t i = 0; i < out.numel(); ++i) {
    float sum = 0;
    for (const Tensor& x : xs) sum += x.const_data_ptr<float>()[i];
    out.mutable_data_ptr<float>()[i] = sum;
  }
  return out;
}
PENLIGHT_LIBRARY(testforms, "total(Tensor[] xs) -> Tensor", total_out, shapes("[*s][] -> [*s]"))

// x * k + shift
Tensor& shifted_out(KernelContext& ctx, const Tensor& x, double k, const Optional<Tensor>& shift,
                    Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t i = 0; i < x.numel(); ++i) {
    const float more = shift ? shift->const_data_ptr<float>()[i] : 0;
    out.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[i] * static_cast<float>(k) + more;
  }
  return out;
}
PENLIGHT_LIBRARY(testforms, "shifted(Tensor x, float k=2.0, *, Tensor? shift=None) -> Tensor", shifted_out,
                 shapes("[*s], [*s]? -> [*s]"))
PENLIGHT_LIBRARY(testforms, "half_shifted(Tensor x, float k=2.0, *, Tensor? shift=None) -> Tensor",
                 shifted_out, shapes("[*s], [*s]? -> [*s]"))
PENLIGHT_LIBRARY(testforms, "by_function(Tensor x, float k=2.0, *, Tensor? shift=None) -> Tensor",
                 shifted_out, shapes("[*s], [*s]? -> [*s]"))

Tensor& every_out(KernelContext& ctx, const Tensor& x, int64_t step, ScalarType dtype, Tensor& out) {
  const dim_t sizes[] = {(x.size(0) + step - 1) / step};
  if (!ctx.resize(out, {sizes, 1})) return out;
  (void)dtype;
  dispatch<Real>(ctx, out.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (dim_t i = 0; i < sizes[0]; ++i)
      out.mutable_data_ptr<T>()[i] = static_cast<T>(x.const_data_ptr<float>()[i * step]);
  });
  return out;
}
PENLIGHT_LIBRARY(testforms, "every(Tensor x, int step, *, ScalarType dtype) -> Tensor", every_out)

// state += x; returns what it was
Tensor& swap_out(KernelContext& ctx, Tensor& state, const Tensor& x, Tensor& out) {
  if (!ctx.resize(out, x.sizes())) return out;
  for (dim_t i = 0; i < x.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = state.const_data_ptr<float>()[i];
    state.mutable_data_ptr<float>()[i] += x.const_data_ptr<float>()[i];
  }
  return out;
}
PENLIGHT_LIBRARY(testforms, "swap(Tensor(a!) state, Tensor x) -> Tensor", swap_out,
                 shapes("[*s], [*s] -> [*s]"))

void drop_(KernelContext&, Tensor& state) {
  for (dim_t i = 0; i < state.numel(); ++i) state.mutable_data_ptr<float>()[i] = 0;
}
PENLIGHT_LIBRARY(testforms, "drop_(Tensor(a!) state) -> ()", drop_)
