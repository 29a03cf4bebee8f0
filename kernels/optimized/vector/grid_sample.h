// A job of vector/grid_sample.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penlight::optimized {

constexpr ptrdiff_t kGridBlock = 64;  // positions whose pixels are found together

enum class GridPadding : uint8_t { Zeros, Border, Reflection };

// Samples of images, each at its own positions, `positions` of them in lines of `out_width`.
struct GridSample {
  const float* input;
  bool pixels;  // of which the channels of a pixel lie beside each other, else its planes
  ptrdiff_t channels, height, width;  // width * height fits 32 bits, each is exact in float32
  const float* grid;                  // two numbers of a position lie grid_axis apart
  ptrdiff_t grid_image, grid_line, grid_column, grid_axis;
  float* output;   // as the input; planes if there is room for samples
  float* samples;  // kGridBlock * channels, or null
  ptrdiff_t positions, out_width;
  int taps;  // pixels along an axis that make a sample: 1, the nearest, 2 or 4
  GridPadding padding;
  bool align_corners;
  ptrdiff_t first_block, last_block;  // of all images
};

}  // namespace penlight::optimized
