// Batch normalisation, with given statistics or with those of the batch.
//
// Either way it comes down to one factor and one summand a channel.
#include <math.h>

#include "kernels/common/checks.h"
#include "kernels/common/elementwise.h"
#include "kernels/common/span.h"
#include "likeness.h"
#include "moments.h"

namespace penlight::portable {

namespace {

struct BatchNorm {
  const Tensor& input;
  Optional<Tensor> weight, bias, running_mean, running_var;
  double momentum, eps;
};

bool check_channels(KernelContext& ctx, const char* name, Optional<Tensor> tensor, dim_t channels) {
  if (!tensor || (tensor->numel() == channels && tensor->dim() == 1)) return true;
  return ctx.refuse("{} has {} elements for {} channels", name, tensor->numel(), channels);
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
T load_channel(Optional<Tensor> tensor, dim_t channel, T otherwise) {
  return tensor ? load_element<T>(*tensor, channel * tensor->stride(0)) : otherwise;
}

template <class T>
void store_channel(const Tensor& to, dim_t channel, T value) {
  store_element(to, channel * to.stride(0), value);
}

// A number for each channel, as a tensor that broadcasts to `like`.
template <class T>
void set_per_channel(Likeness& like, T* numbers) {
  like.look_at(numbers);
  like.impl.numel = like.sizes[1];
  for (int d = 0; d < like.impl.dim; ++d) {
    if (d != 1) like.sizes[d] = 1;
    like.strides[d] = 1;
  }
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
template <class T>
void batch_norm_as(KernelContext& ctx, const BatchNorm& norm, bool training, Tensor& out, Tensor& saved_mean,
                   Tensor& saved_invstd) {
  const Tensor& input = norm.input;
  const dim_t channels = input.size(1);
  const dim_t plane = channels && input.size(0) ? input.numel() / channels / input.size(0) : 0;
  T* factors = scratch<T>(ctx, 2 * channels);
  T* row = training ? scratch<T>(ctx, plane) : nullptr;
  if (!ctx.ok()) return;
  T* summands = factors + channels;
  for (dim_t c = 0; c < channels; ++c) {
    ChannelMoments<T> moments;
    if (training) {
      moments = batch_moments(input, c, row);
      const T momentum = static_cast<T>(norm.momentum), count = static_cast<T>(plane * input.size(0));
      const auto follow = [&](const Optional<Tensor>& running, T value) {
        if (running)
          store_channel(*running, c, momentum * value + (1 - momentum) * load_channel<T>(running, c, 0));
      };
      follow(norm.running_mean, moments.mean);
      follow(norm.running_var, moments.variance * count / (count - 1));
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
  const auto scale_and_shift = [](auto x, auto factor, auto summand) { return x * factor + summand; };
  Likeness factor(input), summand(input);
  set_per_channel(factor, factors);
  set_per_channel(summand, summands);
  map<Domain::Floating>(ctx, scale_and_shift, out, input, factor.tensor, summand.tensor);
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
  dispatch_real(ctx, out.dtype(), [&](auto zero) {
    batch_norm_as<decltype(zero)>(ctx, norm, training, out, saved_mean, saved_invstd);
  });
}

}  // namespace

void native_batch_norm_legit_no_training_out(KernelContext& ctx, const Tensor& input, Optional<Tensor> weight,
                                             Optional<Tensor> bias, const Tensor& running_mean,
                                             const Tensor& running_var, double momentum, double eps,
                                             Tensor& out0, Tensor& out1, Tensor& out2) {
  batch_norm(ctx, {input, weight, bias, running_mean, running_var, momentum, eps}, false, out0, out1, out2);
}

void native_batch_norm_legit_no_stats_out(KernelContext& ctx, const Tensor& input, Optional<Tensor> weight,
                                          Optional<Tensor> bias, bool training, double momentum, double eps,
                                          Tensor& out, Tensor& save_mean, Tensor& save_invstd) {
  batch_norm(ctx, {input, weight, bias, nullopt, nullopt, momentum, eps}, training, out, save_mean,
             save_invstd);
}

// running_mean and running_var are updated when training.
void native_batch_norm_out(KernelContext& ctx, const Tensor& input, Optional<Tensor> weight,
                           Optional<Tensor> bias, Optional<Tensor> running_mean, Optional<Tensor> running_var,
                           bool training, double momentum, double eps, Tensor& out, Tensor& save_mean,
                           Tensor& save_invstd) {
  batch_norm(ctx, {input, weight, bias, running_mean, running_var, momentum, eps}, training, out, save_mean,
             save_invstd);
}

}  // namespace penlight::portable
