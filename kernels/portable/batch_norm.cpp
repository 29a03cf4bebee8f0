// Batch normalisation, with given statistics or with those of the batch.
//
// Either way it comes down to one factor and one summand a channel, applied in
// the order in which the output lies in memory.
#include <math.h>
#include <penlight/kernel.h>

#include "kernels/common/checks.h"
#include "kernels/common/strided.h"
#include "moments.h"
#include "span.h"

namespace penlight::portable {

namespace {

struct BatchNorm {
  const Tensor& input;
  Optional<Tensor> weight, bias, running_mean, running_var;
  double momentum, eps;
};

bool check_channels(KernelContext& ctx, const char* name, const Optional<Tensor>& tensor, dim_t channels) {
  if (!tensor.has_value() || (tensor.value().numel() == channels && tensor.value().dim() == 1)) return true;
  return ctx.refuse("{} has {} elements for {} channels", name, tensor.value().numel(), channels);
}

bool check_batch_norm(KernelContext& ctx, const BatchNorm& norm, const Tensor& out) {
  if (norm.input.dim() < 2 || !is_floating(norm.input.dtype()))
    return ctx.refuse("batch normalisation of {} with {} dimensions", dtype_name(norm.input.dtype()),
                      norm.input.dim());
  const dim_t channels = norm.input.size(1);
  return check_same_dtype(ctx, norm.input, out) && check_channels(ctx, "weight", norm.weight, channels) &&
         check_channels(ctx, "bias", norm.bias, channels) &&
         check_channels(ctx, "running_mean", norm.running_mean, channels) &&
         check_channels(ctx, "running_var", norm.running_var, channels);
}

template <class T>
T load_channel(const Optional<Tensor>& tensor, dim_t channel, T otherwise) {
  return tensor ? load_element<T>(*tensor, channel * tensor->stride(0)) : otherwise;
}

template <class T>
void store_channel(const Tensor& to, dim_t channel, T value) {
  store_element(to, channel * to.stride(0), value);
}

// out = input * factor[channel] + summand[channel].
template <class S, class T>
void apply_channels(const Tensor& input, const T* factors, const T* summands, Tensor& out) {
  dim_t per_channel[kMaxDim], steps[kMaxDim];
  for (dim_t d = 0; d < input.dim(); ++d) {
    per_channel[d] = d == 1 ? input.size(1) : 1;
    steps[d] = d == 1 ? 1 : 0;
  }
  const size_t rank = static_cast<size_t>(input.dim());
  StridedLoop loop(out.sizes());
  loop.add(out);
  loop.add(input);
  loop.add(SizesRef(per_channel, rank), SizesRef(steps, rank));
  loop.simplify();
  const dim_t to_step = loop.inner_stride(0), from_step = loop.inner_stride(1), step = loop.inner_stride(2);
  loop.for_each_row([&](const dim_t* offset, dim_t count) {
    S* to = out.mutable_data_ptr<S>() + offset[0];
    const S* from = input.const_data_ptr<S>() + offset[1];
    const T* factor = factors + offset[2];
    const T* summand = summands + offset[2];
    dim_t i = 0;
    if constexpr (same_type<S, T>) {
      constexpr int lanes = VectorOf<T>::lanes;
      if (to_step == 1 && from_step == 1 && step <= 1) {
        for (; i + lanes <= count; i += lanes) {
          const Vector<T> f = step ? load_vector(factor + i) : splat(*factor);
          const Vector<T> s = step ? load_vector(summand + i) : splat(*summand);
          store_vector<T>(to + i, load_vector(from + i) * f + s);
        }
      }
    }
    for (; i < count; ++i) {
      to[i * to_step] =
          static_cast<S>(static_cast<T>(from[i * from_step]) * factor[i * step] + summand[i * step]);
    }
  });
}

template <class T>
struct ChannelMoments {
  T mean, variance;
};

template <class T>
ChannelMoments<T> batch_moments(const Tensor& input, dim_t channel, T* row) {
  const Span plane(input, 2, input.dim());
  const double count = static_cast<double>(plane.count() * input.size(0));
  const auto total_of = [&](auto sum) {
    double total = 0;
    for (dim_t n = 0; n < input.size(0); ++n) {
      plane.load(row, input.const_data_ptr(), n * input.stride(0) + channel * input.stride(1));
      total += sum(row, plane.count());
    }
    return total;
  };
  const T mean = static_cast<T>(total_of(row_sum<T>) / count);
  const double squares = total_of([mean](const T* x, dim_t n) { return row_square_sum(x, n, mean); });
  return {mean, static_cast<T>(squares / count)};
}

// `saved_mean` and `saved_invstd` are filled when training, empty otherwise.
template <class S>
void batch_norm_as(KernelContext& ctx, const BatchNorm& norm, bool training, Tensor& out, Tensor& saved_mean,
                   Tensor& saved_invstd) {
  using T = Compute<S>;
  const Tensor& input = norm.input;
  const dim_t channels = input.size(1);
  const dim_t plane = channels && input.size(0) ? input.numel() / channels / input.size(0) : 0;
  T* factors = ctx.allocate_scratch_array<T>(static_cast<size_t>(2 * channels + 1));
  T* row = training ? ctx.allocate_scratch_array<T>(static_cast<size_t>(plane + 1)) : nullptr;
  if (!ctx.ok()) return;
  T* summands = factors + channels;
  for (dim_t c = 0; c < channels; ++c) {
    ChannelMoments<T> moments;
    if (training) {
      moments = batch_moments(input, c, row);
      const T momentum = static_cast<T>(norm.momentum);
      if (norm.running_mean.has_value()) {
        store_channel(norm.running_mean.value(), c,
                      momentum * moments.mean + (1 - momentum) * load_channel<T>(norm.running_mean, c, 0));
      }
      if (norm.running_var.has_value()) {
        const T count = static_cast<T>(plane * input.size(0));
        store_channel(norm.running_var.value(), c,
                      momentum * (moments.variance * count / (count - 1)) +
                          (1 - momentum) * load_channel<T>(norm.running_var, c, 1));
      }
    } else {
      moments = {load_channel<T>(norm.running_mean, c, 0), load_channel<T>(norm.running_var, c, 1)};
    }
    const T invstd = static_cast<T>(1 / sqrt(static_cast<double>(moments.variance) + norm.eps));
    if (training) {
      store_channel(saved_mean, c, moments.mean);
      store_channel(saved_invstd, c, invstd);
    }
    factors[c] = invstd * load_channel<T>(norm.weight, c, 1);
    summands[c] = load_channel<T>(norm.bias, c, 0) - moments.mean * factors[c];
  }
  apply_channels<S, T>(input, factors, summands, out);
}

void batch_norm(KernelContext& ctx, const BatchNorm& norm, bool training, Tensor& out, Tensor& saved_mean,
                Tensor& saved_invstd) {
  if (!check_batch_norm(ctx, norm, out)) return;
  if (!training && !(norm.running_mean.has_value() && norm.running_var.has_value()))
    return ctx.fail("batch normalisation without training needs running_mean and running_var");
  const dim_t saved[] = {training ? norm.input.size(1) : 0};
  if (!ctx.resize(out, norm.input.sizes()) || !ctx.resize(saved_mean, saved) ||
      !ctx.resize(saved_invstd, saved))
    return;
  dispatch<Floats>(ctx, out.dtype(), [&](auto tag) {
    batch_norm_as<typename decltype(tag)::type>(ctx, norm, training, out, saved_mean, saved_invstd);
  });
}

}  // namespace

void native_batch_norm_legit_no_training_out(KernelContext& ctx, const Tensor& input,
                                             const Optional<Tensor>& weight, const Optional<Tensor>& bias,
                                             const Tensor& running_mean, const Tensor& running_var,
                                             double momentum, double eps, Tensor& out0, Tensor& out1,
                                             Tensor& out2) {
  batch_norm(ctx, {input, weight, bias, running_mean, running_var, momentum, eps}, false, out0, out1, out2);
}

void native_batch_norm_legit_no_stats_out(KernelContext& ctx, const Tensor& input,
                                          const Optional<Tensor>& weight, const Optional<Tensor>& bias,
                                          bool training, double momentum, double eps, Tensor& out,
                                          Tensor& save_mean, Tensor& save_invstd) {
  batch_norm(ctx, {input, weight, bias, nullopt, nullopt, momentum, eps}, training, out, save_mean,
             save_invstd);
}

// running_mean and running_var are updated when training.
void native_batch_norm_out(KernelContext& ctx, const Tensor& input, const Optional<Tensor>& weight,
                           const Optional<Tensor>& bias, const Optional<Tensor>& running_mean,
                           const Optional<Tensor>& running_var, bool training, double momentum, double eps,
                           Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  batch_norm(ctx, {input, weight, bias, running_mean, running_var, momentum, eps}, training, out, save_mean,
             save_invstd);
}

}  // namespace penlight::portable
