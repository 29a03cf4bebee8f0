// Matrix products of float32 and complex64 whose second factor is known only when the program runs, or
// is used elsewhere too and so lies in the file as it is.
#include <string.h>

#include "complex_pairs.h"
#include "complex_products.h"
#include "kernels/common/groups.h"
#include "parameters.h"
#include "unpacked.h"

namespace penlight::optimized {

namespace {

// Are all float32, or all complex64, and the factors dense?
bool are_factors(const Tensor& a, const Tensor& b, const Tensor& out) {
  const ScalarType type = out.scalar_type();
  return (is_float(out) || is_complex_float(out)) && a.scalar_type() == type && b.scalar_type() == type &&
         a.is_contiguous() && b.is_contiguous();
}

const float* floats_of(const Tensor& tensor) { return static_cast<const float*>(tensor.const_data_ptr()); }

// Products of `out`'s kind of numbers.
void multiply(KernelContext& ctx, const Tensor& out, const ComplexMatrices& x, ComplexScratch& scratch) {
  if (is_complex_float(out)) {
    multiply_complex(ctx, x, scratch);
  } else {
    multiply(ctx, {x.a, x.b, x.bias, x.c, x.m, x.n, x.k, x.transposed ? 1 : x.n, x.transposed ? x.k : 1},
             &scratch.product);
  }
}

}  // namespace

Tensor& linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                   const Optional<Tensor>& bias, Tensor& out) {
  const bool mine =
      are_factors(input, weight, out) && input.dim() >= 1 && weight.dim() == 2 &&
      input.size(-1) == weight.size(1) && weight.size(1) > 0 &&
      (!bias.has_value() || (bias.value().scalar_type() == out.scalar_type() && bias.value().dim() == 1 &&
                             bias.value().is_contiguous() && bias.value().size(0) == weight.size(0)));
  if (!mine) {
    ctx.decline();
    return out;
  }
  dim_t sizes[kMaxDim];
  const dim_t dim = input.dim();
  for (dim_t d = 0; d < dim; ++d) sizes[d] = input.size(d);
  sizes[dim - 1] = weight.size(0);
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim))) || out.numel() == 0) return out;
  if (!out.is_contiguous()) {
    ctx.decline();
    return out;
  }
  const dim_t n = weight.size(0), k = weight.size(1), m = out.numel() / n;
  const float *x = floats_of(input), *w = floats_of(weight);
  const float* start = bias.has_value() ? floats_of(bias.value()) : nullptr;
  float* to = static_cast<float*>(out.mutable_data_ptr());
  ComplexScratch scratch;
  multiply(ctx, out, {x, w, start, to, m, n, k, true}, scratch);
  return out;
}

Tensor& mm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  const bool mine = are_factors(self, mat2, out) && self.dim() == 2 && mat2.dim() == 2 &&
                    self.size(1) == mat2.size(0) && self.size(1) > 0;
  if (!mine) {
    ctx.decline();
    return out;
  }
  const dim_t sizes[] = {self.size(0), mat2.size(1)};
  if (!ctx.resize(out, SizesRef(sizes, 2)) || out.numel() == 0) return out;
  const dim_t m = sizes[0], n = sizes[1], k = self.size(1);
  float* to = static_cast<float*>(out.mutable_data_ptr());
  ComplexScratch scratch;
  multiply(ctx, out, {floats_of(self), floats_of(mat2), nullptr, to, m, n, k, false}, scratch);
  return out;
}

// A linear layer of one row, whose weights are the matrix.
Tensor& mv_out(KernelContext& ctx, const Tensor& self, const Tensor& vec, Tensor& out) {
  const bool mine = are_factors(self, vec, out) && self.dim() == 2 && vec.dim() == 1 &&
                    self.size(1) == vec.size(0) && vec.size(0) > 0;
  if (!mine) return decline(ctx, out);
  const dim_t n = self.size(0), k = self.size(1), sizes[] = {n};
  if (!ctx.resize(out, sizes) || n == 0) return out;
  float* to = static_cast<float*>(out.mutable_data_ptr());
  ComplexScratch scratch;
  multiply(ctx, out, {floats_of(vec), floats_of(self), nullptr, to, 1, n, k, true}, scratch);
  return out;
}

