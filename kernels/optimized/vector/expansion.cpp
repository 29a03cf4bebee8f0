// A convolution and the depthwise windows over its result, a panel of channels at a time: its lines that
// a row of windows reads are few enough for the nearest cache. It is a 1x1 convolution, or one of an image
// of few channels.
#include "ahead.h"
#include "depthwise.h"
#include "few_channels.h"
#include "panel_lines.h"
#include "shared_columns.h"
#include "tall_tiles.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Are there registers for all weights of a window, beside sums?
template <int taps>
constexpr bool kKeepsWeights = kLanes == 16 && taps == 3;
// From how many panels on the input is worth laying out for tall tiles.
constexpr ptrdiff_t kPanelsToLayOut = 3;
// Elements of the input that stay in the second cache while panel after panel reads them.
constexpr ptrdiff_t kResident = 1 << 14;

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
class WeightsAhead {
 public:
  WeightsAhead(const Expansion& e, ptrdiff_t channel, ptrdiff_t panels, ptrdiff_t lines)
      : panel_(e.packed + channel * (1 + e.steps)) {
    const Depthwise& p = e.windows;
    panels = min_of(panels, (p.last_channel - channel + kBlock - 1) / kBlock);
    if (panels <= 0) return;
    left_ = panels * (1 + e.steps);
    share_ = (left_ + lines - 1) / lines;
    const ptrdiff_t rows = 1 + p.geometry.taps_h * p.geometry.taps_w, padded = round_up(p.channels, kPanel);
    for (ptrdiff_t i = 0; i < rows * panels; ++i) {
      __builtin_prefetch(p.packed + i / panels * padded + channel + i % panels * kBlock, 0, 2);
    }
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

// One row of windows over `lines`, one vector of channels, of which so many are left. Of the next row of
// the result, the same channels are asked for where one `fetches`.
template <int taps, int stride, int columns, bool fetches>
PENLIGHT_INLINE void window_vector(const Depthwise& p, const float* const (&lines)[taps],
                                   const float* weights, ptrdiff_t place, ptrdiff_t left) {
  const Epilogue& epilogue = p.epilogue;
  const ptrdiff_t out_width = p.geometry.out_width, pitch = p.channels;
  const Floats bias = load(weights);
  Floats kept[taps][taps];
  if constexpr (kKeepsWeights<taps>) {
    repeat<taps>([&](auto i) __attribute__((always_inline)) {
      load_taps(weights + (1 + i * taps) * kBlock, kept[i]);
    });
  }
  for (ptrdiff_t group = 0; group < out_width; group += columns) {
    // The last few columns are computed with some before them once more, to the same values.
    const ptrdiff_t column = min_of(group, out_width - columns), to = place + column * pitch;
    Floats sums[1][columns];
    repeat<columns>([&](auto j) __attribute__((always_inline)) { sums[0][j] = bias; });
    repeat<taps>([&](auto i) __attribute__((always_inline)) {
      const float* x[1] = {lines[i] + column * stride * kBlock};
      if constexpr (kKeepsWeights<taps>) {
        add_line<1, columns, stride, taps>(x, kept[i], sums);
      } else {
        add_line<1, columns, stride, taps>(x, weights + (1 + i * taps) * kBlock, sums);
      }
    });
    if constexpr (fetches) {
      const float* ahead = p.output + to + out_width * pitch;
      repeat<columns>([&](auto) __attribute__((always_inline)) {
        __builtin_prefetch(ahead, 1, 3);
        ahead += pitch;
      });
    }
    finish<columns>(epilogue, epilogue.residual ? epilogue.residual + to : nullptr, p.output + to, pitch,
                    left, sums[0]);
  }
}

// One row of windows. Whole vectors have code of their own, which asks nothing about what is left.
template <int taps, int stride, int columns, bool fetches>
__attribute__((noinline)) void window_row(const Depthwise& p, const Lines& t, const float* const* lines,
                                          ptrdiff_t row) {
  for (ptrdiff_t c = 0; c < kBlock && t.channel + c < p.last_channel; c += kLanes) {
    const float* from[taps];
    repeat<taps>([&](auto i) __attribute__((always_inline)) { from[i] = lines[i] + c; });
    const ptrdiff_t place = row * p.geometry.out_width * p.channels + t.channel + c;
    const ptrdiff_t left = p.last_channel - t.channel - c;
    if (left >= kLanes) {
      window_vector<taps, stride, columns, fetches>(p, from, t.weights + c, place, kLanes);
    } else {
      window_vector<taps, stride, columns, fetches>(p, from, t.weights + c, place, left);
    }
  }
}

using WindowRow = void (*)(const Depthwise&, const Lines&, const float* const*, ptrdiff_t);

// Common widths are multiples of these. Registers have room for so many sums.
template <int taps, int stride, bool fetches>
WindowRow row_of_width(ptrdiff_t out_width) {
  const auto of = [](auto columns) -> WindowRow {
    constexpr int count = decltype(columns)();
    return window_row<taps, stride, count, fetches>;
  };
  if constexpr (kLanes == 16) return with_columns<16, 14, 12, 10, 7, kColumns>(out_width, of);
  if constexpr (kLanes == 8) return with_columns<10, 8, 7, kColumns>(out_width, of);
  return with_columns<7, kColumns>(out_width, of);
}

template <bool fetches>
WindowRow row_of_windows(const Geometry& g) {
  const ptrdiff_t width = g.out_width;
  if (g.taps_w == 3) {
    return g.stride_w == 1 ? row_of_width<3, 1, fetches>(width) : row_of_width<3, 2, fetches>(width);
  }
  return g.stride_w == 1 ? row_of_width<5, 1, fetches>(width) : row_of_width<5, 2, fetches>(width);
}

// Code for those who fetch nothing is code for Zen 5, which has vectors of 512 bits.
WindowRow window_row_of(const Expansion& e) {
  if constexpr (kLanes == 16) {
    if (!e.windows.fetches_results) return row_of_windows<false>(e.windows.geometry);
  }
  return row_of_windows<true>(e.windows.geometry);
}

constexpr ptrdiff_t kMostTaps = 5;

ptrdiff_t panels_of(const Depthwise& p) { return (p.last_channel - p.first_channel + kBlock - 1) / kBlock; }

// The first line of the image that a row of windows reads, which may be above it.
ptrdiff_t top_of(const Geometry& g, ptrdiff_t row) { return row % g.out_height * g.stride_h - g.pad_h; }

// The height of tiles of few channels whose windows share columns; 0: others are faster, or alone have code.
int shared_height_of(const Expansion& e) {
  return e.few && shares_columns(*e.few) ? shared_height(*e.few, 1) : 0;
}

// Columns of a line of few channels with its padding, under all that full tiles read.
ptrdiff_t image_columns(const Expansion& e) {
  const int height = shared_height_of(e);
  const ptrdiff_t width = e.windows.geometry.width;
  return columns_under(e.few->geometry, height ? round_up(width, height) : width);
}
ptrdiff_t image_line(const Expansion& e) { return image_columns(e) * e.few->channels; }

// Rows of windows for which the input is read at once.
ptrdiff_t rows_together(const Expansion& e) {
  const Geometry& g = e.windows.geometry;
  const ptrdiff_t line = e.few ? e.few->geometry.stride_h * image_line(e) : g.width * e.steps;
  return max_of(kResident / (line * g.stride_h), 1);
}

// What the lines of an image are made from: line `first` at `pixels`, others `line` elements apart.
struct Origin {
  const float* pixels;
  ptrdiff_t first, line;
  int height;          // of tiles of one panel; 0: there are none
  ptrdiff_t together;  // rows of windows for which the input is read at once
};

// The height of tall tiles, for which pixels are laid out; 0: others are faster, or alone have code.
int tall_height_of(const Expansion& e) {
  if (!kHasTallTiles || !e.tall_tiles) return 0;
  const ptrdiff_t width = e.windows.geometry.width;
  if (e.few) return line_height(next_of(*e.few), width);
  if (width < kFewestTallRows || panels_of(e.windows) < kPanelsToLayOut) return 0;
  return best_height(width, kTallHeights);
}

// Elements of a line of the input that is laid out for them.
ptrdiff_t tall_line(const Expansion& e) {
  const ptrdiff_t width = e.windows.geometry.width;
  return tall_size(width, best_height(width, kTallHeights), e.steps);
}

// A line of pixels, times one panel.
void multiply_one_panel(const Expansion& e, const Panel& panel, const float* input, int height,
                        const Finish& finish) {
  const ptrdiff_t width = e.windows.geometry.width;
  if (!height) return multiply_pixels(panel, input, width, finish);
  if (!e.few) return multiply_tall(panel.weights, input, width, height, panel.depth, finish);
  if (shares_columns(*e.few)) {
    return multiply_shared<1>(*e.few, {panel.offsets, panel.depth, panel.weights, 0}, input, width, height,
                              finish);
  }
  multiply_line_tall(panel.weights, input, panel.offsets, panel.next, panel.depth, width, height, true,
                     finish);
}

// Asks for a row of windows of some panels. Inline, or compilers leave calls that only fetch away.
template <int panels>
PENLIGHT_INLINE void fetch_outputs(const Depthwise& p, ptrdiff_t row, ptrdiff_t channel) {
  const float* pixel = p.output + row * p.geometry.out_width * p.channels + channel;
  for (ptrdiff_t i = 0; i < p.geometry.out_width; ++i, pixel += p.channels) {
    fetch_rows<1, panels * kBlock>(pixel, p.channels);
  }
}

// Rows [first, last) of an image, some panels of channels, one or two; lines before `end` are there.
template <int panels>
void expand_panels(const Expansion& e, const Panel& panel, const Origin& origin, const Lines (&t)[panels],
                   ptrdiff_t first, ptrdiff_t last, ptrdiff_t end) {
  const Geometry& g = e.windows.geometry;
  WeightsAhead ahead(e, t[0].channel + panels * kBlock, panels, (last - first) * g.stride_h);
  const WindowRow compute = window_row_of(e);
  const ptrdiff_t line = t[0].width * kBlock;
  for (ptrdiff_t row = first; row < last; ++row) {
    if (e.asks && row + 1 < last) fetch_outputs<panels>(e.windows, row + 1, t[0].channel);
    const ptrdiff_t top = top_of(g, row);
    const float* lines[panels][kMostTaps];
    for (ptrdiff_t i = 0; i < g.taps_h; ++i) {
      const ptrdiff_t y = top + i;
      const bool inside = y >= 0 && y < g.height;
      Finish finish[panels];
      for (int p = 0; p < panels; ++p) {
        float* const to = t[p].pixels + (inside ? y % g.taps_h * line : 0);
        lines[p][i] = inside ? to : t[p].zeros;
        finish[p] = {to + g.pad_w * kBlock, kBlock, kBlock, e.epilogue};
      }
      if (!inside || y < end) continue;
      const float* const input = origin.pixels + (y - origin.first) * origin.line;
      if constexpr (panels == 1) {
        multiply_one_panel(e, panel, input, origin.height, finish[0]);
      } else {
        multiply_two_panels(panel, input, g.width, finish);
      }
      end = y + 1;
      ahead.fetch();
      if (e.few && t[0].channel == e.windows.first_channel) {
        const Geometry& f = e.few->geometry;
        const ptrdiff_t next = y + origin.together * g.stride_h;
        fetch_lines(*e.few, row / g.out_height, next * f.stride_h - f.pad_h, f.stride_h);
      }
    }
    for (int p = 0; p < panels; ++p) compute(e.windows, t[p], lines[p], row);
  }
}

constexpr ptrdiff_t kWeights = (1 + kMostTaps * kMostTaps) * kBlock;  // of one panel, of which there are two

bool has_code(const Expansion& e) {
  const Geometry& g = e.windows.geometry;
  return kUnrolled && e.steps > 0 && g.width > 0 && is_usual(g) && g.out_width >= kColumns &&
         g.pad_w < g.taps_w && are_finite(e.windows);
}

// Lines of the input that are copied at once: of few channels those under the ones that are made.
ptrdiff_t image_lines(const Expansion& e) {
  const Geometry& g = e.windows.geometry;
  const ptrdiff_t made = min_of((rows_together(e) - 1) * g.stride_h + g.taps_h, g.height);
  return e.few ? lines_of(e.few->geometry, made) : made;
}

}  // namespace

size_t expansion_scratch(const Expansion& e) {
  if (!has_code(e)) return 0;
  const Geometry& g = e.windows.geometry;
  size_t size = static_cast<size_t>(panels_of(e.windows) * g.taps_h + 1), image = 0;
  // What rows_together() and a line multiply.
  ptrdiff_t lines = (e.few ? e.few->geometry.stride_h : 1) * g.stride_h, line = 0;
  if (__builtin_mul_overflow(lines, e.few ? e.few->channels : e.steps, &lines) ||
      __builtin_mul_overflow(lines, e.few ? image_columns(e) + 1 : g.width, &lines) ||
      __builtin_mul_overflow(width_of(g), kBlock, &line)) {
    return 0;
  }
  if (e.few && __builtin_mul_overflow(static_cast<size_t>(image_lines(e)),
                                      static_cast<size_t>(round_up(image_line(e), 2)), &image)) {
    return 0;
  }
  if (!e.few && tall_height_of(e)) {
    if (__builtin_mul_overflow(static_cast<size_t>(image_lines(e)), static_cast<size_t>(tall_line(e)),
                               &image)) {
      return 0;
    }
    image += kTallRest;
  }
  if (__builtin_mul_overflow(size, static_cast<size_t>(line), &size) ||
      __builtin_add_overflow(size, image, &size) || size > SIZE_MAX / (2 * sizeof(float))) {
    return 0;
  }
  const size_t offsets = e.few ? static_cast<size_t>(e.steps) * sizeof(ptrdiff_t) : 0;
  return (2 * kWeights + size) * sizeof(float) + offsets;
}

void expand_depthwise(const Expansion& e) {
  const Depthwise& p = e.windows;
  const Geometry& g = p.geometry;
  const ptrdiff_t width = width_of(g), lines = g.taps_h * width * kBlock, size = (1 + e.steps) * kPanel;
  float* const zeros = e.scratch + 2 * kWeights;
  clear(zeros, (1 + panels_of(p) * g.taps_h) * width);
  // Of few channels: lines with their padding, and where each step reads.
  float* const image = zeros + width * kBlock + panels_of(p) * lines;
  ptrdiff_t* offsets = nullptr;
  if (e.few) {
    offsets = reinterpret_cast<ptrdiff_t*>(image + image_lines(e) * round_up(image_line(e), 2));
    find_steps(*e.few, image_columns(e), offsets);
  }
  const ptrdiff_t together = rows_together(e);
  const int shared = shared_height_of(e), height = shared ? shared : tall_height_of(e);
  ptrdiff_t end = 0;
  for (ptrdiff_t first = p.first_row, last; first < p.last_row; first = last) {
    last = min_of(min_of(first + together, first - first % g.out_height + g.out_height), p.last_row);
    const ptrdiff_t bottom = min_of(max_of(top_of(g, last - 1) + g.taps_h, 0), g.height);
    const ptrdiff_t begin = min_of(max_of(top_of(g, first), end), bottom);
    const ptrdiff_t image_index = first / g.out_height;
    Origin origin{image, begin, g.width * e.steps, height, together};
    if (!e.few) {
      const float* const pixels = e.input + (image_index * g.height + begin) * origin.line;
      if (height) {
        origin.line = tall_line(e);
        for (ptrdiff_t y = begin; y < bottom; ++y) {
          const ptrdiff_t at = y - begin;
          lay_out_tall(pixels + at * g.width * e.steps, e.steps, g.width, height, e.steps,
                       image + at * origin.line);
        }
      } else {
        origin.pixels = pixels;
      }
    } else {
      const Geometry& f = e.few->geometry;
      origin.line = f.stride_h * image_line(e);
      copy_lines(*e.few, image_index, begin * f.stride_h - f.pad_h, lines_of(f, bottom - begin),
                 image_columns(e), image);
    }
    const auto lines_of_panel = [&](ptrdiff_t channel, float* weights) -> Lines {
      copy_weights(p, channel, g.taps_h * g.taps_w, weights);
      return {zeros + width * kBlock + (channel - p.first_channel) / kBlock * lines, zeros, weights, width,
              channel};
    };
    for (ptrdiff_t channel = p.first_channel; channel < p.last_channel;) {
      const Panel panel = {e.packed + channel / kPanel * size,
                           e.steps,
                           e.few ? next_of(*e.few) : e.steps,
                           offsets,
                           pixels_of(g.width),
                           size};
      const Lines one = lines_of_panel(channel, e.scratch);
      channel += kBlock;
      if (kHasWideTiles && e.wide_tiles && !height && channel < p.last_channel) {
        const Lines both[] = {one, lines_of_panel(channel, e.scratch + kWeights)};
        channel += kBlock;
        expand_panels<2>(e, panel, origin, both, first, last, end);
      } else {
        expand_panels<1>(e, panel, origin, {one}, first, last, end);
      }
    }
    end = last % g.out_height == 0 ? 0 : bottom;
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
