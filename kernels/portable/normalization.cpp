// Layer, group and RMS normalisation: statistics of a row, then scale and shift.
#include <math.h>
#include <penlight/kernel.h>

#include "kernels/common/checks.h"
#include "moments.h"
#include "span.h"

namespace penlight::portable {

namespace {

bool check_floating(KernelContext& ctx, const Tensor& input, const Tensor& out) {
  if (is_floating(input.dtype())) return check_same_dtype(ctx, input, out);
  return ctx.refuse(Status::InvalidArgument, "normalisation takes floating types, got {}",
                    dtype_name(input.dtype()));
}

bool check_parameter(KernelContext& ctx, const char* name, const Optional<Tensor>& parameter, dim_t count) {
  if (!parameter.has_value() || parameter.value().numel() == count) return true;
  return ctx.refuse(Status::InvalidArgument, "{} has {} elements, {} are normalised", name,
                    parameter.value().numel(), count);
}

// The parameter as a row of T, or null.
template <class T>
T* load_parameter(KernelContext& ctx, const Optional<Tensor>& parameter) {
  if (!parameter.has_value()) return nullptr;
  const Tensor& tensor = parameter.value();
  T* row = ctx.allocate_scratch_array<T>(static_cast<size_t>(tensor.numel() + 1));
  if (row) Span(tensor, 0, tensor.dim()).load(row, tensor.const_data_ptr(), 0);
  return row;
}

template <class T>
struct Moments {
  T mean, rstd;
};

template <class T>
Moments<T> moments_of(const T* x, dim_t count, double eps) {
  // ATen's statistics of nothing: mean 0, deviation NaN.
  const T mean = count ? static_cast<T>(row_sum(x, count) / static_cast<double>(count)) : T(0);
  const double variance = row_square_sum(x, count, mean) / static_cast<double>(count);
  return {mean, static_cast<T>(1 / sqrt(variance + eps))};
}

// x[i] = (x[i] - mean) * rstd * weight[i] + bias[i]; weight and bias may be null.
template <class T>
void scale_shift(T* x, dim_t count, Moments<T> moments, const T* weight, const T* bias) {
  constexpr int lanes = VectorOf<T>::lanes;
  const Vector<T> mean = splat(moments.mean), rstd = splat(moments.rstd);
  dim_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Vector<T> value = (load_vector(x + i) - mean) * rstd;
    if (weight) value *= load_vector(weight + i);
    if (bias) value += load_vector(bias + i);
    store_vector(x + i, value);
  }
  for (; i < count; ++i) {
    T value = (x[i] - moments.mean) * moments.rstd;
    if (weight) value *= weight[i];
    if (bias) value += bias[i];
    x[i] = value;
  }
}

// The dimensions that normalized_shape covers have to be the input's last ones.
bool check_normalized_shape(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> shape, dim_t& axis) {
  axis = input.dim() - static_cast<dim_t>(shape.size());
  bool fits = axis >= 0 && !shape.empty();
  for (size_t d = 0; fits && d < shape.size(); ++d)
    fits = input.size(axis + static_cast<dim_t>(d)) == shape[d];
  if (fits) return true;
  return ctx.refuse(Status::InvalidArgument,
                    "normalized_shape of {} dimensions does not end the input's shape of {}", shape.size(),
                    input.dim());
}

template <class T>
void layer_norm_as(KernelContext& ctx, const Tensor& input, dim_t axis, const Optional<Tensor>& weight,
                   const Optional<Tensor>& bias, double eps, Tensor& out, Tensor& means, Tensor& rstds) {
  const Span in_rows(input, 0, axis), out_rows(out, 0, axis), mean_rows(means, 0, axis),
      rstd_rows(rstds, 0, axis);
  const Span in_row(input, axis, input.dim()), out_row(out, axis, input.dim());
  const dim_t count = in_row.count();
  const T* scale = load_parameter<T>(ctx, weight);
  const T* shift = load_parameter<T>(ctx, bias);
  T* x = ctx.allocate_scratch_array<T>(static_cast<size_t>(count + 1));
  if (!ctx.ok()) return;
  const Span one(means.dtype()), other(rstds.dtype());
  for (dim_t i = 0; i < in_rows.count(); ++i) {
    in_row.load(x, input.const_data_ptr(), in_rows.offset(i));
    const Moments<T> moments = moments_of(x, count, eps);
    scale_shift(x, count, moments, scale, shift);
    out_row.store(x, out.mutable_data_ptr(), out_rows.offset(i));
    one.store(&moments.mean, means.mutable_data_ptr(), mean_rows.offset(i));
    other.store(&moments.rstd, rstds.mutable_data_ptr(), rstd_rows.offset(i));
  }
}

template <class T>
void group_norm_as(KernelContext& ctx, const Tensor& input, dim_t groups, const Optional<Tensor>& weight,
                   const Optional<Tensor>& bias, double eps, Tensor& out, Tensor& means, Tensor& rstds) {
  const dim_t channels = input.size(1) / groups, dim = input.dim();
  const Span in_plane(input, 2, dim), out_plane(out, 2, dim);
  const dim_t plane = in_plane.count(), count = channels * plane;
  const T* scale = load_parameter<T>(ctx, weight);
  const T* shift = load_parameter<T>(ctx, bias);
  T* x = ctx.allocate_scratch_array<T>(static_cast<size_t>(count + 1));
  if (!ctx.ok()) return;
  const Span one(means.dtype()), other(rstds.dtype());
  for (dim_t n = 0; n < input.size(0); ++n) {
    for (dim_t g = 0; g < groups; ++g) {
      for (dim_t c = 0; c < channels; ++c) {
        const dim_t at = n * input.stride(0) + (g * channels + c) * input.stride(1);
        in_plane.load(x + c * plane, input.const_data_ptr(), at);
      }
      const Moments<T> moments = moments_of(x, count, eps);
      for (dim_t c = 0; c < channels; ++c) {
        // All of a plane has one scale and one shift: put them into the moments.
        const dim_t channel = g * channels + c;
        const T factor = moments.rstd * (scale ? scale[channel] : T(1)),
                extra = shift ? shift[channel] : T(0);
        T* row = x + c * plane;
        for (dim_t i = 0; i < plane; ++i) row[i] = (row[i] - moments.mean) * factor + extra;
        out_plane.store(row, out.mutable_data_ptr(), n * out.stride(0) + channel * out.stride(1));
      }
      one.store(&moments.mean, means.mutable_data_ptr(), n * means.stride(0) + g * means.stride(1));
      other.store(&moments.rstd, rstds.mutable_data_ptr(), n * rstds.stride(0) + g * rstds.stride(1));
    }
  }
}

template <class T>
void rms_norm_as(KernelContext& ctx, const Tensor& input, dim_t axis, const Optional<Tensor>& weight,
                 double eps, Tensor& out) {
  const Span in_rows(input, 0, axis), out_rows(out, 0, axis);
  const Span in_row(input, axis, input.dim()), out_row(out, axis, input.dim());
  const dim_t count = in_row.count();
  const T* scale = load_parameter<T>(ctx, weight);
  T* x = ctx.allocate_scratch_array<T>(static_cast<size_t>(count + 1));
  if (!ctx.ok()) return;
  for (dim_t i = 0; i < in_rows.count(); ++i) {
    in_row.load(x, input.const_data_ptr(), in_rows.offset(i));
    const double square = row_square_sum(x, count, T(0)) / static_cast<double>(count);
    scale_shift(x, count, {T(0), static_cast<T>(1 / sqrt(square + eps))}, scale,
                static_cast<const T*>(nullptr));
    out_row.store(x, out.mutable_data_ptr(), out_rows.offset(i));
  }
}

// The distance from 1 to the next number of the dtype: the default of eps.
double epsilon_of(ScalarType dtype) {
  switch (dtype) {
    case ScalarType::Double:
      return 2.220446049250313e-16;
    case ScalarType::Half:
      return 9.765625e-4;
    case ScalarType::BFloat16:
      return 7.8125e-3;
    default:
      return 1.1920928955078125e-7;
  }
}

}  // namespace

