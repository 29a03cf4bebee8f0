// Products with so few outputs that a panel of them is nearly empty.
//
// A vector is of channels here, and its lanes are added up at the end: pixels by outputs are one tile. The
// weights, which lie as panels, are laid out so first.
#pragma once

#include "dots.h"
#include "epilogue.h"
#include "folded.h"
#include "indirect.h"
#include "tall_tiles.h"

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

// Where the windows of a tile of pixels lie: wherever the pointers of `rows` say, of which `first` is the
// first here.
struct PointedWindows {
  static constexpr int kTogether = 1;  // pixels to a pointer
  static constexpr ptrdiff_t pixels = 0;
  const float* const* pointers;
  ptrdiff_t first, taps, channels;

  // Is all of the tile outside of the image at this tap?
  bool are_outside() const { return !pointers[0]; }
  const float* pixel(ptrdiff_t i) const { return pointers[first + i]; }
  void next_tap() { pointers += kRows; }
};

// Or fixed distances apart, where all of them are inside of the image.
struct InnerWindows {
  static constexpr int kTogether = 3;  // what one register and the distance, once or twice, address
  const float* from;                   // what the first pixel's window has at this tap
  ptrdiff_t pixels, tap, line;         // elements to the next pixel, tap, and from a line's last tap on
  ptrdiff_t taps_w, taps, channels;    // those of a line are one tap where nothing is between them
  ptrdiff_t done = 0;                  // taps of this line

  static bool are_outside() { return false; }
  const float* pixel(ptrdiff_t i) const { return from + i * pixels; }
  void next_tap() {
    ++done;
    from += done == taps_w ? line : tap;
    if (done == taps_w) done = 0;
  }
};

// One tile: `outputs` of them from `output` on, for so many pixels.
template <int outputs, int kPixels>
struct FewOutputs {
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