// A matrix of one row, times a vector.
Tensor& dot_out(KernelContext& ctx, const Tensor& self, const Tensor& tensor, Tensor& out) {
  const dim_t k = self.numel();
  const bool mine = is_dense_float(self) && is_dense_float(tensor) && is_float(out) && self.dim() == 1 &&
                    tensor.dim() == 1 && tensor.numel() == k && k > 0;
  if (!mine) return decline(ctx, out);
  if (!ctx.resize(out, SizesRef())) return out;
  float* to = static_cast<float*>(out.mutable_data_ptr());
  ComplexScratch scratch;
  multiply(ctx, out, {floats_of(self), floats_of(tensor), nullptr, to, 1, 1, k, true}, scratch);
  return out;
}

Tensor& bmm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  const bool mine = are_factors(self, mat2, out) && self.dim() == 3 && mat2.dim() == 3 &&
                    self.size(0) == mat2.size(0) && self.size(2) == mat2.size(1) && self.size(2) > 0;
  if (!mine) {
    ctx.decline();
    return out;
  }
  const dim_t m = self.size(1), n = mat2.size(2), k = self.size(2);
  const dim_t sizes[] = {self.size(0), m, n};
  if (!ctx.resize(out, SizesRef(sizes, 3)) || out.numel() == 0) return out;
  const float *a = floats_of(self), *b = floats_of(mat2);
  float* const to = static_cast<float*>(out.mutable_data_ptr());
  ComplexScratch scratch;
  if (!is_complex_float(out)) {
    multiply_each(ctx, {a, b, nullptr, to, m, n, k, n, 1}, sizes[0], scratch.product);
    return out;
  }
  constexpr dim_t kParts = 2;  // of a number
  for (dim_t i = 0; i < sizes[0] && ctx.ok(); ++i) {
    multiply_complex(
        ctx,
        {a + i * m * k * kParts, b + i * k * n * kParts, nullptr, to + i * m * n * kParts, m, n, k, false},
        scratch);
  }
  return out;
}

Tensor& grouped_linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Tensor& ends,
                           Tensor& out) {
  const bool mine = is_dense_float(input) && is_dense_float(weight) && input.dim() == 2 &&
                    weight.dim() == 3 && out.scalar_type() == ScalarType::Float &&
                    input.size(1) == weight.size(2) && weight.size(2) > 0 && ends.dim() == 1 &&
                    ends.size(0) == weight.size(0);
  if (!mine) return decline(ctx, out);
  const dim_t rows = input.size(0), n = weight.size(1), k = weight.size(2);
  const Groups groups(ends);
  const dim_t sizes[] = {rows, n};
  if (!groups.check(ctx, rows) || !ctx.resize(out, sizes) || out.numel() == 0) return out;
  if (!out.is_contiguous()) return decline(ctx, out);
  const float* const x = input.const_data_ptr<float>();
  const float* const matrices = weight.const_data_ptr<float>();
  float* const output = out.mutable_data_ptr<float>();
  ProductScratch scratch;
  for (dim_t g = 0; g < groups.count() && ctx.ok(); ++g) {
    const dim_t first = groups.first(g), count = groups.last(g) - first;
    if (count == 0) continue;
    multiply(ctx, {x + first * k, matrices + g * n * k, nullptr, output + first * n, count, n, k, 1, k},
             &scratch);
  }
  const dim_t computed = groups.rows() * n;
  memset(output + computed, 0, static_cast<size_t>(rows * n - computed) * sizeof(float));
  return out;
}

}  // namespace penlight::optimized
