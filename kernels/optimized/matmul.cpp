// Matrix products of float32 whose second factor is known only when the program runs, or
// is used elsewhere too and so lies in the file as it is.
#include <string.h>

#include "kernels/common/groups.h"
#include "parameters.h"
#include "unpacked.h"

namespace penlight::optimized {

Tensor& linear_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                   const Optional<Tensor>& bias, Tensor& out) {
  const bool mine =
      is_dense_float(input) && is_dense_float(weight) && input.dim() >= 1 && weight.dim() == 2 &&
      out.scalar_type() == ScalarType::Float && input.size(-1) == weight.size(1) && weight.size(1) > 0 &&
      (!bias.has_value() ||
       (is_dense_float(bias.value()) && bias.value().dim() == 1 && bias.value().size(0) == weight.size(0)));
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
  const dim_t n = weight.size(0), k = weight.size(1);
  multiply(ctx, {input.const_data_ptr<float>(), weight.const_data_ptr<float>(),
                 bias.has_value() ? bias.value().const_data_ptr<float>() : nullptr,
                 out.mutable_data_ptr<float>(), out.numel() / n, n, k, 1, k});
  return out;
}

Tensor& mm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  const bool mine = is_dense_float(self) && is_dense_float(mat2) && self.dim() == 2 && mat2.dim() == 2 &&
                    out.scalar_type() == ScalarType::Float && self.size(1) == mat2.size(0) &&
                    self.size(1) > 0;
  if (!mine) {
    ctx.decline();
    return out;
  }
  const dim_t sizes[] = {self.size(0), mat2.size(1)};
  if (!ctx.resize(out, SizesRef(sizes, 2)) || out.numel() == 0) return out;
  multiply(ctx, {self.const_data_ptr<float>(), mat2.const_data_ptr<float>(), nullptr,
                 out.mutable_data_ptr<float>(), sizes[0], sizes[1], self.size(1), sizes[1], 1});
  return out;
}

Tensor& bmm_out(KernelContext& ctx, const Tensor& self, const Tensor& mat2, Tensor& out) {
  const bool mine = is_dense_float(self) && is_dense_float(mat2) && self.dim() == 3 && mat2.dim() == 3 &&
                    out.scalar_type() == ScalarType::Float && self.size(0) == mat2.size(0) &&
                    self.size(2) == mat2.size(1) && self.size(2) > 0;
  if (!mine) {
    ctx.decline();
    return out;
  }
  const dim_t m = self.size(1), n = mat2.size(2), k = self.size(2);
  const dim_t sizes[] = {self.size(0), m, n};
  if (!ctx.resize(out, SizesRef(sizes, 3)) || out.numel() == 0) return out;
  ProductScratch scratch;
  for (dim_t i = 0; i < sizes[0] && ctx.ok(); ++i) {
    multiply(ctx,
             {self.const_data_ptr<float>() + i * m * k, mat2.const_data_ptr<float>() + i * k * n, nullptr,
              out.mutable_data_ptr<float>() + i * m * n, m, n, k, n, 1},
             &scratch);
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