void native_layer_norm_out(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> normalized_shape,
                           const Optional<Tensor>& weight, const Optional<Tensor>& bias, double eps,
                           Tensor& out0, Tensor& out1, Tensor& out2) {
  dim_t axis;
  if (!check_floating(ctx, input, out0) || !check_normalized_shape(ctx, input, normalized_shape, axis))
    return;
  dim_t sizes[kMaxDim], count = 1;
  for (dim_t d = 0; d < input.dim(); ++d) {
    sizes[d] = d < axis ? input.size(d) : 1;
    if (d >= axis) count *= input.size(d);
  }
  const SizesRef rows(sizes, static_cast<size_t>(input.dim()));
  if (!check_parameter(ctx, "weight", weight, count) || !check_parameter(ctx, "bias", bias, count)) return;
  if (!ctx.resize(out0, input.sizes()) || !ctx.resize(out1, rows) || !ctx.resize(out2, rows)) return;
  if (input.dtype() == ScalarType::Double) {
    layer_norm_as<double>(ctx, input, axis, weight, bias, eps, out0, out1, out2);
  } else {
    layer_norm_as<float>(ctx, input, axis, weight, bias, eps, out0, out1, out2);
  }
}

// N, C and HxW repeat what the input's sizes say.
void native_group_norm_out(KernelContext& ctx, const Tensor& input, const Optional<Tensor>& weight,
                           const Optional<Tensor>& bias, int64_t N, int64_t C, int64_t HxW, int64_t group,
                           double eps, Tensor& out0, Tensor& out1, Tensor& out2) {
  if (!check_floating(ctx, input, out0)) return;
  dim_t spatial = 1;
  for (dim_t d = 2; d < input.dim(); ++d) spatial *= input.size(d);
  if (input.dim() < 2 || input.size(0) != N || input.size(1) != C || spatial != HxW || group < 1 ||
      C % group != 0) {
    ctx.fail(Status::InvalidArgument, "an input of {} elements is not [{}, {}, {}] in {} groups",
             input.numel(), N, C, HxW, group);
    return;
  }
  const dim_t sizes[] = {static_cast<dim_t>(N), static_cast<dim_t>(group)};
  if (!check_parameter(ctx, "weight", weight, sizes[1] * (input.size(1) / sizes[1])) ||
      !check_parameter(ctx, "bias", bias, input.size(1))) {
    return;
  }
  if (!ctx.resize(out0, input.sizes()) || !ctx.resize(out1, sizes) || !ctx.resize(out2, sizes)) return;
  if (input.dtype() == ScalarType::Double) {
    group_norm_as<double>(ctx, input, sizes[1], weight, bias, eps, out0, out1, out2);
  } else {
    group_norm_as<float>(ctx, input, sizes[1], weight, bias, eps, out0, out1, out2);
  }
}

Tensor& rms_norm_out(KernelContext& ctx, const Tensor& input, ArrayRef<int64_t> normalized_shape,
                     const Optional<Tensor>& weight, Optional<double> eps, Tensor& out) {
  dim_t axis;
  if (!check_floating(ctx, input, out) || !check_normalized_shape(ctx, input, normalized_shape, axis))
    return out;
  dim_t count = 1;
  for (dim_t d = axis; d < input.dim(); ++d) count *= input.size(d);
  if (!check_parameter(ctx, "weight", weight, count) || !ctx.resize(out, input.sizes())) return out;
  const double epsilon = eps.has_value() ? eps.value() : epsilon_of(input.dtype());
  if (input.dtype() == ScalarType::Double) {
    rms_norm_as<double>(ctx, input, axis, weight, epsilon, out);
  } else {
    rms_norm_as<float>(ctx, input, axis, weight, epsilon, out);
  }
  return out;
}

}  // namespace penlight::portable
