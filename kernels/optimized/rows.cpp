// Normalisation and softmax of dense float32; the portable kernels take what
// these decline.
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

// Is it dense, and `out` of its shape already and dense too?
bool lies_ready(const Tensor& self, const Tensor& out) {
  const TensorImpl &x = *self.unsafeGetTensorImpl(), &to = *out.unsafeGetTensorImpl();
  if (x.dtype != ScalarType::Float || to.dtype != ScalarType::Float || x.dim != to.dim) return false;
  dim_t expected = 1, different = 0;
  for (int d = x.dim; d-- > 0;) {
    different |= (x.strides[d] ^ expected) | (to.strides[d] ^ expected) | (x.sizes[d] ^ to.sizes[d]);
    expected *= x.sizes[d];
  }
  return different == 0;
}

Tensor& softmax(KernelContext& ctx, const Tensor& self, int64_t dim, bool logarithm, Tensor& out) {
  constexpr dim_t kFew = 4096;  // elements, which are not worth a thread
  const dim_t last = self.dim() - 1;
  if (self.numel() <= kFew && self.numel() > 0 && last >= 0 && (dim == last || dim == -1) &&
      lies_ready(self, out)) {
    const dim_t count = self.size(last), rows = last == 0 ? 1 : self.numel() / count;
    routines().softmax_rows(
        {self.const_data_ptr<float>(), out.mutable_data_ptr<float>(), count, 0, rows, logarithm});
    return out;
  }
  if (!is_dense_float(self) || out.scalar_type() != ScalarType::Float || last < 0 ||
      (dim != last && dim != -1) || self.size(last) == 0) {
    ctx.decline();
    return out;
  }
  if (!ctx.resize(out, self.sizes()) || out.numel() == 0) return out;
  if (!out.is_contiguous()) {
    ctx.decline();
    return out;
  }
  const SoftmaxRows rows = {
      self.const_data_ptr<float>(), out.mutable_data_ptr<float>(), self.size(last), 0, 0, logarithm};
  in_parts(ctx, self.numel() / rows.count, 30.0 * static_cast<double>(rows.count), [&](Range range) {
    SoftmaxRows mine = rows;
    mine.first_row = range.first;
    mine.last_row = range.last;
    routines().softmax_rows(mine);
  });
  return out;
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

Tensor& softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  (void)half_to_float;  // what `out` is says it already
  return softmax(ctx, self, dim, false, out);
}

Tensor& log_softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float,
                        Tensor& out) {
  (void)half_to_float;
  return softmax(ctx, self, dim, true, out);
}

}  // namespace penlight::optimized
