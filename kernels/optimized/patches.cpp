#include "patches.h"

#include <string.h>

#include "parallel.h"
#include "product.h"

#ifndef __OPTIMIZE_SIZE__

namespace penlight::optimized {

#if defined(__clang__)
#define PENLIGHT_PICK(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PENLIGHT_PICK(a, b, ...) __builtin_shuffle(a, b, Places{__VA_ARGS__})
#endif

namespace {

// Terms of a sum from which on the weights of a tile are more than the first cache holds, and a product of
// matrices, which reads them in blocks, gains more than copying the patches takes.
constexpr dim_t kFewest = 384;
// Elements of the patches that are multiplied at once, which are to stay in a near cache.
constexpr dim_t kBlock = 1 << 18;

// Is no pixel in two windows, and is all of each within the image?
bool are_patches(const Geometry& g) {
  return g.stride_h >= g.taps_h && g.stride_w >= g.taps_w && g.pad_h == 0 && g.pad_w == 0 &&
         g.dilation_h == 1 && g.dilation_w == 1 && (g.out_height - 1) * g.stride_h + g.taps_h <= g.height &&
         (g.out_width - 1) * g.stride_w + g.taps_w <= g.width;
}

typedef float Four __attribute__((vector_size(16)));
typedef int32_t Places __attribute__((vector_size(16)));

Four load_four(const float* from) {
  Four value;
  memcpy(&value, from, sizeof value);
  return value;
}

// `count` pixels of three channels that lie one after the other.
void interleave(const float* from, dim_t plane, dim_t count, float* to) {
  for (; count >= 4; count -= 4, from += 4, to += 12) {
    const Four r = load_four(from), g = load_four(from + plane), b = load_four(from + 2 * plane);
    const Four low = PENLIGHT_PICK(r, g, 0, 4, 1, 5), high = PENLIGHT_PICK(r, g, 2, 6, 3, 7);
    const Four pixels[] = {PENLIGHT_PICK(low, b, 0, 1, 4, 2),
                           PENLIGHT_PICK(PENLIGHT_PICK(low, b, 3, 5, 3, 5), high, 0, 1, 4, 5),
                           PENLIGHT_PICK(high, b, 6, 2, 3, 7)};
    memcpy(to, pixels, sizeof pixels);
  }
  for (; count > 0; --count, ++from, to += 3) {
    for (dim_t c = 0; c < 3; ++c) to[c] = from[c * plane];
  }
}

// One row of a window, its pixels' channels side by side.
void copy_row(const float* from, dim_t channels, dim_t plane, dim_t count, float* to) {
  if (channels == 3) return interleave(from, plane, count, to);
  for (dim_t i = 0; i < count; ++i) {
    for (dim_t c = 0; c < channels; ++c) *to++ = from[i + c * plane];
  }
}

// The windows of outputs [first, last), numbered over all images.
void copy_patches(const Tensor& input, const Geometry& g, dim_t first, dim_t last, float* to) {
  const dim_t channels = input.size(1), plane = g.height * g.width, row = g.taps_w * channels;
  const bool planar = !is_channels_last(input);
  const float* const images = input.const_data_ptr<float>();
  for (dim_t i = first; i < last; ++i) {
    const dim_t line = i / g.out_width, image = line / g.out_height;
    const dim_t pixel = line % g.out_height * g.stride_h * g.width + i % g.out_width * g.stride_w;
    const float* from = images + image * plane * channels + pixel * (planar ? 1 : channels);
    for (dim_t t = 0; t < g.taps_h; ++t, to += row) {
      if (planar) {
        copy_row(from + t * g.width, channels, plane, g.taps_w, to);
      } else {
        memcpy(to, from + t * g.width * channels, static_cast<size_t>(row) * sizeof(float));
      }
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
