// Linear layers over weights that were packed when the program was made.
#include "linear.h"

#include "packed.h"
#include "product.h"

namespace penlight::optimized {

bool multiply_rows(KernelContext& ctx, const float* input, dim_t rows, dim_t depth, const Tensor& weight,
                   dim_t outputs, const Epilogue& epilogue, const Blocks* blocks, float* output) {
  Product product = over_matrix(rows, depth, depth, outputs, outputs);
  product.input = input;
  product.output = output;
  product.epilogue = epilogue;
  product.packed = weight.const_data_ptr();
  product.format = format_of(weight);
  product.by_channels = is_by_channels(product.last_row, depth, outputs);
  product.blocks = blocks;
  return run_product(ctx, product);
}

bool run_linear(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                const Optional<Tensor>& residual, int64_t outputs, int64_t activation, double low,
                double high, const Blocks* blocks, Tensor& out) {
  const dim_t dim = input.dim();
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float || dim < 1 ||
      !input.is_contiguous())
    return ctx.refuse("a linear layer over packed weights takes contiguous float32 of one dimension or more");
  const dim_t depth = input.size(dim - 1);
  dim_t size = 0;
  if (!packed_size(outputs, depth, size)) return ctx.refuse("a linear layer cannot have {} outputs", outputs);
  const Format format = format_of(weight);
  if (!check_packed(ctx, weight, size, format) || !check_activation(ctx, activation)) return false;
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < dim; ++d) sizes[d] = input.size(d);
  sizes[dim - 1] = outputs;
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim)))) return false;
  if (!out.is_contiguous()) return ctx.refuse("the result of a linear layer is contiguous");
  if (!check_residual(ctx, residual, out)) return false;
  if (out.numel() == 0) return true;
  const Epilogue epilogue = epilogue_of(residual, activation, low, high);
  const dim_t columns = static_cast<dim_t>(outputs);
  return multiply_rows(ctx, input.const_data_ptr<float>(), out.numel() / columns, depth, weight, columns,
                       epilogue, blocks, out.mutable_data_ptr<float>());
}

Tensor& linear_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                          const Optional<Tensor>& residual, int64_t outputs, int64_t activation, double low,
                          double high, Tensor& out) {
  run_linear(ctx, input, weight, residual, outputs, activation, low, high, nullptr, out);
  return out;
}

}  // namespace penlight::optimized
