// Convolutions of groups with so few channels that a vector holds several, or one where windows slide.
//
// A vector is of the outputs of neighbouring groups here. For each channel of a group its lanes need the
// input of their own group: one shuffle of the vector that has the inputs of these groups. Weights, of which
// each group has panels of its own, are laid out as such vectors first.
#pragma once

#include "few_outputs.h"
#include "sliding_groups.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// As many outputs as inputs of each group, 2, 4 or 8 of them, and more than one group to a vector, or one
// that slides; also in a part that has one group alone, which is added up alike then.
inline bool has_narrow_groups(const Product& p) {
  const ptrdiff_t width = p.channels, most = slides(p.geometry) ? kLanes : kLanes - 1;
  return p.outputs == width && width > 1 && width <= most && width <= 8 && (width & (width - 1)) == 0 &&
         p.pixel > p.channels && !p.parts;
}

// Elements of the weights that are laid out at once: of all blocks where they slide.
inline ptrdiff_t size_of_groups(const Product& p) {
  const ptrdiff_t together = kLanes / p.channels;
  const ptrdiff_t blocks = (p.last_group - p.first_group + together - 1) / together;
  return (slides(p.geometry) ? blocks : 1) * size_of_block(p);
}

// Weights of the `groups` groups from `packed` on, each in panels of so many steps.
template <class Weights, int width>
void lay_out_groups(const typename Weights::Element* packed, ptrdiff_t steps, ptrdiff_t groups, float* to) {
  for (ptrdiff_t k = 0; k < steps; ++k, to += kLanes) {
    store(to, Floats{});
    for (ptrdiff_t g = 0; g < groups; ++g) {
      const Floats step = Weights::load(packed + (g * steps + k) * kPanel);
      memcpy(to + g * width, &step, width * sizeof(float));
    }
  }
}

// One tile of rows by the outputs of one block, which begin at channel `first`.
template <int width>
void multiply_block(const float* const* rows, ptrdiff_t taps, ptrdiff_t first, ptrdiff_t stored,
                    const float* weights, const Finish& f, ptrdiff_t row) {
  Floats sums[kRows][1];
  const Floats bias = load(weights);
  repeat<kRows>([&](auto i) __attribute__((always_inline)) { sums[i][0] = bias; });
  const float* w = weights + kLanes;
  for (ptrdiff_t t = 0; t < taps; ++t, rows += kRows, w += width * kLanes) {
    if (!rows[0]) continue;
    Floats inputs[kRows];
    repeat<kRows>([&](auto i)
                      __attribute__((always_inline)) { inputs[i] = load_part(rows[i] + first, f.columns); });
    repeat<width>([&](auto c) __attribute__((always_inline)) {
      const Floats weight = load(w + c * kLanes);
      repeat<kRows>([&](auto i) __attribute__((always_inline)) {
        sums[i][0] += shuffle<OfGroup<width, c>>(inputs[i], inputs[i]) * weight;
      });
    });
  }
  finish_tile(f, row, stored, sums);
}

template <class Weights, int width>
void multiply_groups_of(const Product& p) {
  using Element = typename Weights::Element;
  const ptrdiff_t taps = p.geometry.taps_h * p.geometry.taps_w, steps = 1 + taps * width;
  constexpr ptrdiff_t together = kLanes / width;
  const ptrdiff_t most = rows_of_block(p);
  const float** pointers = static_cast<const float**>(p.scratch);
  float* const weights = reinterpret_cast<float*>(pointers + most * taps);
  const auto lay_out = [&](ptrdiff_t group, ptrdiff_t groups, float* to) {
    const Element* const packed = static_cast<const Element*>(p.packed) + group * steps * kPanel;
    lay_out_groups<Weights, width>(packed, steps, groups, to);
  };
  if constexpr (kSlides) {
    if (slides(p.geometry)) {
      float* to = weights;
      for (ptrdiff_t group = p.first_group; group < p.last_group; group += together, to += size_of_block(p)) {
        lay_out(group, min_of(together, p.last_group - group), to);
      }
      return p.geometry.stride_w == 1 ? slide_groups<width, 1>(p, weights)
                                      : slide_groups<width, 2>(p, weights);
    }
  }
  if constexpr (together > 1) {
    Rows rows(p, pointers);
    for (ptrdiff_t row = p.first_row; row < p.last_row; row += most) {
      const ptrdiff_t count = min_of(most, p.last_row - row);
      rows.locate(row, count);
      for (ptrdiff_t group = p.first_group; group < p.last_group; group += together) {
        const ptrdiff_t groups = min_of(together, p.last_group - group), first = group * width;
        lay_out(group, groups, weights);
        const ptrdiff_t offset = row * p.output_pitch + first;
        Finish finish = {p.output + offset, p.output_pitch, groups * width, p.epilogue};
        if (p.epilogue.residual) finish.epilogue.residual = p.epilogue.residual + offset;
        for (ptrdiff_t r = 0; r < count; r += kRows) {
          multiply_block<width>(pointers + r * taps, taps, first, min_of(kRows, count - r), weights, finish,
                                r);
        }
      }
    }
  }
}

template <class Weights>
void multiply_narrow_groups(const Product& p) {
  if (p.outputs == 2) return multiply_groups_of<Weights, 2>(p);
  if constexpr (kLanes > 4) {
    if (p.outputs == 4) return multiply_groups_of<Weights, 4>(p);
  }
  if constexpr (kLanes >= 8) multiply_groups_of<Weights, 8>(p);
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
