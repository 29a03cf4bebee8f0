// Windows over time, of frames of videos that lie one after the other.
#pragma once

#include "convolution.h"

namespace penlight::optimized {

// Numbers of a direction of the window.
struct Numbers {
  dim_t taps, stride, before, behind, dilation;
};

// How the window passes over time.
struct Times {
  dim_t videos, frames, out;  // frames of one video
  Numbers window;
};

// Convolves images whose channels are those of all frames that a window reads, as `call` says but for its
// image, which is all frames. The channels of a group lie together, those of one frame after those of
// another. False, with the failure recorded, where they do not fit each other.
bool convolve_side_by_side(KernelContext& ctx, const PackedConvolution& call, const Times& times,
                           Tensor& out);

}  // namespace penlight::optimized
