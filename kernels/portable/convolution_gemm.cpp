// Convolution as a product of the weights with patches of the input.
//
// Patches are cut out of the input while a block of them is packed (gemm.h), so
// the matrix of all patches never exists. k runs over channels and taps, channels
// inside when the input is channels-last, otherwise taps inside: the order in
// which both patches and weights lie in memory most of the time. The output's
// layout decides which operand is which: its densest dimension becomes n.
#include "convolution.h"

namespace penlight::portable {

namespace {

constexpr dim_t kMaxPanel = 8;

// One axis of k split into channels and taps.
struct ReductionOrder {
  dim_t channels, taps;
  bool channels_inside;

  dim_t k_of(dim_t channel, dim_t tap) const {
    return channels_inside ? tap * channels + channel : channel * taps + tap;
  }
  // The channels that, with this tap, fall into [k0, k0 + kc).
  void channels_in(dim_t tap, dim_t k0, dim_t kc, dim_t& first, dim_t& last) const {
    if (channels_inside) {
      first = clamp(k0 - tap * channels);
      last = clamp(k0 + kc - tap * channels);
    } else {
      first = clamp((k0 - tap + taps - 1) / taps);
      last = clamp((k0 + kc - tap + taps - 1) / taps);
    }
  }
  dim_t clamp(dim_t channel) const { return channel < 0 ? 0 : channel > channels ? channels : channel; }
};

template <class S>
struct Patches {
  const ConvShape* shape;
  const ConvPass* pass;
  const S* input;  // of this image and group
  ReductionOrder order;
};

// The positions of one panel: where they begin and whether they are evenly spaced.
struct PanelPositions {
  dim_t count;
  dim_t at[kMaxPanel][3];
  dim_t offset[kMaxPanel];
  bool even;
};

PanelPositions panel_positions(const ConvPass& pass, dim_t first, dim_t count) {
  PanelPositions panel;
  panel.count = count;
  panel.even = true;
  for (dim_t p = 0; p < count; ++p) {
    const dim_t position = first + p, row = position / pass.q[2];
    const dim_t at[] = {row / pass.q[1], row % pass.q[1], position % pass.q[2]};
    panel.offset[p] = 0;
    for (int d = 0; d < 3; ++d) {
      panel.at[p][d] = at[d] * pass.in_step[d];
      panel.offset[p] += at[d] * pass.input_step[d];
    }
    if (p && panel.offset[p] != panel.offset[p - 1] + pass.input_step[2]) panel.even = false;
  }
  return panel;
}

// All positions of a panel for one tap and a run of channels; `step` is from one
// channel to the next in the panel.
template <class S, class T>
void pack_tap(const Patches<S>& patches, const PanelPositions& panel, const ConvTap& tap, dim_t first,
              dim_t last, T* to, dim_t width, dim_t step) {
  const ConvShape& shape = *patches.shape;
  const dim_t channel = shape.from.channel;
  const S* from[kMaxPanel];
  bool all = panel.count == width;
  for (dim_t p = 0; p < width; ++p) {
    const bool inside = p < panel.count && tap_inside(shape, tap, panel.at[p]);
    from[p] = inside ? patches.input + panel.offset[p] + tap.input + first * channel : nullptr;
    all &= inside;
  }
  const dim_t run = last - first, spacing = patches.pass->input_step[2];
  if (all && panel.even && step == width)
    return pack_rows<S, T>(from[0], spacing, channel, width, run, to, width, 0);
  if constexpr (same_type<S, T>) {
    if (all && panel.even && spacing == 1) {
      for (dim_t c = 0; c < run; ++c) {
        for (dim_t p = 0; p < width; p += VectorOf<T>::lanes)
          store_vector(to + c * step + p, load_vector(from[0] + c * channel + p));
      }
      return;
    }
  }
  for (dim_t p = 0; p < width; ++p) {
    if (from[p]) {
      for (dim_t c = 0; c < run; ++c) to[c * step + p] = static_cast<T>(from[p][c * channel]);
    } else {
      for (dim_t c = 0; c < run; ++c) to[c * step + p] = T(0);
    }
  }
}

template <class S, class T>
void pack_patches(const void* operand, T* to, dim_t width, dim_t first, dim_t count, dim_t k0, dim_t kc) {
  const Patches<S>& patches = *static_cast<const Patches<S>*>(operand);
  const ReductionOrder& order = patches.order;
  for (dim_t i = 0; i < count; i += width, to += width * kc) {
    const PanelPositions panel =
        panel_positions(*patches.pass, first + i, count - i < width ? count - i : width);
    // With channels inside, only the taps this block of k touches.
    const dim_t tap0 = order.channels_inside ? k0 / order.channels : 0;
    const dim_t tap1 = order.channels_inside ? (k0 + kc - 1) / order.channels + 1 : order.taps;
    for (dim_t t = tap0; t < tap1; ++t) {
      dim_t c0, c1;
      order.channels_in(t, k0, kc, c0, c1);
      if (c0 >= c1) continue;
      const dim_t step = order.channels_inside ? width : order.taps * width;
      pack_tap<S, T>(patches, panel, patches.pass->taps[t], c0, c1, to + (order.k_of(c0, t) - k0) * width,
                     width, step);
    }
  }
}

template <class S>
struct Weights {
  const S* data;  // of this group
  dim_t stride_out, stride_in;
  const ConvTap* taps;
  ReductionOrder order;

