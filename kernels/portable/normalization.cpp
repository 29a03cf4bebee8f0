// Layer, group and RMS normalisation: statistics of a row, then scale and shift.
#include <math.h>

#include "kernels/common/broadcast.h"
#include "kernels/common/checks.h"
#include "kernels/common/span.h"
#include "moments.h"

namespace penlight::portable {

namespace {

bool check_floating(KernelContext& ctx, const Tensor& input, const Tensor& out) {
  if (is_floating(input.dtype())) return check_same_dtype(ctx, input, out);
  return ctx.refuse("normalisation takes floating types, got {}", dtype_name(input.dtype()));
}

bool check_parameter(KernelContext& ctx, const char* name, Optional<Tensor> parameter, dim_t count) {
  if (!parameter || parameter->numel() == count) return true;
  return ctx.refuse("{} has {} elements, {} are normalised", name, parameter->numel(), count);
}

template <class T>
struct Moments {
  T mean, rstd;
};

template <class T>
Moments<T> moments_of(const T* x, dim_t count, double eps, bool centered) {
  // ATen's statistics of nothing: mean 0, deviation NaN.
  const T mean = centered && count ? static_cast<T>(row_sum(x, count) / static_cast<double>(count)) : T(0);
  const double variance = row_square_sum(x, count, mean) / static_cast<double>(count);
  return {mean, static_cast<T>(1 / sqrt(variance + eps))};
}

// x[i] = (x[i] - mean) * rstd * weight[i * step] + bias[i * step], `step` 0 or 1; weight and bias may be
// null.
template <class T>
void scale_shift(T* x, dim_t count, Moments<T> moments, const T* weight, const T* bias, dim_t step) {
  constexpr int lanes = VectorOf<T>::lanes;
  const Vector<T> mean = splat(moments.mean), rstd = splat(moments.rstd);
  const auto vector_of = [step](const T* from, dim_t i) {
    return step ? load_vector(from + i) : splat(*from);
  };
  dim_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    Vector<T> value = (load_vector(x + i) - mean) * rstd;
    if (weight) value *= vector_of(weight, i);
    if (bias) value += vector_of(bias, i);
    store_vector(x + i, value);
  }
  for (; i < count; ++i) {
    T value = (x[i] - moments.mean) * moments.rstd;
    if (weight) value *= weight[i * step];
    if (bias) value += bias[i * step];
    x[i] = value;
  }
}

// The dimensions that normalized_shape covers have to be the input's last ones: from `axis` on, `count`
// elements.
bool check_normalized_shape(KernelContext& ctx, const Tensor& input, IntArrayRef shape, dim_t& axis,
                            dim_t& count) {
  axis = input.dim() - static_cast<dim_t>(shape.size());
  count = 1;
  bool fits = axis >= 0 && !shape.empty();
  for (dim_t d = axis; fits && d < input.dim(); ++d) {
    fits = input.size(d) == shape[static_cast<size_t>(d - axis)];
    count *= input.size(d);
  }
  if (fits) return true;
  return ctx.refuse("normalized_shape of {} dimensions does not end the input's shape of {}", shape.size(),
                    input.dim());
}

// A tensor as rows that are normalised each by itself.
struct NormRows {
  Span rows, row;

  explicit NormRows(ScalarType dtype) : rows(dtype), row(dtype) {}
  NormRows(const Tensor& tensor, dim_t axis) : rows(tensor, 0, axis), row(tensor, axis, tensor.dim()) {}
};

// `plane` neighbours share a weight and a bias, and rows `groups` apart all of them. Without `means`
// nothing is taken off; `means` and `rstds` get a number a row.
struct Normalization {
  const Tensor& input;
  Optional<Tensor> weight;
  Optional<Tensor> bias;
  double eps;
  NormRows from, to;
  dim_t groups, plane;
  Tensor *means, *rstds;
};

template <class T>
void normalize_as(KernelContext& ctx, const Normalization& norm, Tensor& out) {
  const dim_t count = norm.from.row.count(), plane = norm.plane, channels = plane ? count / plane : 0;
  // As many elements at a time as have one weight, or one each.
  const dim_t run = plane == 1 ? count : plane, step = plane == 1 ? 1 : 0;
  const T* scale = norm.weight ? dense_copy<T>(ctx, *norm.weight) : nullptr;
  const T* shift = norm.bias ? dense_copy<T>(ctx, *norm.bias) : nullptr;
  T* x = scratch<T>(ctx, count);
  if (!ctx.ok()) return;
  for (dim_t i = 0; i < norm.from.rows.count(); ++i) {
    norm.from.row.load(x, norm.input.const_data_ptr(), norm.from.rows.offset(i));
    const Moments<T> moments = moments_of(x, count, norm.eps, norm.means != nullptr);
    const dim_t first = i % norm.groups * channels;
    for (dim_t k = 0; k < count; k += run) {
      const dim_t channel = first + k / plane;
      scale_shift(x + k, run, moments, scale ? scale + channel : nullptr, shift ? shift + channel : nullptr,
                  step);
    }
    norm.to.row.store(x, out.mutable_data_ptr(), norm.to.rows.offset(i));
    if (!norm.means) continue;
    store_element(*norm.means, Span(*norm.means, 0, norm.means->dim()).offset(i), moments.mean);
    store_element(*norm.rstds, Span(*norm.rstds, 0, norm.rstds->dim()).offset(i), moments.rstd);
  }
}

void normalize(KernelContext& ctx, const Normalization& norm, Tensor& out) {
  dispatch_real(ctx, out.dtype(), [&](auto zero) { normalize_as<decltype(zero)>(ctx, norm, out); });
}

// The distance from 1 to the next number of the dtype: the default of eps.
double epsilon_of(ScalarType dtype) {
  return dtype == ScalarType::Double     ? 2.220446049250313e-16
         : dtype == ScalarType::Half     ? 9.765625e-4
         : dtype == ScalarType::BFloat16 ? 7.8125e-3
                                         : 1.1920928955078125e-7;
}

}  // namespace

