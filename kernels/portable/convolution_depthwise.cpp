// Depthwise convolution: every channel with its own kernel, nothing to share.
//
// Channels-last input is computed a few vectors of channels at a time, with the
// taps that lie inside listed once for each position. Any other layout is computed
// a row at a time, each tap added to the part of the row it reaches.
#include "convolution.h"
#include "kernels/common/convert.h"
#include "vector.h"

namespace penlight::portable {

namespace {

constexpr dim_t kRowChunk = 128;

template <class S, class T>
inline Vector<T> load_as(const S* from) {
  if constexpr (same_type<S, T>) {
    return load_vector(from);
  } else {
    Vector<T> value{};
    for (int i = 0; i < VectorOf<T>::lanes; ++i) value[i] = static_cast<T>(from[i]);
    return value;
  }
}

// Elements 0, 2, 4, ... of the two vectors at `from`.
inline Vector<float> load_every_second(const float* from) {
  const Vector<float> a = load_vector(from), b = load_vector(from + 4);
#if defined(__clang__)
  return __builtin_shufflevector(a, b, 0, 2, 4, 6);
#else
  typedef int32_t Lanes __attribute__((vector_size(16)));
  return __builtin_shuffle(a, b, Lanes{0, 2, 4, 6});
#endif
}

// sums[i] += factor * from[i * step]; `readable` elements may be read from `from`.
template <class S, class T>
void add_scaled(T* sums, const S* from, dim_t step, T factor, dim_t count, dim_t readable) {
  constexpr int lanes = VectorOf<T>::lanes;
  dim_t i = 0;
  const Vector<T> factors = splat(factor);
  if (step == 1) {
    for (; i + lanes <= count; i += lanes) {
      store_vector<T>(sums + i, load_vector(sums + i) + factors * load_as<S, T>(from + i));
    }
  } else if constexpr (same_type<S, float>) {
    if (step == 2) {
      for (; i + 4 <= count && 2 * i + 8 <= readable; i += 4) {
        store_vector<float>(sums + i, load_vector(sums + i) + factors * load_every_second(from + 2 * i));
      }
    }
  }
  for (; i < count; ++i) sums[i] += factor * static_cast<T>(from[i * step]);
}

// The positions [first, last) of a row for which q * step + delta is inside [0, size).
inline void reach(dim_t q, dim_t step, dim_t delta, dim_t size, dim_t& first, dim_t& last) {
  first = delta < 0 ? (-delta + step - 1) / step : 0;
  last = size > delta ? (size - delta - 1) / step + 1 : 0;
  if (first > q) first = q;
  if (last > q) last = q;
}

template <class S>
void convolve_rows(const ConvShape& shape, const ConvPass& pass, dim_t image, dim_t channel) {
  using T = Compute<S>;
  const S* input =
      static_cast<const S*>(shape.input) + image * shape.input_batch + channel * shape.input_channel;
  const S* weight = static_cast<const S*>(shape.weight) + channel * shape.weight_group;
  S* plane = static_cast<S*>(shape.out) + image * shape.output_batch + channel * shape.output_channel +
             pass.output_first;
  const T bias =
      shape.bias ? static_cast<T>(static_cast<const S*>(shape.bias)[channel * shape.bias_stride]) : T(0);
  const dim_t spacing = pass.output_step[2];
  T sums[kRowChunk];
  for (dim_t d = 0; d < pass.q[0]; ++d) {
    for (dim_t h = 0; h < pass.q[1]; ++h) {
      const S* in_row = input + d * pass.input_step[0] + h * pass.input_step[1];
      S* out_row = plane + d * pass.output_step[0] + h * pass.output_step[1];
      for (dim_t w0 = 0; w0 < pass.q[2]; w0 += kRowChunk) {
        const dim_t count = pass.q[2] - w0 < kRowChunk ? pass.q[2] - w0 : kRowChunk;
        for (dim_t i = 0; i < count; ++i) sums[i] = bias;
        for (dim_t t = 0; t < pass.tap_count; ++t) {
          const ConvTap& tap = pass.taps[t];
          const dim_t z = d * pass.in_step[0] + tap.delta[0], y = h * pass.in_step[1] + tap.delta[1];
          if (z < 0 || z >= shape.input_size[0] || y < 0 || y >= shape.input_size[1]) continue;
          dim_t first, last;
          const dim_t delta = w0 * pass.in_step[2] + tap.delta[2];
          reach(count, pass.in_step[2], delta, shape.input_size[2], first, last);
          if (first >= last) continue;
          const dim_t readable = shape.input_size[2] - delta - first * pass.in_step[2];
          add_scaled<S, T>(sums + first, in_row + tap.input + (w0 + first) * pass.input_step[2],
                           pass.input_step[2], static_cast<T>(weight[tap.weight]), last - first, readable);
        }
        S* out = out_row + w0 * spacing;
        for (dim_t i = 0; i < count; ++i) out[i * spacing] = static_cast<S>(sums[i]);
      }
    }
  }
}

// One tap of one position: where its input and its row of weights begin.
template <class S, class T>
struct TapRow {
  const S* input;
  const T* weights;
};

template <int vectors, class S, class T>
inline void sum_channels(const TapRow<S, T>* rows, dim_t count, const T* bias, dim_t c, S* out) {
  constexpr int lanes = VectorOf<T>::lanes;
  Vector<T> sums[vectors];
  for (int v = 0; v < vectors; ++v) sums[v] = load_vector(bias + c + v * lanes);
  for (dim_t t = 0; t < count; ++t) {
    const S* from = rows[t].input + c;
    const T* weights = rows[t].weights + c;
    for (int v = 0; v < vectors; ++v)
      sums[v] += load_as<S, T>(from + v * lanes) * load_vector(weights + v * lanes);
  }
  for (int v = 0; v < vectors; ++v) {
    if constexpr (same_type<S, T>) {
      store_vector(out + c + v * lanes, sums[v]);
    } else {
      for (int i = 0; i < lanes; ++i) out[c + v * lanes + i] = static_cast<S>(sums[v][i]);
    }
  }
}

template <class S>
void convolve_channels_last(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass) {
  using T = Compute<S>;
  constexpr int lanes = VectorOf<T>::lanes;
  const dim_t channels = shape.groups, taps = pass.tap_count;
  // Weights as [tap][channel], then the bias.
  T* weights = ctx.allocate_scratch_array<T>(static_cast<size_t>((taps + 1) * channels));
  TapRow<S, T>* rows = ctx.allocate_scratch_array<TapRow<S, T>>(static_cast<size_t>(taps + 1));
  if (!weights || !rows) return;
  const S* from = static_cast<const S*>(shape.weight);
  for (dim_t t = 0; t < taps; ++t) {
    for (dim_t c = 0; c < channels; ++c) {
      weights[t * channels + c] = static_cast<T>(from[c * shape.weight_group + pass.taps[t].weight]);
    }
  }
  T* bias = weights + taps * channels;
  for (dim_t c = 0; c < channels; ++c) {
    bias[c] = shape.bias ? static_cast<T>(static_cast<const S*>(shape.bias)[c * shape.bias_stride]) : T(0);
  }
  for (dim_t image = 0; image < shape.batch; ++image) {
    const S* input = static_cast<const S*>(shape.input) + image * shape.input_batch;
    S* output = static_cast<S*>(shape.out) + image * shape.output_batch + pass.output_first;
    for (dim_t d = 0; d < pass.q[0]; ++d) {
      for (dim_t h = 0; h < pass.q[1]; ++h) {
        for (dim_t w = 0; w < pass.q[2]; ++w) {
          const dim_t at[3] = {d * pass.in_step[0], h * pass.in_step[1], w * pass.in_step[2]};
          const S* here = input + d * pass.input_step[0] + h * pass.input_step[1] + w * pass.input_step[2];
          S* out = output + d * pass.output_step[0] + h * pass.output_step[1] + w * pass.output_step[2];
          dim_t count = 0;
          for (dim_t t = 0; t < taps; ++t) {
            if (tap_inside(shape, pass.taps[t], at))
              rows[count++] = {here + pass.taps[t].input, weights + t * channels};
          }
          dim_t c = 0;
          for (; c + 4 * lanes <= channels; c += 4 * lanes) sum_channels<4>(rows, count, bias, c, out);
          for (; c + lanes <= channels; c += lanes) sum_channels<1>(rows, count, bias, c, out);
          for (; c < channels; ++c) {
            T sum = bias[c];
            for (dim_t t = 0; t < count; ++t) sum += static_cast<T>(rows[t].input[c]) * rows[t].weights[c];
            out[c] = static_cast<S>(sum);
          }
        }
      }
    }
  }
}

}  // namespace

bool convolve_depthwise(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass) {
  dispatch<Real>(ctx, shape.dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    if (shape.groups > 1 && shape.input_channel == 1 && shape.output_channel == 1) {
      convolve_channels_last<S>(ctx, shape, pass);
      return;
    }
    for (dim_t image = 0; image < shape.batch; ++image) {
      for (dim_t channel = 0; channel < shape.groups; ++channel)
        convolve_rows<S>(shape, pass, image, channel);
    }
  });
  return ctx.ok();
}

}  // namespace penlight::portable
