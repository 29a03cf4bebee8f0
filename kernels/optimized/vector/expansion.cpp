// A 1x1 convolution to more channels and the depthwise windows over its result, a panel of channels
// at a time.
//
// The lines of one panel that a row of windows reads are few enough for the nearest cache. A line is
// a product of few columns and, as a rule, little depth: tiles of few rows, which end and begin again
// soon, and one vector of weights for each step, which stays in its register from tile to tile where
// the depth is one that such networks have.
#include "depthwise.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kPanelVectors = kPanel / kLanes;
// Pixels of a tile, of any depth: enough sums to hide how long one takes, and no more than registers hold.
constexpr int kMostPixels = kPanelVectors == 1 ? 8 : kTileVectors == 2 && kPanelVectors == 4 ? 2 : 6;
constexpr int kFewestPixels = kPanelVectors == 1 ? 5 : kMostPixels == 2 ? 2 : 4;
constexpr int kSteps = 4;        // of any depth, at once
constexpr int kFewPixels = 4;    // of a tile whose weights are in registers
constexpr int kHeld = 24;        // weights there
constexpr int kMostColumns = 7;  // of windows, at once: common widths are multiples of it

// One panel's share of the product: biases, then the columns of each step.
struct Panel {
  const float* weights;
  ptrdiff_t depth;
  int pixels;  // of a tile
};

// A tile of `pixels` pixels. `depth` is that of the panel, or 0 for any.
template <int pixels, int depth>
PENLIGHT_INLINE void multiply(const Panel& panel, const float* input, const Epilogue& epilogue,
                              const Floats* held, float* to) {
  Floats sums[pixels * kPanelVectors];
  const float* weights = panel.weights;
  repeat<kPanelVectors>([&](auto v) __attribute__((always_inline)) {
    const Floats bias = load(weights + v * kLanes);
    repeat<pixels>([&](auto i) __attribute__((always_inline)) { sums[i * kPanelVectors + v] = bias; });
  });
  weights += kPanel;
  const ptrdiff_t pitch = depth ? depth : panel.depth;
  const auto add = [&](const float* x, auto weight) __attribute__((always_inline)) {
    Floats columns[kPanelVectors];
    repeat<kPanelVectors>([&](auto v) __attribute__((always_inline)) { columns[v] = weight(v); });
    repeat<pixels>([&](auto i) __attribute__((always_inline)) {
      const Floats value = splat(x[i * pitch]);
      repeat<kPanelVectors>(
          [&](auto v) __attribute__((always_inline)) { sums[i * kPanelVectors + v] += value * columns[v]; });
    });
  };
  if constexpr (depth > 0) {
    repeat<depth>([&](auto k) __attribute__((always_inline)) {
      add(input + k, [&](auto) __attribute__((always_inline)) {
        if constexpr (k < kHeld) return held[k];
        return load(weights + k * kPanel);
      });
    });
  } else {
    const auto step = [&](auto u) __attribute__((always_inline)) {
      add(input + u,
          [&](auto v) __attribute__((always_inline)) { return load(weights + u * kPanel + v * kLanes); });
    };
    ptrdiff_t k = 0;
    for (; k + kSteps <= pitch; k += kSteps) {
      repeat<kSteps>(step);
      input += kSteps;
      weights += kSteps * kPanel;
    }
    for (; k < pitch; ++k, ++input, weights += kPanel) step(Index<0>());
  }
  activate<pixels * kPanelVectors>(epilogue,
                                   [&](auto k) __attribute__((always_inline)) -> Floats& { return sums[k]; });
  repeat<pixels * kPanelVectors>([&](auto k)
                                     __attribute__((always_inline)) { store(to + k * kLanes, sums[k]); });
}

// `count` pixels, one after the other.
template <int pixels, int depth>
void multiply_line(const Panel& panel, const float* input, ptrdiff_t count, const Epilogue& epilogue,
                   float* to) {
  const ptrdiff_t pitch = depth ? depth : panel.depth;
  constexpr int kInRegisters = depth < kHeld ? depth : kHeld;
  Floats held[kHeld];
  repeat<kInRegisters>([&](auto k) __attribute__((always_inline)) {
    held[k] = load(panel.weights + (1 + k) * kPanel);
    keep_in_register(held[k]);
  });
  if (count < pixels) {
    for (ptrdiff_t at = 0; at < count; ++at) {
      multiply<1, 0>(panel, input + at * pitch, epilogue, held, to + at * kPanel);
    }
    return;
  }
  for (ptrdiff_t at = 0; at < count; at += pixels) {
    // The last few are computed with some before them once more, to the same values.
    const ptrdiff_t first = min_of(at, count - pixels);
    multiply<pixels, depth>(panel, input + first * pitch, epilogue, held, to + first * kPanel);
  }
}

