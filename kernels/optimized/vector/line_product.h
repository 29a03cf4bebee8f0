// Rows of a matrix by one panel of weights, all of which registers hold: a product of few outputs and
// channels.
#pragma once

#include "folded.h"
#include "panel_lines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

inline bool is_line_product(const Product& p) {
  const bool is_dense = is_matrix(p.geometry) && !p.parts && p.pixel == p.channels;
  return is_held(p.channels) && is_dense && p.outputs > 2 && p.outputs <= kPanel &&
         p.format == Format::Float32 && !(p.few_sums && folded_columns_of(p));
}

inline void multiply_line_product(const Product& p) {
  const Panel panel = {static_cast<const float*>(p.packed), p.channels, p.pixel, nullptr, kMostPixels, 0};
  const ptrdiff_t count = p.last_row - p.first_row, whole = count / kFewPixels * kFewPixels;
  // No pixel twice, as the last tile of a line may have them: a residual may lie where the output does.
  const auto multiply = [&](ptrdiff_t first, ptrdiff_t pixels) {
    const ptrdiff_t offset = first * p.output_pitch;
    Finish finish = {p.output + offset, p.output_pitch, p.outputs, p.epilogue};
    if (finish.epilogue.residual) finish.epilogue.residual += offset;
    multiply_pixels(panel, p.input + first * p.pixel, pixels, finish);
  };
  if (whole) multiply(p.first_row, whole);
  if (whole < count) multiply(p.first_row + whole, count - whole);
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
