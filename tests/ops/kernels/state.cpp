// Operators that change their arguments, and one with two results.
#include <penlight/kernel.h>

using namespace penlight;

namespace {

bool are_floats(KernelContext& ctx, const Tensor& x, const Tensor& y) {
  const bool fit =
      x.scalar_type() == ScalarType::Float && y.scalar_type() == ScalarType::Float && x.numel() == y.numel();
  if (!fit) ctx.decline();
  return fit;
}

}  // namespace

// state += x; out = 2 * state
Tensor& accumulate_out(KernelContext& ctx, Tensor& state, const Tensor& x, double scale, Tensor& out) {
  if (!are_floats(ctx, state, x) || !ctx.resize(out, state.sizes())) return out;
  float* s = state.mutable_data_ptr<float>();
  for (dim_t i = 0; i < state.numel(); ++i) {
    s[i] += x.const_data_ptr<float>()[i];
    out.mutable_data_ptr<float>()[i] = static_cast<float>(scale) * s[i];
  }
  return out;
}

void note(KernelContext& ctx, Tensor& state, const Tensor& x) {
  if (!are_floats(ctx, state, x)) return;
  for (dim_t i = 0; i < state.numel(); ++i) state.mutable_data_ptr<float>()[i] = x.const_data_ptr<float>()[i];
}

Tensor& note_(KernelContext& ctx, Tensor& state, double x) {
  if (!are_floats(ctx, state, state)) return state;
  for (dim_t i = 0; i < state.numel(); ++i) state.mutable_data_ptr<float>()[i] *= static_cast<float>(x);
  return state;
}

void halves(KernelContext& ctx, const Tensor& x, Tensor& low, Tensor& high) {
  if (!are_floats(ctx, x, x)) return;
  if (x.dim() != 1) return ctx.fail(Status::InvalidArgument, "halves takes one dimension, not {}", x.dim());
  const dim_t n = x.size(0) / 2;
  const dim_t sizes[] = {n};
  const dim_t rest[] = {x.size(0) - n};
  if (!ctx.resize(low, {sizes, 1}) || !ctx.resize(high, {rest, 1})) return;
  for (dim_t i = 0; i < x.size(0); ++i)
    (i < n ? low.mutable_data_ptr<float>()[i] : high.mutable_data_ptr<float>()[i - n]) =
        x.const_data_ptr<float>()[i];
}

PENLIGHT_LIBRARY(teststate, "accumulate(Tensor(a!) state, Tensor x, *, float scale=2.0) -> Tensor",
                 accumulate_out)
PENLIGHT_LIBRARY(teststate, "note(Tensor(a!) state, Tensor x) -> ()", note)
PENLIGHT_LIBRARY(teststate, "note_(Tensor(a!) state, float x) -> Tensor(a!)", note_)
PENLIGHT_LIBRARY(teststate, "halves(Tensor x) -> (Tensor low, Tensor high)", halves)