  // Whether each k is as far from the one before, across channels too, as ordinary weights lie.
  bool even() const {
    if (order.channels_inside || order.taps < 2) return order.taps == 1;
    const dim_t step = taps[1].weight - taps[0].weight;
    bool all = stride_in == order.taps * step;
    for (dim_t t = 1; t < order.taps; ++t) all &= taps[t].weight - taps[t - 1].weight == step;
    return all;
  }
};

template <class S, class T>
void pack_weights(const void* operand, T* to, dim_t width, dim_t first, dim_t count, dim_t k0, dim_t kc) {
  const Weights<S>& weights = *static_cast<const Weights<S>*>(operand);
  const ReductionOrder& order = weights.order;
  const bool even = weights.even();
  const dim_t step =
      even && order.taps > 1 ? weights.taps[1].weight - weights.taps[0].weight : weights.stride_in;
  for (dim_t k = k0, run = 1; k < k0 + kc; k += run) {
    const dim_t channel = order.channels_inside ? k % order.channels : k / order.taps;
    const dim_t tap = order.channels_inside ? k / order.channels : k % order.taps;
    if (order.channels_inside) run = order.channels - channel;
    if (even || run > k0 + kc - k) run = k0 + kc - k;
    pack_rows<S, T>(
        weights.data + first * weights.stride_out + weights.taps[tap].weight + channel * weights.stride_in,
        weights.stride_out, step, count, run, to + (k - k0) * width, width, width * kc);
  }
}

template <class S>
struct ConvResult {
  const ConvPass* pass;
  S* out;  // of this image and group
  dim_t channel;
  const S* bias;
  dim_t bias_stride;
  bool even;  // positions are evenly spaced by output_step[2]
};

// Rows of output positions: fn(first position, count, offset in the output).
template <class S, class Fn>
void for_position_runs(const ConvResult<S>& result, dim_t first, dim_t count, Fn&& fn) {
  const ConvPass& pass = *result.pass;
  if (result.even) return fn(dim_t{0}, count, pass.output_first + first * pass.output_step[2]);
  dim_t done = 0;
  while (done < count) {
    const dim_t position = first + done;
    const dim_t w = position % pass.q[2], rest = position / pass.q[2];
    const dim_t h = rest % pass.q[1], d = rest / pass.q[1];
    dim_t run = pass.q[2] - w;
    if (run > count - done) run = count - done;
    fn(done, run,
       pass.output_first + d * pass.output_step[0] + h * pass.output_step[1] + w * pass.output_step[2]);
    done += run;
  }
}

// Rows of the tile are channels, columns are positions.
template <class S, class T>
void store_channels(const void* where, const T* tile, dim_t ld, dim_t m0, dim_t n0, dim_t rows, dim_t cols) {
  const ConvResult<S>& result = *static_cast<const ConvResult<S>*>(where);
  for_position_runs(result, n0, cols, [&](dim_t at, dim_t count, dim_t offset) {
    for (dim_t i = 0; i < rows; ++i) {
      store_sums(tile + i * ld + at, result.bias ? result.bias + (m0 + i) * result.bias_stride : nullptr, 0,
                 result.out + (m0 + i) * result.channel + offset, result.pass->output_step[2], count);
    }
  });
}

// Rows of the tile are positions, columns are channels.
template <class S, class T>
void store_positions(const void* where, const T* tile, dim_t ld, dim_t m0, dim_t n0, dim_t rows, dim_t cols) {
  const ConvResult<S>& result = *static_cast<const ConvResult<S>*>(where);
  for_position_runs(result, m0, rows, [&](dim_t at, dim_t count, dim_t offset) {
    for (dim_t i = 0; i < count; ++i) {
      store_sums(tile + (at + i) * ld, result.bias ? result.bias + n0 * result.bias_stride : nullptr,
                 result.bias_stride,
                 result.out + offset + i * result.pass->output_step[2] + n0 * result.channel, result.channel,
                 cols);
    }
  });
}

// Positions evenly spaced in memory, so that three dimensions are one.
bool evenly_spaced(const dim_t q[3], const dim_t step[3]) {
  dim_t expected = step[2];
  for (int d = 2; d >= 0; --d) {
    if (q[d] == 1) continue;
    if (step[d] != expected) return false;
    expected *= q[d];
  }
  return true;
}

// One tap that never leaves the input: patches are then a plain matrix.
bool is_pointwise(const ConvShape& shape, const ConvPass& pass) {
  if (pass.tap_count != 1) return false;
  const dim_t first[3] = {0, 0, 0};
  dim_t last[3];
  for (int d = 0; d < 3; ++d) last[d] = (pass.q[d] - 1) * pass.in_step[d];
  return tap_inside(shape, pass.taps[0], first) && tap_inside(shape, pass.taps[0], last) &&
         evenly_spaced(pass.q, pass.input_step);
}

template <class S, class T>
void convolve_as(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass, ConvWorkspace& workspace) {
  const dim_t positions = pass.positions(), k = shape.in_channels * pass.tap_count;
  const ReductionOrder order = {shape.in_channels, pass.tap_count,
                                shape.from.channel == 1 || pass.tap_count == 1};
  const bool channels_last = shape.to.channel == 1 && shape.out_channels > 1;
  const bool pointwise = is_pointwise(shape, pass);

  Patches<S> patches = {&shape, &pass, nullptr, order};
  StridedOperand plain = {nullptr, pass.input_step[2], shape.from.channel};
  Weights<S> weights = {nullptr, shape.weight_out, shape.weight_in, pass.taps, order};
  ConvResult<S> result = {&pass,   nullptr,           shape.to.channel,
                          nullptr, shape.bias_stride, evenly_spaced(pass.q, pass.output_step)};
  const PackFn<T> pack_input = pointwise ? pack_strided<S, T> : pack_patches<S, T>;
  const void* input = pointwise ? static_cast<const void*>(&plain) : &patches;
  const Gemm<T> gemm =
      channels_last
          ? Gemm<T>{positions, shape.out_channels,    k,      pack_input, input, pack_weights<S, T>,
                    &weights,  store_positions<S, T>, &result}
          : Gemm<T>{shape.out_channels,   positions, k, pack_weights<S, T>, &weights, pack_input, input,
                    store_channels<S, T>, &result};
  if (!workspace.gemm.tile) {
    const dim_t most_k = shape.in_channels * shape.most_taps, m = shape.out_channels,
                n = shape.most_positions;
    workspace.gemm = make_gemm_buffer<T>(ctx, channels_last ? n : m, channels_last ? m : n, most_k);
    if (!ctx.ok()) return;
  }
  for (dim_t image = 0; image < shape.batch; ++image) {
    for (dim_t group = 0; group < shape.groups; ++group) {
      patches.input = static_cast<const S*>(shape.input) + image * shape.from.batch +
                      group * shape.in_channels * shape.from.channel;
      if (pointwise) plain.data = patches.input + pass.taps[0].input;
      weights.data = static_cast<const S*>(shape.weight) + group * shape.weight_group;
      result.out =
          static_cast<S*>(shape.out) + image * shape.to.batch + group * shape.out_channels * shape.to.channel;
      if (shape.bias)
        result.bias = static_cast<const S*>(shape.bias) + group * shape.out_channels * shape.bias_stride;
      run_gemm(gemm, workspace.gemm);
    }
  }
}

}  // namespace

bool convolve_gemm(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass,
                   ConvWorkspace& workspace) {
  if constexpr (dtype_selected(ScalarType::Float) && kFewProducts > 0) {
    if (shape.exact) return convolve_as<float, double>(ctx, shape, pass, workspace), true;
  }
  return dispatch<Real>(ctx, shape.dtype, [&](auto tag) {
    using S = typename decltype(tag)::type;
    convolve_as<S, Compute<S>>(ctx, shape, pass, workspace);
  });
}

}  // namespace penlight::portable
