// Elementwise operators of complex64, as chains of one step over the parts of the numbers.
#include "complex_pairs.h"

#include <string.h>

#include "kernels/common/complex.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

constexpr int kFirst = kElementRegisters, kSecond = kElementRegisters + 1;

// The operands are pairs.
bool run_pairs(KernelContext& ctx, Chain& chain, Tensor& out) {
  dim_t sizes[kMaxDim];
  int dim = 0;
  if (!has_pairs(out) || !is_compiled(chain.steps[0].op) || !broadcast_shape(chain, sizes, dim)) {
    return false;
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim - 1)))) return true;
  Pairs to(out);
  return run_chain(ctx, chain, to.tensor());
}

bool run_two(KernelContext& ctx, ElementOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  Chain chain;
  chain.add(a);
  chain.add(b);
  chain.step(op, 0, kFirst, kSecond);
  return run_pairs(ctx, chain, out);
}

}  // namespace

bool complex_of_two(KernelContext& ctx, ElementOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  if (op == ElementOp::Mul) op = ElementOp::MulComplex;
  const bool takes = op == ElementOp::MulComplex || op == ElementOp::Add || op == ElementOp::Sub;
  if (!takes || !has_pairs(a) || !has_pairs(b)) return false;
  Pairs first(a), second(b);
  return run_two(ctx, op, first.tensor(), second.tensor(), out);
}

bool complex_and_number(KernelContext& ctx, ElementOp op, const Tensor& a, double re, double im,
                        Tensor& out) {
  if (!has_pairs(a)) return false;
  Pairs first(a);
  Pair second(re, im);
  return run_two(ctx, op, first.tensor(), second.tensor(), out);
}

bool negative_of_complex(KernelContext& ctx, const Tensor& x, Tensor& out) {
  if (!has_pairs(x)) return false;
  Pairs pairs(x);
  Chain chain;
  chain.add(pairs.tensor());
  chain.step(ElementOp::Neg, 0, kFirst);
  return run_pairs(ctx, chain, out);
}

bool real_of_complex(KernelContext& ctx, ElementOp op, const Tensor& x, Tensor& out) {
  if (!is_complex_float(x) || !is_float(out) || !is_compiled(op)) return false;
  if (!ctx.resize(out, x.sizes())) return true;
  ComplexPart re(x, 0), im(x, 1);
  Chain chain;
  chain.add(im.tensor());
  chain.add(re.tensor());
  chain.step(op, 0, kFirst, kSecond);
  return run_chain(ctx, chain, out);
}

Tensor& angle_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return or_decline(ctx, real_of_complex(ctx, ElementOp::Atan2, self, out), out);
}

// A product with 1 and -1 keeps every bit of a part but its sign.
Tensor& conj_copy_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return or_decline(ctx, complex_and_number(ctx, ElementOp::Mul, self, 1, -1, out), out);
}

Tensor& complex_out(KernelContext& ctx, const Tensor& real, const Tensor& imag, Tensor& out) {
  if (!is_dense_float(real) || !is_dense_float(imag) || !is_complex_float(out) ||
      real.sizes() != imag.sizes()) {
    return decline(ctx, out);
  }
  if (!ctx.resize(out, real.sizes())) return out;
  if (!out.is_contiguous()) return decline(ctx, out);
  const float *re = real.const_data_ptr<float>(), *im = imag.const_data_ptr<float>();
  float* parts = static_cast<float*>(out.mutable_data_ptr());
  for (dim_t i = 0; i < real.numel(); ++i) {
    const float pair[] = {re[i], im[i]};
    memcpy(parts + 2 * i, pair, sizeof pair);
  }
  return out;
}

}  // namespace penlight::optimized
