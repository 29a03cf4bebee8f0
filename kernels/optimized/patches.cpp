#include "patches.h"

#include "kernels/common/move.h"
#include "parallel.h"
#include "product.h"

#ifndef __OPTIMIZE_SIZE__

namespace penlight::optimized {

namespace {

// Terms of a sum from which on the weights of a tile are more than the first cache holds, and a product of
// matrices, which reads them in blocks, gains more than copying the patches takes.
constexpr dim_t kFewest = 384;
// Elements of the patches that are copied and multiplied at once: no batch needs memory for all of its own.
constexpr dim_t kBlock = 1 << 18;

// Is no pixel in two windows, and is all of each within the image?
bool are_patches(const Geometry& g) {
  return g.stride_h >= g.taps_h && g.stride_w >= g.taps_w && g.pad_h == 0 && g.pad_w == 0 &&
         g.dilation_h == 1 && g.dilation_w == 1 && (g.out_height - 1) * g.stride_h + g.taps_h <= g.height &&
         (g.out_width - 1) * g.stride_w + g.taps_w <= g.width;
}

// The windows of outputs [first, last), numbered over all images; their pixels' channels side by side. Lines
// of the image are read whole, for all windows of a line of outputs, rather than window by window.
void copy_patches(const Tensor& input, const Geometry& g, dim_t first, dim_t last, float* to) {
  constexpr dim_t kSize = sizeof(float);
  const dim_t channels = input.size(1), row = g.taps_w * channels, depth = g.taps_h * row;
  const bool planar = !is_channels_last(input);
  const dim_t column = planar ? 1 : channels, channel = planar ? g.height * g.width : 1;
  const dim_t from[] = {g.stride_w * column * kSize, column * kSize, channel * kSize};
  const dim_t side_by_side[] = {depth * kSize, channels * kSize, kSize};
  const char* const images = reinterpret_cast<const char*>(input.const_data_ptr<float>());
  for (dim_t i = first, windows; i < last; i += windows, to += windows * depth) {
    const dim_t line = i / g.out_width, x = i % g.out_width, image = line / g.out_height;
    windows = g.out_width - x < last - i ? g.out_width - x : last - i;
    const dim_t sizes[] = {windows, g.taps_w, channels};
    const Mover taps(sizeof(float), 3, sizes, from, side_by_side);
    const dim_t pixel = line % g.out_height * g.stride_h * g.width + x * g.stride_w;
    const char* corner = images + (image * g.height * g.width * channels + pixel * column) * kSize;
    for (dim_t tap = 0; tap < g.taps_h; ++tap, corner += g.width * column * kSize) {
      taps.run(corner, reinterpret_cast<char*>(to + tap * row));
    }
  }
}

}  // namespace

bool run_patches(KernelContext& ctx, const Tensor& input, const Tensor& weight, const Window& window,
                 const Epilogue& epilogue, Tensor& out) {
  const dim_t depth = window.taps[0] * window.taps[1] * input.size(1), outputs = out.size(1);
  const Geometry g = geometry_of(input, window, out.size(2), out.size(3));
  const dim_t rows = out.numel() / outputs;
  if (!are_patches(g) || depth < kFewest || rows < 2) return false;
  const dim_t fit = kBlock / depth > 64 ? kBlock / depth : 64, block = rows < fit ? rows : fit;
  float* const patches = ctx.allocate_scratch_array<float>(static_cast<size_t>(block * depth));
  if (!patches) return true;
  Product product = over_matrix(block, depth, depth, outputs, outputs);
  product.packed = weight.const_data_ptr();
  product.input = patches;
  ProductScratch scratch;
  for (dim_t first = 0; first < rows; first += block) {
    const dim_t count = rows - first < block ? rows - first : block, before = first * outputs;
    in_parts(ctx, count, static_cast<double>(depth), [&](Range range) {
      copy_patches(input, g, first + range.first, first + range.last, patches + range.first * depth);
    });
    product.geometry.width = product.geometry.out_width = product.rows = product.last_row = count;
    product.output = out.mutable_data_ptr<float>() + before;
    product.epilogue = epilogue;
    if (epilogue.residual) product.epilogue.residual = epilogue.residual + before;
    if (!run_product(ctx, product, &scratch)) return true;
  }
  return true;
}

}  // namespace penlight::optimized

#endif