void native_layer_norm_out(KernelContext& ctx, const Tensor& input, IntArrayRef normalized_shape,
                           Optional<Tensor> weight, Optional<Tensor> bias, double eps, Tensor& out0,
                           Tensor& out1, Tensor& out2) {
  dim_t axis, count;
  if (!check_floating(ctx, input, out0) || !check_normalized_shape(ctx, input, normalized_shape, axis, count))
    return;
  Shape rows(input.sizes());
  for (dim_t d = axis; d < input.dim(); ++d) rows[static_cast<int>(d)] = 1;
  if (!check_parameter(ctx, "weight", weight, count) || !check_parameter(ctx, "bias", bias, count)) return;
  if (!ctx.resize(out0, input.sizes()) || !ctx.resize(out1, rows) || !ctx.resize(out2, rows)) return;
  normalize(ctx, {input, weight, bias, eps, {input, axis}, {out0, axis}, 1, 1, &out1, &out2}, out0);
}

// N, C and HxW repeat what the input's sizes say.
void native_group_norm_out(KernelContext& ctx, const Tensor& input, Optional<Tensor> weight,
                           Optional<Tensor> bias, int64_t N, int64_t C, int64_t HxW, int64_t group,
                           double eps, Tensor& out0, Tensor& out1, Tensor& out2) {
  if (!check_floating(ctx, input, out0)) return;
  dim_t spatial = 1;
  for (dim_t d = 2; d < input.dim(); ++d) spatial *= input.size(d);
  if (input.dim() < 2 || input.size(0) != N || input.size(1) != C || spatial != HxW || group < 1 ||
      C % group != 0)
    return ctx.fail("an input of {} elements is not [{}, {}, {}] in {} groups", input.numel(), N, C, HxW,
                    group);
  const dim_t sizes[] = {static_cast<dim_t>(N), static_cast<dim_t>(group)};
  if (!check_parameter(ctx, "weight", weight, sizes[1] * (input.size(1) / sizes[1])) ||
      !check_parameter(ctx, "bias", bias, input.size(1)))
    return;
  if (!ctx.resize(out0, input.sizes()) || !ctx.resize(out1, sizes) || !ctx.resize(out2, sizes)) return;
  const dim_t channels = input.size(1) / sizes[1];
  const auto rows_of = [&](const Tensor& tensor) {
    NormRows rows(tensor.dtype());
    rows.rows.push(sizes[0], tensor.stride(0));
    rows.rows.push(sizes[1], channels * tensor.stride(1));
    rows.row.push(channels, tensor.stride(1));
    for (dim_t d = 2; d < tensor.dim(); ++d) rows.row.push(tensor.size(d), tensor.stride(d));
    return rows;
  };
  normalize(ctx, {input, weight, bias, eps, rows_of(input), rows_of(out0), sizes[1], spatial, &out1, &out2},
            out0);
}

void rms_norm_out(KernelContext& ctx, const Tensor& input, IntArrayRef normalized_shape,
                  Optional<Tensor> weight, Optional<double> eps, Tensor& out) {
  dim_t axis, count;
  if (!check_floating(ctx, input, out) || !check_normalized_shape(ctx, input, normalized_shape, axis, count))
    return;
  if (!check_parameter(ctx, "weight", weight, count) || !ctx.resize(out, input.sizes())) return;
  const double epsilon = eps ? eps.value() : epsilon_of(input.dtype());
  normalize(ctx, {input, weight, nullopt, epsilon, {input, axis}, {out, axis}, 1, 1, nullptr, nullptr}, out);
}

}  // namespace penlight::portable
