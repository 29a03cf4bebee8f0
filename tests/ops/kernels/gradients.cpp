// Operators whose gradients are operators, and a PENLIGHT_LIBRARY line says which.
#include <penlight/kernel.h>

using namespace penlight;

namespace {

template <class Step>
Tensor& each(KernelContext& ctx, const Tensor& a, const Tensor& b, Tensor& out, Step step) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) {
    ctx.fail(Status::InvalidArgument, "the tensors are not alike");
    return out;
  }
  if (!ctx.resize(out, a.sizes())) return out;
  dispatch<Floats>(ctx, a.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (dim_t i = 0; i < a.numel(); ++i) {
      out.mutable_data_ptr<T>()[i] =
          step(a.const_data_ptr<T>()[i], b.const_data_ptr<T>()[i], static_cast<T>(1));
    }
  });
  return out;
}

}  // namespace

// x / (1 + sharpness * x^2)
Tensor& bump_out(KernelContext& ctx, const Tensor& x, double sharpness, Tensor& out) {
  return each(ctx, x, x, out, [&](auto v, auto, auto one) {
    return v / (one + static_cast<decltype(v)>(sharpness) * v * v);
  });
}
Tensor& bump_backward_out(KernelContext& ctx, const Tensor& grad, const Tensor& x, double sharpness,
                          Tensor& out) {
  return each(ctx, grad, x, out, [&](auto g, auto v, auto one) {
    const auto s = static_cast<decltype(v)>(sharpness), below = one + s * v * v;
    return g * (one - s * v * v) / (below * below);
  });
}
PENLIGHT_LIBRARY(testgrads, "bump(Tensor x, float sharpness=1.0) -> Tensor", bump_out,
                 shapes("[...] -> [...]"), backward("bump_backward(grad, x, sharpness) -> x"))
PENLIGHT_LIBRARY(testgrads, "bump_backward(Tensor grad, Tensor x, float sharpness) -> Tensor",
                 bump_backward_out, shapes("[...], [...] -> [...]"))

// The product and the difference, with gradients by an operator for each argument, and one of torch's.
void meet_out(KernelContext& ctx, const Tensor& a, const Tensor& b, Tensor& product, Tensor& difference) {
  each(ctx, a, b, product, [](auto p, auto q, auto) { return p * q; });
  each(ctx, a, b, difference, [](auto p, auto q, auto) { return p - q; });
}
Tensor& meet_backward_out(KernelContext& ctx, const Tensor& of_product, const Tensor& of_difference,
                          const Tensor& other, double sign, Tensor& out) {
  if (!ctx.resize(out, other.sizes())) return out;
  dispatch<Floats>(ctx, other.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (dim_t i = 0; i < other.numel(); ++i) {
      out.mutable_data_ptr<T>()[i] = of_product.const_data_ptr<T>()[i] * other.const_data_ptr<T>()[i] +
                                     static_cast<T>(sign) * of_difference.const_data_ptr<T>()[i];
    }
  });
  return out;
}
PENLIGHT_LIBRARY(testgrads, "meet(Tensor a, Tensor b) -> (Tensor product, Tensor difference)", meet_out,
                 backward("meet_backward(grad_product, grad_difference, b, 1.0) -> a;"
                          "testgrads::meet_backward(grad_product, grad_difference, a, -1.0) -> b"),
                 shapes("[*s], [*s] -> [*s], [*s]"))
PENLIGHT_LIBRARY(testgrads,
                 "meet_backward(Tensor of_product, Tensor of_difference, Tensor other, float sign) -> Tensor",
                 meet_backward_out, shapes("[*s], [*s], [*s] -> [*s]"))

Tensor& negative_of(KernelContext& ctx, const Tensor& x, Tensor& out) {
  return each(ctx, x, x, out, [](auto v, auto, auto) { return -v; });
}
PENLIGHT_LIBRARY(testgrads, "negative(Tensor x) -> Tensor", negative_of, shapes("_ -> same as x"),
                 backward("aten::neg(grad) -> x"))
