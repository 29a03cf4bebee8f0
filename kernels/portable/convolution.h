// What the two ways to compute a convolution share: geometry without padding,
// stride and dilation.
//
// Whether transposed or not, a convolution is one or more *passes*. In a pass,
// position q of a grid writes output first + q * out_step and reads, for every
// tap of the kernel, input q * in_step + tap.delta, if that lies inside. An
// ordinary convolution is one pass over all outputs; a transposed one with stride
// s has a pass for each remainder of the output position by s, each with the taps
// that reach it, so that no multiplication with an inserted zero is ever made.
#pragma once

#include "gemm.h"
#include "volume.h"

namespace penlight::portable {

struct ConvTap {
  dim_t delta[3];
  dim_t input;   // offset of delta in the input
  dim_t weight;  // offset of this position in the kernel
};

struct ConvPass {
  dim_t q[3];  // positions of the grid
  dim_t in_step[3];
  dim_t input_step[3];   // input elements from one position to the next
  dim_t output_step[3];  // the same in the output
  dim_t output_first;    // offset of position 0 in the output
  const ConvTap* taps;
  dim_t tap_count;

  dim_t positions() const { return q[0] * q[1] * q[2]; }
};

struct ConvShape {
  dim_t batch, groups;
  dim_t in_channels, out_channels;            // of one group
  Volume from, to;                            // of input and output
  dim_t weight_in, weight_out, weight_group;  // strides, in elements
  ScalarType dtype;
  const void* input;
  const void* weight;
  const void* bias;  // null: none
  dim_t bias_stride;
  void* out;
  bool exact;  // sums of float are made in double
  // The largest of all passes, so that they can share scratch.
  dim_t most_positions, most_taps;
};

// Scratch, made by the first pass that needs it (or more of it).
struct ConvWorkspace {
  GemmBuffer gemm;
  void *tile = nullptr, *table = nullptr;  // of convolve_depthwise
  dim_t* offsets = nullptr;
  size_t tile_elements = 0;
};

// So many products of float at most are summed in double where that is cheap: results are then the
// nearest floats, whatever the order of the sum.
constexpr double kFewProducts = !kSmallCode && sizeof(void*) == 8 ? 1 << 17 : 0;

inline bool tap_inside(const ConvShape& shape, const ConvTap& tap, const dim_t at[3]) {
  for (int d = 0; d < 3; ++d) {
    const dim_t i = at[d] + tap.delta[d];
    if (i < 0 || i >= shape.from.sizes[d]) return false;
  }
  return true;
}

// Each group has one input channel. False where taps are so far apart that it is for the other.
bool convolve_depthwise(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass,
                        ConvWorkspace& workspace);

// Everything else: a matrix product of weights and patches for each group.
bool convolve_gemm(KernelContext& ctx, const ConvShape& shape, const ConvPass& pass,
                   ConvWorkspace& workspace);

}  // namespace penlight::portable