  // Pixels [begin, end) of the tile are stored; the first is `row` of the product.
  template <class Windows>
  void multiply(Windows windows, ptrdiff_t row, ptrdiff_t begin, ptrdiff_t end) const {
    const ptrdiff_t taps = windows.taps, channels = windows.channels, pitch = size_of_output(p);
    Floats sums[kVectors * kLanes];  // pixel by pixel; those past the last stay zero
    repeat<kVectors * kLanes>([&](auto k) __attribute__((always_inline)) { sums[k] = Floats{}; });
    const float* w = weights;
    for (ptrdiff_t t = 0; t < taps; ++t, windows.next_tap(), w += round_up(channels, kLanes)) {
      if (windows.are_outside()) continue;
      constexpr int kTogether = Windows::kTogether;
      const float* pixels[(kPixels + kTogether - 1) / kTogether];
      repeat<sizeof pixels / sizeof *pixels>(
          [&](auto i) __attribute__((always_inline)) { pixels[i] = windows.pixel(i * kTogether); });
      const auto add = [&](ptrdiff_t c, auto read) __attribute__((always_inline)) {
        Floats columns[outputs];
        repeat<outputs>([&](auto o) __attribute__((always_inline)) { columns[o] = load(w + o * pitch + c); });
        repeat<kPixels>([&](auto i) __attribute__((always_inline)) {
          const Floats x = read(pixels[i / kTogether] + i % kTogether * windows.pixels);
          if (i % kTogether == kTogether - 1 || i == kPixels - 1) pixels[i / kTogether] += kLanes;
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
    finish(values, row, begin, end);
  }

 private:
  void finish(Floats (&values)[kVectors], ptrdiff_t row, ptrdiff_t begin, ptrdiff_t end) const {
    const ptrdiff_t at = row * p.output_pitch + output;
    const auto each = [&](auto body) __attribute__((always_inline)) {
      for (ptrdiff_t i = begin; i < end; ++i) {
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

// Pixels of a part of a tile of rows: as many sums as registers hold beside what they are made of.
template <int outputs>
constexpr int kPointedPixels = kTileRows / (outputs > 2 ? 2 : 1);

template <class Weights, int outputs>
void multiply_outputs(const Product& p, const float* const* pointers, const float* weights, ptrdiff_t output,
                      ptrdiff_t first, ptrdiff_t count) {
  constexpr ptrdiff_t kPixels = kPointedPixels<outputs>;
  FewOutputs<outputs, kPixels> tile{p, weights, output, {}};
  tile.template read_biases<Weights>();
  const ptrdiff_t taps = p.geometry.taps_h * p.geometry.taps_w;
  for (ptrdiff_t row = 0; row < count; row += kPixels) {
    const PointedWindows windows{pointers + row / kRows * kRows * taps, row % kRows, taps, p.channels};
    tile.multiply(windows, first + row, 0, min_of(kPixels, count - row));
  }
}

// Rows [begin, end) of the product.
struct RowRange {
  ptrdiff_t begin, end;
};

// Rows of one line of the result whose windows are inside of the image, as all of `inner` are, the first of
// which has its windows where it says. A last tile begins earlier, and computes some of them once more.
template <class Weights, int outputs, int kPixels>
void multiply_tiles(const Product& p, const InnerWindows& windows, const float* weights, ptrdiff_t output,
                    const RowRange& inner, const RowRange& rows) {
  FewOutputs<outputs, kPixels> tile{p, weights, output, {}};
  tile.template read_biases<Weights>();
  for (ptrdiff_t row = rows.begin; row < rows.end; row += kPixels) {
    const ptrdiff_t first = min_of(row, inner.end - kPixels);
    InnerWindows here = windows;
    here.from += (first - inner.begin) * windows.pixels;
    tile.multiply(here, first, row - first, min_of(kPixels, rows.end - first));
  }
}

template <class Weights, int outputs>
void multiply_inner(const Product& p, const InnerWindows& windows, const float* weights, ptrdiff_t output,
                    const RowRange& inner, const RowRange& rows) {
  constexpr int kPixels = kPointedPixels<outputs>;
  if constexpr (outputs == 1) {  // without pointers there are registers for twice as many sums
    constexpr int heights[] = {2 * kPixels, kPixels};
    if (inner.end - inner.begin >= heights[0] && best_height(rows.end - rows.begin, heights) == heights[0])
      return multiply_tiles<Weights, outputs, 2 * kPixels>(p, windows, weights, output, inner, rows);
  }
  multiply_tiles<Weights, outputs, kPixels>(p, windows, weights, output, inner, rows);
}

template <class Weights>
class FewOutputsProduct {
 public:
  explicit FewOutputsProduct(const Product& product)
      : p(product),
        geometry_(p.geometry),
        most_(rows_of_block(p)),
        pointers_(static_cast<const float**>(p.scratch)),
        weights_(reinterpret_cast<float*>(pointers_ + most_ * p.geometry.taps_h * p.geometry.taps_w)),
        rows_(p, pointers_) {
    lay_out_outputs<Weights>(p, weights_);
    if (is_matrix(geometry_)) {  // is one line
      geometry_.height = geometry_.out_height = 1;
      geometry_.width = geometry_.out_width = p.last_row;
    }
  }

  void multiply() {
    ptrdiff_t done = p.first_row;
    for (ptrdiff_t line = p.first_row / geometry_.out_width; line * geometry_.out_width < p.last_row;
         ++line) {
      const RowRange inner = inner_of(line);
      const RowRange rows{max_of(inner.begin, p.first_row), min_of(inner.end, p.last_row)};
      if (inner.end - inner.begin < kPointedPixels<1> || rows.begin >= rows.end) continue;
      multiply_pointed(done, rows.begin);
      multiply_line(line, inner, rows);
      done = rows.end;
    }
    multiply_pointed(done, p.last_row);
  }

 private:
  // Those of one line of the result that have windows inside of the image.
  RowRange inner_of(ptrdiff_t line) const {
    const Geometry& g = geometry_;
    const ptrdiff_t top = line % g.out_height * g.stride_h - g.pad_h;
    const ptrdiff_t begin = line * g.out_width, spare = g.width + g.pad_w - (g.taps_w - 1) * g.dilation_w - 1;
    const bool inside = top >= 0 && top + (g.taps_h - 1) * g.dilation_h < g.height && spare >= 0 && !p.parts;
    const ptrdiff_t first = min_of(max_of((g.pad_w + g.stride_w - 1) / g.stride_w, 0), g.out_width);
    const ptrdiff_t last = inside ? min_of(spare / g.stride_w + 1, g.out_width) : first;
    return {begin + first, begin + last};
  }

  void multiply_line(ptrdiff_t line, const RowRange& inner, const RowRange& rows) {
    const Geometry& g = geometry_;
    const ptrdiff_t top = line % g.out_height * g.stride_h - g.pad_h;
    const ptrdiff_t left = (inner.begin - line * g.out_width) * g.stride_w - g.pad_w;
    InnerWindows windows{};
    windows.from = p.input + ((line / g.out_height * g.height + top) * g.width + left) * p.pixel;
    const bool together = p.channels % kLanes == 0 && p.pixel == p.channels && g.dilation_w == 1;
    windows.pixels = g.stride_w * p.pixel;
    windows.taps_w = together ? 1 : g.taps_w;
    windows.taps = g.taps_h * windows.taps_w;
    windows.channels = together ? g.taps_w * p.channels : p.channels;
    windows.tap = g.dilation_w * p.pixel;
    windows.line = g.dilation_h * g.width * p.pixel - (windows.taps_w - 1) * windows.tap;
    in_fours([&](auto outputs, const float* weights, ptrdiff_t output) {
      multiply_inner<Weights, outputs>(p, windows, weights, output, inner, rows);
    });
  }

  // Padding is left out tile by tile. Tiles begin at multiples of kRows, so parts that are cut there leave
  // out the same.
  void multiply_pointed(ptrdiff_t first, ptrdiff_t last) {
    for (ptrdiff_t row = first, count = 0; row < last; row += count) {
      count = min_of(row % kRows != 0 ? kRows - row % kRows : most_, last - row);
      rows_.locate(row, count);
      in_fours([&](auto outputs, const float* weights, ptrdiff_t output) {
        multiply_outputs<Weights, outputs>(p, pointers_, weights, output, row, count);
      });
    }
  }

  // All outputs, at most four at a time.
  template <class Multiply>
  void in_fours(Multiply&& multiply) const {
    for (ptrdiff_t output = 0; output < p.outputs; output += 4) {
      const float* const weights = weights_ + output * size_of_output(p);
      const ptrdiff_t count = p.outputs - output;
      if (count >= 4) {
        multiply(Index<4>(), weights, output);
      } else if (count == 3) {
        multiply(Index<3>(), weights, output);
      } else if (count == 2) {
        multiply(Index<2>(), weights, output);
      } else {
        multiply(Index<1>(), weights, output);
      }
    }
  }

  const Product& p;
  Geometry geometry_;
  const ptrdiff_t most_;
  const float** const pointers_;
  float* const weights_;
  Rows rows_;
};

template <class Weights>
void multiply_few(const Product& p) {
  FewOutputsProduct<Weights>(p).multiply();
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
