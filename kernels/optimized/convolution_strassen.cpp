// Convolutions by windows of one pixel, over many pixels, by Strassen's algorithm.
#include "convolution.h"

namespace penlight::optimized {

Tensor& conv2d_strassen_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                                   const Optional<Tensor>& residual, ArrayRef<int64_t> window,
                                   ArrayRef<int64_t> stride, ArrayRef<int64_t> padding,
                                   ArrayRef<int64_t> dilation, int64_t groups, ArrayRef<int64_t> direct,
                                   int64_t activation, double low, double high, Tensor& out) {
  PackedConvolution call = {{&input, 1}, weight, residual,   window, stride, padding,
                            dilation,    groups, activation, low,    high};
  const Blocks blocks = {direct.data(), static_cast<dim_t>(direct.size())};
  call.blocks = &blocks;
  convolve(ctx, call, out);
  return out;
}

}  // namespace penlight::optimized