// The size of tiles of which `count` pixels need the fewest.
int pixels_of(ptrdiff_t count) {
  int best = kMostPixels;
  for (int pixels = kMostPixels - 1; pixels >= kFewestPixels; --pixels) {
    if (round_up(count, pixels) < round_up(count, best)) best = pixels;
  }
  return best;
}

template <int pixels>
void multiply_any(const Panel& panel, const float* input, ptrdiff_t count, const Epilogue& epilogue,
                  float* to) {
  if constexpr (pixels > kFewestPixels) {
    if (panel.pixels < pixels) return multiply_any<pixels - 1>(panel, input, count, epilogue, to);
  }
  multiply_line<pixels, 0>(panel, input, count, epilogue, to);
}

void multiply_pixels(const Panel& panel, const float* input, ptrdiff_t count, const Epilogue& epilogue,
                     float* to) {
  if constexpr (kPanelVectors == 1) {
    if (panel.depth == 16) return multiply_line<kFewPixels, 16>(panel, input, count, epilogue, to);
    if (panel.depth == 24) return multiply_line<kFewPixels, 24>(panel, input, count, epilogue, to);
    if (panel.depth == 32) return multiply_line<kFewPixels, 32>(panel, input, count, epilogue, to);
  }
  multiply_any<kMostPixels>(panel, input, count, epilogue, to);
}

// Elements of the input that stay in the second cache while panel after panel reads them.
constexpr ptrdiff_t kResident = 1 << 15;

// Windows at once along a row: as many of them as make the fewest.
int columns_of(const Geometry& g) {
  const auto computed = [&](int columns) { return round_up(g.out_width, columns); };
  return g.out_width >= kMostColumns && computed(kMostColumns) <= computed(kColumns) ? kMostColumns
                                                                                     : kColumns;
}

// Pixels of a line with what is around the image.
ptrdiff_t width_of(const Geometry& g) {
  return max_of((g.out_width - 1) * g.stride_w + g.taps_w, g.pad_w + g.width);
}

// Of one panel: the lines that a row of windows reads, each in the place of its number's rest.
struct Lines {
  float* pixels;
  const float* zeros;  // a line of them
  float* weights;      // bias, then taps
  ptrdiff_t width;
  ptrdiff_t channel;  // the first
};

// Has what the next panel reads closer, a share with each line that is computed.
class Ahead {
 public:
  Ahead(const Expansion& e, ptrdiff_t channel, ptrdiff_t lines) : panel_(e.packed + channel * (1 + e.depth)) {
    const Depthwise& p = e.windows;
    if (channel >= p.last_channel) return;
    left_ = 1 + e.depth;
    share_ = (left_ + lines - 1) / lines;
    const ptrdiff_t rows = 1 + p.geometry.taps_h * p.geometry.taps_w, padded = round_up(p.channels, kPanel);
    for (ptrdiff_t i = 0; i < rows; ++i) __builtin_prefetch(p.packed + i * padded + channel, 0, 2);
  }
  void fetch() {
    const ptrdiff_t count = min_of(share_, left_);
    for (ptrdiff_t i = 0; i < count; ++i) __builtin_prefetch(panel_ + i * kPanel, 0, 2);
    panel_ += count * kPanel;
    left_ -= count;
  }

 private:
  const float* panel_;
  ptrdiff_t left_ = 0, share_ = 0;
};

// One row of windows over `lines`.
template <int taps, int stride, int columns>
__attribute__((noinline)) void window_row(const Depthwise& p, const Lines& t, const float* const* lines,
                                          ptrdiff_t row) {
  const Geometry& g = p.geometry;
  const Epilogue& epilogue = p.epilogue;
  const float* from[taps];
  repeat<taps>([&](auto i) __attribute__((always_inline)) { from[i] = lines[i]; });
  for (ptrdiff_t group = 0; group < g.out_width; group += columns) {
    // The last few columns are computed with some before them once more, to the same values.
    const ptrdiff_t column = min_of(group, g.out_width - columns);
    for (ptrdiff_t c = 0; c < kBlock && t.channel + c < p.last_channel; c += kLanes) {
      Floats sums[1][columns];
      const Floats bias = load(t.weights + c);
      repeat<columns>([&](auto j) __attribute__((always_inline)) { sums[0][j] = bias; });
      repeat<taps>([&](auto i) __attribute__((always_inline)) {
        const float* x[1] = {from[i] + column * stride * kBlock + c};
        add_line<1, columns, stride, taps>(x, t.weights + (1 + i * taps) * kBlock + c, sums);
      });
      const ptrdiff_t to = (row * g.out_width + column) * p.channels + t.channel + c;
      finish<columns>(epilogue, epilogue.residual ? epilogue.residual + to : nullptr, p.output + to,
                      p.channels, p.last_channel - t.channel - c, sums[0]);
    }
  }
}

using WindowRow = void (*)(const Depthwise&, const Lines&, const float* const*, ptrdiff_t);

