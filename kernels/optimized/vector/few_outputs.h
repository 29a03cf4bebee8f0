// Products with so few outputs that a panel of them is nearly empty.
//
// A vector is of channels here, and its lanes are added up at the end: pixels by outputs are one tile. The
// weights, which lie as panels, are laid out so first.
#pragma once

#include "dots.h"
#include "epilogue.h"
#include "folded.h"
#include "indirect.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Of those that folded vectors are for, but two.
inline bool has_few_outputs(const Product& p) {
  return p.by_channels && 2 * p.outputs <= kLanes && folded_columns_of(p) <= 2;
}

// Weights of one output: each tap's channels, and zeros up to whole vectors.
inline ptrdiff_t size_of_output(const Product& p) {
  return p.geometry.taps_h * p.geometry.taps_w * round_up(p.channels, kLanes);
}

template <class Weights>
PENLIGHT_INLINE float weight_at(const typename Weights::Element* step, ptrdiff_t output) {
  if constexpr (sizeof(typename Weights::Element) == sizeof(float)) return step[output];
  float lanes[kLanes];
  store(lanes, Weights::load(step));
  return lanes[output];
}

template <class Weights>
void lay_out_outputs(const Product& p, float* to) {
  using Element = typename Weights::Element;
  const Element* from = static_cast<const Element*>(p.packed) + kPanel;
  const ptrdiff_t taps = p.geometry.taps_h * p.geometry.taps_w, pitch = size_of_output(p),
                  padded = round_up(p.channels, kLanes);
  for (ptrdiff_t t = 0; t < taps; ++t, from += p.channels * kPanel, to += padded) {
    for (ptrdiff_t o = 0; o < p.outputs; ++o) {
      float* const row = to + o * pitch;
      for (ptrdiff_t c = 0; c < p.channels; ++c) row[c] = weight_at<Weights>(from + c * kPanel, o);
      for (ptrdiff_t c = p.channels; c < padded; ++c) row[c] = 0.0f;
    }
  }
}

// One tile: `outputs` of them from `output` on, for a part of a tile of rows.
template <int outputs>
struct FewOutputs {
  // As many sums as registers hold beside what they are made of.
  static constexpr int kPixels = kTileRows / (outputs > 2 ? 2 : 1);
  static constexpr int kSums = kPixels * outputs, kVectors = (kSums + kLanes - 1) / kLanes;

  const Product& p;
  const float* weights;  // of the first output
  ptrdiff_t output;
  float bias[kVectors * kLanes];

  template <class Weights>
  void read_biases() {
    const auto* from = static_cast<const typename Weights::Element*>(p.packed);
    for (ptrdiff_t k = 0; k < kVectors * kLanes; ++k)
      bias[k] = weight_at<Weights>(from, output + k % outputs);
  }

  // `pointers` are those of the tile, of which `first` is the first row here, `row` in the product.
  void multiply(const float* const* pointers, ptrdiff_t first, ptrdiff_t row, ptrdiff_t stored) const {
    const ptrdiff_t taps = p.geometry.taps_h * p.geometry.taps_w, channels = p.channels,
                    pitch = size_of_output(p);
    Floats sums[kVectors * kLanes];  // pixel by pixel; those past the last stay zero
    repeat<kVectors * kLanes>([&](auto k) __attribute__((always_inline)) { sums[k] = Floats{}; });
    const float* w = weights;
    for (ptrdiff_t t = 0; t < taps; ++t, pointers += kRows, w += round_up(channels, kLanes)) {
      if (!pointers[0]) continue;  // all of the tile is outside of the image
      const float* pixels[kPixels];
      repeat<kPixels>([&](auto i) __attribute__((always_inline)) { pixels[i] = pointers[first + i]; });
      const auto add = [&](ptrdiff_t c, auto read) __attribute__((always_inline)) {
        Floats columns[outputs];
        repeat<outputs>([&](auto o) __attribute__((always_inline)) { columns[o] = load(w + o * pitch + c); });
        repeat<kPixels>([&](auto i) __attribute__((always_inline)) {
          const Floats x = read(pixels[i] + c);
          repeat<outputs>([&](auto o)
                              __attribute__((always_inline)) { sums[i * outputs + o] += x * columns[o]; });
        });
      };
      ptrdiff_t c = 0;
      for (; c + kLanes <= channels; c += kLanes) {
        add(c, [](const float* from) __attribute__((always_inline)) { return load(from); });
      }
      if (c < channels) {
        const ptrdiff_t left = channels - c;
        add(c, [=](const float* from) __attribute__((always_inline)) { return load_some(from, left); });
      }
    }
    Floats values[kVectors];
    repeat<kVectors>([&](auto v) __attribute__((always_inline)) {
      Floats lanes[kLanes];
      repeat<kLanes>([&](auto i) __attribute__((always_inline)) { lanes[i] = sums[v * kLanes + i]; });
      values[v] = sums_of(lanes) + load(bias + v * kLanes);
    });
    finish(values, row, stored);
  }

