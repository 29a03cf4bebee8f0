// Linear layers over weights that were packed when the program was made.
#include "packed.h"
#include "product.h"

namespace penlight::optimized {

Tensor& linear_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                          const Optional<Tensor>& residual, int64_t outputs, int64_t activation, double low,
                          double high, Tensor& out) {
  const dim_t dim = input.dim();
  if (input.scalar_type() != ScalarType::Float || out.scalar_type() != ScalarType::Float || dim < 1 ||
      !input.is_contiguous())
    return ctx.fail(out, Status::InvalidArgument,
                    "linear_packed takes contiguous float32 of one dimension or more");
  const dim_t depth = input.size(dim - 1);
  dim_t size = 0;
  if (!packed_size(outputs, depth, size))
    return ctx.fail(out, Status::InvalidArgument, "linear_packed cannot have {} outputs", outputs);
  const Format format = format_of(weight);
  if (!check_packed(ctx, weight, size, format) || !check_activation(ctx, activation)) return out;
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < dim; ++d) sizes[d] = input.size(d);
  sizes[dim - 1] = outputs;
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim)))) return out;
  if (!out.is_contiguous())
    return ctx.fail(out, Status::InvalidArgument, "the result of linear_packed is contiguous");
  if (!check_residual(ctx, residual, out) || out.numel() == 0) return out;

  Product product = over_matrix(out.numel() / outputs, depth, depth, outputs, outputs);
  product.input = input.const_data_ptr<float>();
  product.output = out.mutable_data_ptr<float>();
  product.epilogue = epilogue_of(residual, activation, low, high);
  product.packed = weight.const_data_ptr();
  product.format = format;
  product.by_channels = is_by_channels(product.last_row, depth, static_cast<dim_t>(outputs));
  run_product(ctx, product);
  return out;
}

}  // namespace penlight::optimized