template <int taps, int stride>
WindowRow some_columns(int columns) {
  return columns == kMostColumns ? window_row<taps, stride, kMostColumns>
                                 : window_row<taps, stride, kColumns>;
}

WindowRow window_row_of(const Geometry& g) {
  const int columns = columns_of(g);
  if (g.taps_w == 3) return g.stride_w == 1 ? some_columns<3, 1>(columns) : some_columns<3, 2>(columns);
  return g.stride_w == 1 ? some_columns<5, 1>(columns) : some_columns<5, 2>(columns);
}

constexpr ptrdiff_t kMostTaps = 5;

// Rows [first, last) of an image, one panel of channels; lines before `end` are there.
void expand_panel(const Expansion& e, const Panel& panel, const Lines& t, ptrdiff_t first, ptrdiff_t last,
                  ptrdiff_t end) {
  const Geometry& g = e.windows.geometry;
  Ahead ahead(e, t.channel + kBlock, (last - first) * g.stride_h);
  const WindowRow compute = window_row_of(g);
  const ptrdiff_t line = t.width * kBlock;
  for (ptrdiff_t row = first; row < last; ++row) {
    const ptrdiff_t image = row / g.out_height, oh = row % g.out_height;
    const ptrdiff_t top = oh * g.stride_h - g.pad_h;
    const float* lines[kMostTaps];
    for (ptrdiff_t i = 0; i < g.taps_h; ++i) {
      const ptrdiff_t y = top + i;
      if (y < 0 || y >= g.height) {
        lines[i] = t.zeros;
        continue;
      }
      float* const to = t.pixels + y % g.taps_h * line;
      lines[i] = to;
      if (y < end) continue;
      multiply_pixels(panel, e.input + (image * g.height + y) * g.width * e.depth, g.width, e.epilogue,
                      to + g.pad_w * kBlock);
      end = y + 1;
      ahead.fetch();
    }
    compute(e.windows, t, lines, row);
  }
}

constexpr ptrdiff_t kWeights = (1 + kMostTaps * kMostTaps) * kBlock;

// Are all weights of windows finite? Others would make numbers of the zeros around the image.
bool are_finite(const Depthwise& p) {
  const ptrdiff_t padded = round_up(p.channels, kPanel), taps = p.geometry.taps_h * p.geometry.taps_w;
  Floats probe = {};
  for (ptrdiff_t i = 0; i < taps * padded; i += kLanes) probe += load(p.packed + padded + i) * splat(0.0f);
  return sum_lanes(probe) == 0.0f;
}

bool has_code(const Expansion& e) {
  const Geometry& g = e.windows.geometry;
  return kUnrolled && e.depth > 0 && is_usual(g) && g.out_width >= kColumns && g.pad_w < g.taps_w &&
         are_finite(e.windows);
}

ptrdiff_t panels_of(const Depthwise& p) { return (p.last_channel - p.first_channel + kBlock - 1) / kBlock; }

}  // namespace

size_t expansion_scratch(const Expansion& e) {
  if (!has_code(e)) return 0;
  const Geometry& g = e.windows.geometry;
  size_t size = static_cast<size_t>(panels_of(e.windows) * g.taps_h + 1);
  if (__builtin_mul_overflow(size, static_cast<size_t>(width_of(g)), &size) ||
      __builtin_mul_overflow(size, static_cast<size_t>(kBlock) * sizeof(float), &size) ||
      __builtin_add_overflow(size, static_cast<size_t>(kWeights) * sizeof(float), &size)) {
    return 0;
  }
  return size;
}

void expand_depthwise(const Expansion& e) {
  const Depthwise& p = e.windows;
  const Geometry& g = p.geometry;
  const ptrdiff_t width = width_of(g), lines = g.taps_h * width * kBlock, size = (1 + e.depth) * kPanel;
  float* const zeros = e.scratch + kWeights;
  clear(zeros, (1 + panels_of(p) * g.taps_h) * width);
  const ptrdiff_t together = max_of(kResident / (g.width * e.depth * g.stride_h), 1);
  ptrdiff_t end = 0;
  for (ptrdiff_t first = p.first_row, last; first < p.last_row; first = last) {
    last = min_of(min_of(first + together, first - first % g.out_height + g.out_height), p.last_row);
    for (ptrdiff_t channel = p.first_channel; channel < p.last_channel; channel += kBlock) {
      float* const own = zeros + width * kBlock + (channel - p.first_channel) / kBlock * lines;
      const Lines t{own, zeros, e.scratch, width, channel};
      copy_weights(p, channel, g.taps_h * g.taps_w, e.scratch);
      const Panel panel = {e.packed + channel / kPanel * size, e.depth, pixels_of(g.width)};
      expand_panel(e, panel, t, first, last, end);
    }
    const ptrdiff_t bottom = ((last - 1) % g.out_height) * g.stride_h - g.pad_h + g.taps_h;
    end = last % g.out_height == 0 ? 0 : min_of(max_of(bottom, 0), g.height);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