 private:
  void finish(Floats (&values)[kVectors], ptrdiff_t row, ptrdiff_t stored) const {
    const ptrdiff_t at = row * p.output_pitch + output;
    const auto each = [&](auto body) __attribute__((always_inline)) {
      for (ptrdiff_t i = 0; i < stored; ++i) {
        for (ptrdiff_t o = 0; o < outputs; ++o) body(i * outputs + o, at + i * p.output_pitch + o);
      }
    };
    if (p.epilogue.residual) {
      float added[kVectors * kLanes] = {};
      each([&](ptrdiff_t k, ptrdiff_t place)
               __attribute__((always_inline)) { added[k] = p.epilogue.residual[place]; });
      for (int v = 0; v < kVectors; ++v) values[v] += load(added + v * kLanes);
    }
    if (p.epilogue.activation != Activation::None) activate_in_memory<kVectors>(p.epilogue, values);
    float results[kVectors * kLanes];
    for (int v = 0; v < kVectors; ++v) store(results + v * kLanes, values[v]);
    each([&](ptrdiff_t k, ptrdiff_t place) __attribute__((always_inline)) { p.output[place] = results[k]; });
  }
};

template <class Weights, int outputs>
void multiply_outputs(const Product& p, const float* const* pointers, const float* weights, ptrdiff_t output,
                      ptrdiff_t first, ptrdiff_t count) {
  FewOutputs<outputs> tile{p, weights, output, {}};
  tile.template read_biases<Weights>();
  const ptrdiff_t step = kRows * p.geometry.taps_h * p.geometry.taps_w;
  constexpr ptrdiff_t kPixels = FewOutputs<outputs>::kPixels;
  for (ptrdiff_t row = 0; row < count; row += kPixels) {
    tile.multiply(pointers + row / kRows * step, row % kRows, first + row, min_of(kPixels, count - row));
  }
}

template <class Weights>
void multiply_few(const Product& p) {
  const ptrdiff_t most = rows_of_block(p), pitch = size_of_output(p);
  const float** pointers = static_cast<const float**>(p.scratch);
  float* weights = reinterpret_cast<float*>(pointers + most * p.geometry.taps_h * p.geometry.taps_w);
  lay_out_outputs<Weights>(p, weights);
  Rows rows(p, pointers);
  for (ptrdiff_t row = p.first_row; row < p.last_row; row += most) {
    const ptrdiff_t count = min_of(most, p.last_row - row);
    rows.locate(row, count);
    for (ptrdiff_t output = 0; output < p.outputs; output += 4) {
      const auto multiply = p.outputs - output >= 4   ? multiply_outputs<Weights, 4>
                            : p.outputs - output == 3 ? multiply_outputs<Weights, 3>
                            : p.outputs - output == 2 ? multiply_outputs<Weights, 2>
                                                      : multiply_outputs<Weights, 1>;
      multiply(p, pointers, weights + output * pitch, output, row, count);
    }
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
