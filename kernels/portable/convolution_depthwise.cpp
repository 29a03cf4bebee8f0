// Depthwise convolution: every channel with its own kernel, nothing to share.
//
// Channels-last input is computed a few vectors of channels at a time, with the
// taps that lie inside listed once for each position. Any other layout is computed
// a row at a time: a few vectors of positions where every tap is inside, the ends
// one by one.
#include "convolution.h"
#include "kernels/common/convert.h"
#include "vector.h"

namespace penlight::portable {

namespace {

template <class S, class T>
inline void store_as(S* to, Vector<T> value) {
  if constexpr (same_type<S, T>) {
    store_vector(to, value);
  } else {
    for (int i = 0; i < VectorOf<T>::lanes; ++i) to[i] = static_cast<S>(value[i]);
  }
}

// One tap on one row of outputs: what it reads for position 0 (perhaps before the
// row's begin), and its weight.
template <class S>
struct RowTap {
  const S* input;
  Compute<S> weight;
  dim_t delta;
};

template <int step, class S>
inline Vector<Compute<S>> load_positions(const S* from) {
  if constexpr (step == 2) {
    return load_every_second(from);
  } else {
    return load_vector_as<S, Compute<S>>(from);
  }
}

// Positions [w, w + vectors * lanes), all of whose taps lie inside the row.
template <int vectors, int step, class S>
inline void sum_positions(const RowTap<S>* taps, dim_t count, Compute<S> bias, dim_t w, S* out) {
  using T = Compute<S>;
  constexpr int lanes = VectorOf<T>::lanes;
  Vector<T> sums[vectors];
  repeat<vectors>([&](auto v) { sums[v] = splat(bias); });
  for (dim_t t = 0; t < count; ++t) {
    const S* from = taps[t].input + w * step;
    const Vector<T> weight = splat(taps[t].weight);
    repeat<vectors>([&](auto v) { sums[v] += weight * load_positions<step>(from + v * lanes * step); });
  }
  repeat<vectors>([&](auto v) { store_as<S, T>(out + w + v * lanes, sums[v]); });
}

// Whole vectors of positions from `first` up to `end`; returns where it stopped.
template <int step, class S>
dim_t sum_inner(const RowTap<S>* taps, dim_t count, Compute<S> bias, dim_t first, dim_t end, S* out) {
  constexpr int lanes = VectorOf<Compute<S>>::lanes;
  dim_t w = first;
  for (; w + 4 * lanes <= end; w += 4 * lanes) sum_positions<4, step>(taps, count, bias, w, out);
  for (; w + lanes <= end; w += lanes) sum_positions<1, step>(taps, count, bias, w, out);
  return w;
}

// One row of outputs. `taps` are those whose other coordinates are inside.
template <class S>
void convolve_row(const ConvShape& shape, const ConvPass& pass, const RowTap<S>* taps, dim_t count,
                  Compute<S> bias, S* out) {
  using T = Compute<S>;
  const dim_t width = shape.input_size[2], step = pass.in_step[2], spacing = pass.output_step[2];
  const auto one = [&](dim_t w) {
    T sum = bias;
    for (dim_t t = 0; t < count; ++t) {
      const dim_t x = w * step + taps[t].delta;
      if (x >= 0 && x < width) sum += taps[t].weight * static_cast<T>(taps[t].input[w * pass.input_step[2]]);
    }
    out[w * spacing] = static_cast<S>(sum);
  };
  // Between `first` and `end` every tap is inside.
  dim_t lowest = 0, highest = 0;
  for (dim_t t = 0; t < count; ++t) {
    if (taps[t].delta < lowest) lowest = taps[t].delta;
    if (taps[t].delta > highest) highest = taps[t].delta;
  }
  const bool pairs = step == 2 && pass.input_step[2] == 2 && same_type<S, float>;
  const bool vectors =
      !kSmallCode && spacing == 1 && count > 0 && (pairs || (step == 1 && pass.input_step[2] == 1));
  dim_t w = 0;
  if (vectors) {
    // Pairs read one element more than they use.
    const dim_t room = width - highest - (pairs ? 1 : 0);
    dim_t first = (-lowest + step - 1) / step, end = room > 0 ? (room - 1) / step + 1 : 0;
    if (first > pass.q[2]) first = pass.q[2];
    if (end > pass.q[2]) end = pass.q[2];
    for (; w < first; ++w) one(w);
    if (pairs) {
      if constexpr (same_type<S, float>) w = sum_inner<2>(taps, count, bias, w, end, out);
    } else {
      w = sum_inner<1>(taps, count, bias, w, end, out);
    }
  }
  for (; w < pass.q[2]; ++w) one(w);
}

template <class S>
void convolve_rows(const ConvShape& shape, const ConvPass& pass, dim_t image, dim_t channel,
                   RowTap<S>* taps) {
  using T = Compute<S>;
  const S* input =
      static_cast<const S*>(shape.input) + image * shape.input_batch + channel * shape.input_channel;
  const S* weight = static_cast<const S*>(shape.weight) + channel * shape.weight_group;
  S* plane = static_cast<S*>(shape.out) + image * shape.output_batch + channel * shape.output_channel +
             pass.output_first;
  const T bias =
      shape.bias ? static_cast<T>(static_cast<const S*>(shape.bias)[channel * shape.bias_stride]) : T(0);
  for (dim_t d = 0; d < pass.q[0]; ++d) {
    for (dim_t h = 0; h < pass.q[1]; ++h) {
      const S* row = input + d * pass.input_step[0] + h * pass.input_step[1];
      dim_t count = 0;
      for (dim_t t = 0; t < pass.tap_count; ++t) {
        const ConvTap& tap = pass.taps[t];
        const dim_t z = d * pass.in_step[0] + tap.delta[0], y = h * pass.in_step[1] + tap.delta[1];
        if (z < 0 || z >= shape.input_size[0] || y < 0 || y >= shape.input_size[1]) continue;
        taps[count++] = {row + tap.input, static_cast<T>(weight[tap.weight]), tap.delta[2]};
      }
      convolve_row(shape, pass, taps, count, bias, plane + d * pass.output_step[0] + h * pass.output_step[1]);
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
  repeat<vectors>([&](auto v) { sums[v] = load_vector(bias + c + v * lanes); });
  for (dim_t t = 0; t < count; ++t) {
    const S* from = rows[t].input + c;
    const T* weights = rows[t].weights + c;
    repeat<vectors>([&](auto v) {
      sums[v] += load_vector_as<S, T>(from + v * lanes) * load_vector(weights + v * lanes);
    });
  }
  repeat<vectors>([&](auto v) { store_as<S, T>(out + c + v * lanes, sums[v]); });
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
    if (!kSmallCode && shape.groups > 1 && shape.input_channel == 1 && shape.output_channel == 1) {
      convolve_channels_last<S>(ctx, shape, pass);
      return;
    }
    RowTap<S>* taps = ctx.allocate_scratch_array<RowTap<S>>(static_cast<size_t>(pass.tap_count + 1));
    if (!taps) return;
    for (dim_t image = 0; image < shape.batch; ++image) {
      for (dim_t channel = 0; channel < shape.groups; ++channel)
        convolve_rows<S>(shape, pass, image, channel, taps);
    }
  });
  return ctx.ok();
}

}  // namespace penlight::portable
