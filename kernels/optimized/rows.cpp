// Normalisation of rows of dense float32; the portable kernels take what these decline.
#include "isa.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

// Elements of the dimensions that `shape` names, if they are the input's last ones; else 0.
dim_t row_size(const Tensor& input, ArrayRef<int64_t> shape) {
  const dim_t axis = input.dim() - static_cast<dim_t>(shape.size());
  if (axis < 0 || shape.empty()) return 0;
  dim_t count = 1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (input.size(axis + static_cast<dim_t>(d)) != shape[d]) return 0;
    count *= input.size(axis + static_cast<dim_t>(d));
  }
  return count;
}

void normalize(KernelContext& ctx, const NormRows& rows, dim_t count) {
  in_parts(ctx, count, 60.0 * static_cast<double>(rows.count), [&](Range range) {
    NormRows mine = rows;
    mine.first_row = range.first;
    mine.last_row = range.last;
    routines().norm_rows(mine);
  });
}

}  // namespace

void native_layer_norm_out(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> normalized_shape,
                           const Optional<Tensor>& weight, const Optional<Tensor>& bias, double eps,
                           Tensor& out0, Tensor& out1, Tensor& out2) {
  const dim_t count = row_size(input, normalized_shape);
  if (count == 0 || !is_dense_float(input) || !is_row(weight, count) || !is_row(bias, count) ||
      out0.scalar_type() != ScalarType::Float || out1.scalar_type() != ScalarType::Float ||
      out2.scalar_type() != ScalarType::Float) {
    ctx.decline();
    return;
  }
  const dim_t axis = input.dim() - static_cast<dim_t>(normalized_shape.size());
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < input.dim(); ++d) sizes[d] = d < axis ? input.size(d) : 1;
  const SizesRef rows(sizes, static_cast<size_t>(input.dim()));
  if (!ctx.resize(out0, input.sizes()) || !ctx.resize(out1, rows) || !ctx.resize(out2, rows)) return;
  if (!out0.is_contiguous() || !out1.is_contiguous() || !out2.is_contiguous()) {
    ctx.decline();
    return;
  }
  const NormRows norm = {input.const_data_ptr<float>(),
                         data_of(weight),
                         data_of(bias),
                         out0.mutable_data_ptr<float>(),
                         out1.mutable_data_ptr<float>(),
                         out2.mutable_data_ptr<float>(),
                         count,
                         0,
                         0,
                         eps,
                         true};
  normalize(ctx, norm, input.numel() / count);
}

Tensor& rms_norm_out(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> normalized_shape,
                     const Optional<Tensor>& weight, Optional<double> eps, Tensor& out) {
  const dim_t count = row_size(input, normalized_shape);
  if (count == 0 || !is_dense_float(input) || !is_row(weight, count) ||
      out.scalar_type() != ScalarType::Float) {
    ctx.decline();
    return out;
  }
  if (!ctx.resize(out, input.sizes())) return out;
  if (!out.is_contiguous()) {
    ctx.decline();
    return out;
  }
  // What torch adds where nothing is given: the distance from 1 to the next float32.
  const double epsilon = eps.has_value() ? eps.value() : 1.1920928955078125e-7;
  const NormRows norm = {input.const_data_ptr<float>(),
                         data_of(weight),
                         nullptr,
                         out.mutable_data_ptr<float>(),
                         nullptr,
                         nullptr,
                         count,
                         0,
                         0,
                         epsilon,
                         false};
  normalize(ctx, norm, input.numel() / count);
  return out;
}

}  // namespace penlight::optimized
