// Packs the weights of a convolution that a program computes, in each run, as the compiler packs
// constant ones (src/penlight/passes/packing.py has the layouts).
#include "packed.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

// Weights [output][channel][row of taps][tap] where they lie, with elements from one to the next;
// taps may go backwards.
struct Weights {
  const float* first;
  dim_t outputs, channels, taps[2];
  dim_t output, channel, tap[2];
};

Weights weights_of(const Tensor& weight, bool transposed) {
  const dim_t o = transposed ? 1 : 0, c = 1 - o;
  const bool is_image = weight.dim() == 4;
  return {weight.const_data_ptr<float>(),
          weight.size(o),
          weight.size(c),
          {is_image ? weight.size(2) : 1, weight.size(weight.dim() - 1)},
          weight.stride(o),
          weight.stride(c),
          {is_image ? weight.stride(2) : 0, weight.stride(weight.dim() - 1)}};
}

dim_t depth_of(const Weights& w) { return w.taps[0] * w.taps[1] * w.channels; }

// The taps of a transposed convolution that are `stride` apart from tap `phase` on, the last of them first.
Weights phase_of(const Weights& w, ArrayRef<int64_t> stride, const dim_t (&phase)[2]) {
  Weights mine = w;
  for (size_t d = 0; d < 2; ++d) {
    const dim_t step = static_cast<dim_t>(stride[d]);
    mine.taps[d] = phase[d] < w.taps[d] ? (w.taps[d] - phase[d] - 1) / step + 1 : 0;
    mine.tap[d] = -w.tap[d] * step;
    if (mine.taps[d] > 0) mine.first += (phase[d] + (mine.taps[d] - 1) * step) * w.tap[d];
  }
  return mine;
}

// The panel of `count` outputs from `output` on: their biases, or zeros, and then each step of the sum. No
// bias is -0, which would tell padding that is left out from padding that is multiplied.
void pack_panel(const Weights& w, const float* bias, dim_t output, dim_t count, float* to) {
  for (dim_t i = 0; i < kPanel; ++i) to[i] = bias && i < count ? bias[output + i] + 0.0f : 0.0f;
  to += kPanel;
  const float* const first = w.first + output * w.output;
  for (dim_t c = 0; c < w.channels; ++c) {
    for (dim_t th = 0; th < w.taps[0]; ++th) {
      for (dim_t tw = 0; tw < w.taps[1]; ++tw) {
        const float* from = first + c * w.channel + th * w.tap[0] + tw * w.tap[1];
        float* const step = to + ((th * w.taps[1] + tw) * w.channels + c) * kPanel;
        for (dim_t i = 0; i < kPanel; ++i) step[i] = i < count ? from[i * w.output] : 0.0f;
      }
    }
  }
}

void pack_groups(KernelContext& ctx, const Weights& w, const float* bias, dim_t groups, float* to) {
  const dim_t each = w.outputs / groups, panels = round_to_panel(each) / kPanel,
              size = (1 + depth_of(w)) * kPanel;
  in_parts(ctx, groups * panels, 2.0 * static_cast<double>(size), [&](Range range) {
    for (dim_t p = range.first; p < range.last; ++p) {
      const dim_t inside = p % panels * kPanel, left = each - inside;
      pack_panel(w, bias, p / panels * each + inside, left < kPanel ? left : kPanel, to + p * size);
    }
  });
}

void pack_taps(const Weights& w, const float* bias, float* to) {
  const dim_t padded = round_to_panel(w.outputs);
  for (dim_t i = 0; i < padded; ++i) to[i] = bias && i < w.outputs ? bias[i] : 0.0f;
  for (dim_t th = 0; th < w.taps[0]; ++th) {
    for (dim_t tw = 0; tw < w.taps[1]; ++tw) {
      const float* from = w.first + th * w.tap[0] + tw * w.tap[1];
      to += padded;
      for (dim_t i = 0; i < padded; ++i) to[i] = i < w.outputs ? from[i * w.output] : 0.0f;
    }
  }
}

// Elements of the packed weights; false where the arguments are none of a convolution.
bool size_of(const Weights& w, int64_t groups, ArrayRef<int64_t> stride, dim_t& size) {
  dim_t taps = 0, depth = 0, each = 0;
  const bool known = multiply_sizes(w.taps[0], w.taps[1], taps) && multiply_sizes(taps, w.channels, depth);
  if (!known || groups < 1 || w.outputs % groups != 0) return false;
  if (stride.size() == 0) {
    const bool depthwise = groups > 1 && w.channels == 1;
    const dim_t outputs = depthwise ? w.outputs : w.outputs / static_cast<dim_t>(groups);
    return packed_size(outputs, depth, each) &&
           multiply_sizes(each, depthwise ? 1 : static_cast<dim_t>(groups), size);
  }
  // The panels of each phase have the biases; together they have each weight once.
  dim_t phases = 0;
  return groups == 1 && stride.size() == 2 && stride[0] > 0 && stride[1] > 0 &&
         multiply_sizes(static_cast<dim_t>(stride[0]), static_cast<dim_t>(stride[1]), phases) &&
         !__builtin_add_overflow(depth, phases - 1, &depth) && packed_size(w.outputs, depth, size);
}

}  // namespace

Tensor& pack_convolution_out(KernelContext& ctx, const Tensor& weight, const Optional<Tensor>& bias,
                             int64_t groups, ArrayRef<int64_t> stride, Tensor& out) {
  if ((weight.dim() != 3 && weight.dim() != 4) || !is_float(weight) || !is_float(out))
    return ctx.fail(out, Status::InvalidArgument,
                    "pack_convolution takes float32 weights of 3 or 4 dimensions");
  const Weights w = weights_of(weight, stride.size() > 0);
  dim_t size = 0;
  if (!size_of(w, groups, stride, size))
    return ctx.fail(out, Status::InvalidArgument, "{} outputs cannot be packed in {} groups", w.outputs,
                    groups);
  if (!is_row(bias, w.outputs))
    return ctx.fail(out, Status::InvalidArgument, "the bias is not a row of {} float32 numbers", w.outputs);
  if (!ctx.resize(out, SizesRef(&size, 1)) || size == 0) return out;
  const float* const biases = data_of(bias);
  float* to = out.mutable_data_ptr<float>();
  if (stride.size() == 0) {
    if (groups > 1 && w.channels == 1) {
      pack_taps(w, biases, to);
    } else {
      pack_groups(ctx, w, biases, static_cast<dim_t>(groups), to);
    }
    return out;
  }
  const dim_t steps[] = {static_cast<dim_t>(stride[0]), static_cast<dim_t>(stride[1])};
  for (dim_t i = 0; i < steps[0] * steps[1]; ++i) {
    const Weights mine = phase_of(w, stride, {i / steps[1], i % steps[1]});
    pack_groups(ctx, mine, biases, 1, to);
    to += round_to_panel(w.outputs) * (1 + depth_of(mine));
  }
  return out;
}

}  // namespace penlight::optimized
