// Convolution by 7x7 windows with a stride of two over images of few channels, as residual networks begin, in
// the domain of Winograd's minimal filtering (Lavin & Gray 2015, arXiv:1509.09308).
//
// Of every second column and row of such a window, the taps are a window of 4x4 with a stride of one, zeros
// where there is no tap, over an image of half the size. There are four such images, and their pixels lie
// side by side here, as channels would. A tile of 3x3 outputs takes 36 products for each of these channels:
// 432 of an image with three, where its windows take 1323. The sums of a row of points, six products, are
// transformed along it at once, while they are in the first cache.
//
// Outputs differ from a direct sum by about 2e-6 of their range. A NaN, an infinity or a sum near the largest
// float would reach all outputs of its tile: the caller is told, and computes directly.
#include "epilogue.h"
#include "few_channels.h"
#include "strip.h"
#include "winograd_filters.h"
#include "winograd_outputs.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kWindow = 7, kStride = 2, kPhases = kStride * kStride;
// Along an axis: taps of a phase, outputs of a tile, and its inputs, which are as many when transformed.
constexpr int kTaps = 4, kOut = kFewChannelsTile, kIn = kOut + kTaps - 1, kPoints = kIn * kIn;
// Tiles of a block, whose input is transformed at once; the last block of a line has up to twice as many.
constexpr ptrdiff_t kBlock = 12, kMostTiles = 2 * kBlock + kTileRows;
constexpr ptrdiff_t kPixel = kPanel;  // elements of a pixel of the four images
constexpr ptrdiff_t kFewestChannels = 3, kMostOutputs = 4096, kWidest = 1 << 16;

ptrdiff_t tiles_of(ptrdiff_t outputs) { return (outputs + kOut - 1) / kOut; }

// How large what scratch holds is, in elements.
struct Layout {
  explicit Layout(const FewChannels& p) {
    const bool wide = kHasWideTiles && p.wide_tiles && p.outputs >= kWideColumns;
    rows = wide ? kWideRows : kTileRows;
    group = wide ? kWideColumns : max_of(kStripColumns, kPanel);
    steps = kPhases * p.channels;
    weights = round_up(p.outputs, kPanel) * steps;
    columns = tiles_of(p.geometry.out_width) * kOut + kTaps - 1;
    line = columns * kPixel;
    pixels = round_up(kPhases * columns * p.channels, kPanel);
    sums = kTileRows * group;
    halves = kMostTiles * group;
  }
  ptrdiff_t all() const {
    return kPoints * weights + kIn * line + pixels + kPoints * kTiles + kIn * sums + kIn * kOut * halves;
  }

  static constexpr ptrdiff_t kTiles = kMostTiles * kPixel;  // of one point
  ptrdiff_t rows, group;                                    // tiles and columns that are multiplied at once
  ptrdiff_t steps;                                          // of a sum
  ptrdiff_t weights;                                        // of one point
  ptrdiff_t columns, line;                                  // of the four images
  ptrdiff_t pixels;                                         // two lines of the input
  ptrdiff_t sums;                                           // of one point
  ptrdiff_t halves;                                         // of a row of points and one column of outputs
};

// All weights, as [point][panel][phase][channel].
void transform_weights(const FewChannels& p, const Layout& layout, float* to) {
  const ptrdiff_t panel_size = (1 + steps_of(p)) * kPanel, tap = p.channels * kPanel;
  for (ptrdiff_t n = 0; n < p.outputs; n += kPanel) {
    for (ptrdiff_t step = 0; step < layout.steps; ++step, to += kPanel) {
      const ptrdiff_t phase = step / p.channels, channel = step % p.channels;
      const float* const from = p.packed + n / kPanel * panel_size + (1 + channel) * kPanel;
      for (ptrdiff_t lane = 0; lane < kPanel; lane += kLanes) {
        Floats columns[kTaps][kIn];
        for (int j = 0; j < kTaps; ++j) {
          Floats taps[kTaps];
          for (int i = 0; i < kTaps; ++i) {
            const ptrdiff_t h = kStride * i + phase / kStride, w = kStride * j + phase % kStride;
            const bool exists = h < kWindow && w < kWindow;
            taps[i] = exists ? load(from + (h * kWindow + w) * tap + lane) : Floats{};
          }
          FilterOfFour::weights(taps, columns[j]);
        }
        for (int i = 0; i < kIn; ++i) {
          Floats row[kTaps], made[kIn];
          for (int j = 0; j < kTaps; ++j) row[j] = columns[j][i];
          FilterOfFour::weights(row, made);
          for (int j = 0; j < kIn; ++j) store(to + (i * kIn + j) * layout.weights + lane, made[j]);
        }
      }
    }
  }
}

// One line of the four images: two of an image, from line `top` on.
void make_line(const FewChannels& p, const Layout& layout, ptrdiff_t image, ptrdiff_t top, float* pixels,
               float* to) {
  const ptrdiff_t width = kStride * layout.columns, pair = kStride * p.channels;
  copy_lines(p, image, top, kStride, width, pixels);
  const ptrdiff_t column = column_of(p), channel = p.planar ? width : 1;
  for (ptrdiff_t c = 0; c < p.channels; ++c, ++to) {
    const float *upper = pixels + c * channel, *lower = upper + width * p.channels;
    for (ptrdiff_t at = 0; at < layout.columns; ++at, upper += kStride * column, lower += kStride * column) {
      float* const made = to + at * kPixel;
      made[0] = upper[0];
      made[p.channels] = upper[column];
      made[pair] = lower[0];
      made[pair + p.channels] = lower[column];
    }
  }
}

// So many tiles that begin at a column of the four images; of these lines.
void transform_tiles(const Layout& layout, const float* const (&lines)[kIn], ptrdiff_t column,
                     ptrdiff_t count, float* to) {
  for (ptrdiff_t t = 0; t < count; ++t, column += kOut, to += kPixel) {
    for (ptrdiff_t lane = 0; lane < layout.steps; lane += kLanes) {
      Floats columns[kIn][kIn];
      for (int j = 0; j < kIn; ++j) {
        Floats d[kIn];
        for (int i = 0; i < kIn; ++i) d[i] = load(lines[i] + (column + j) * kPixel + lane);
        FilterOfFour::input(d, columns[j]);
      }
      for (int i = 0; i < kIn; ++i) {
        Floats row[kIn], made[kIn];
        for (int j = 0; j < kIn; ++j) row[j] = columns[j][i];
        FilterOfFour::input(row, made);
        for (int j = 0; j < kIn; ++j) store(to + (i * kIn + j) * Layout::kTiles + lane, made[j]);
      }
    }
  }
}

// The products of some tiles with weights of one point.
template <int rows, int vectors>
PENLIGHT_INLINE void multiply(const Layout& layout, const float* tiles, const float* weights, float* to) {
  Floats sums[rows][vectors];
  repeat<rows * vectors>([&](auto k)
                             __attribute__((always_inline)) { sums[k / vectors][k % vectors] = Floats{}; });
  const ptrdiff_t panel = layout.steps * kPanel, pitch = layout.group;
  for (ptrdiff_t k = 0; k < layout.steps; k += kPhases, tiles += kPhases, weights += kPhases * kPanel) {
    repeat<kPhases>([&](auto at) __attribute__((always_inline)) {
      Floats columns[vectors];
      repeat<vectors>([&](auto v) __attribute__((always_inline)) {
        columns[v] = load(weights + at * kPanel + place_of_vector(v, panel));
      });
      repeat<rows>([&](auto i) __attribute__((always_inline)) {
        const Floats value = splat(tiles[i * kPixel + at]);
        repeat<vectors>([&](auto v)
                            __attribute__((always_inline)) { multiply_add(sums[i][v], value, columns[v]); });
      });
    });
  }
  repeat<rows>([&](auto i) __attribute__((always_inline)) {
    repeat<vectors>([&](auto v)
                        __attribute__((always_inline)) { store(to + i * pitch + v * kLanes, sums[i][v]); });
  });
}

// Of `count` tiles, at most `rows`; more may be computed.
template <int rows, int vectors>
void multiply_some(const Layout& layout, ptrdiff_t count, const float* tiles, const float* weights,
                   float* to) {
  with_height<rows>(count, [&](auto height) { multiply<height, vectors>(layout, tiles, weights, to); });
}

// The sums of one point: of layout.rows tiles, or fewer, and so many columns.
void multiply_columns(const Layout& layout, ptrdiff_t count, ptrdiff_t columns, const float* tiles,
                      const float* weights, float* to) {
  if constexpr (kHasWideTiles) {
    if (layout.rows == kWideRows && columns == kWideColumns) {
      return multiply_some<kWideRows, kWideVectors>(layout, count, tiles, weights, to);
    }
  }
  for (ptrdiff_t n = 0; n < columns; n += kStripColumns) {
    const float* const own = weights + n / kPanel * layout.steps * kPanel + n % kPanel;
    if (columns - n >= kStripColumns) {
      multiply_some<kTileRows, kTileVectors>(layout, count, tiles, own, to + n);
    } else {
      multiply_some<kTileRows, kTileVectors / 2>(layout, count, tiles, own, to + n);
    }
  }
}

// The sums of a row of points, transformed along it.
void transform_sums(const Layout& layout, ptrdiff_t count, ptrdiff_t columns, const float* sums, float* to) {
  for (ptrdiff_t t = 0; t < count; ++t, sums += layout.group, to += layout.group) {
    for (ptrdiff_t n = 0; n < columns; n += kLanes) {
      Floats m[kIn], y[kOut];
      for (int j = 0; j < kIn; ++j) m[j] = load(sums + j * layout.sums + n);
      FilterOfFour::output(m, y);
      for (int j = 0; j < kOut; ++j) store(to + j * layout.halves + n, y[j]);
    }
  }
}

// Tiles of one line of them.
struct Block {
  ptrdiff_t image, top, left;  // of the first output
  ptrdiff_t count;
};

// Has the lines closer that finish() writes of one of `pieces` of the block, while there is time to fetch
// them: of usual images the result is larger than near caches, and stores that wait hold up all others. What
// another processor has read takes the longest, and few lines are on their way at once.
// Inline, or compilers leave calls that only fetch away.
PENLIGHT_INLINE void fetch_outputs(const FewChannels& p, const Block& block, ptrdiff_t piece,
                                   ptrdiff_t pieces, ptrdiff_t first, ptrdiff_t last) {
  const ptrdiff_t pitch = p.geometry.out_width * p.outputs, lines = kOut * block.count;
  const ptrdiff_t end = lines * (piece + 1) / pieces;
  const float* const corner =
      p.output + (block.image * p.geometry.out_height + block.top) * pitch + block.left * p.outputs;
  for (ptrdiff_t i = lines * piece / pieces; i < end; ++i) {
    const float* const line = corner + i / block.count * pitch + i % block.count * kOut * p.outputs;
    for (ptrdiff_t w = 0; w < kOut; ++w) {
      for (ptrdiff_t n = first; n < last; n += kPanel) __builtin_prefetch(line + w * p.outputs + n, 1, 3);
    }
  }
}

// Columns [first, last) of the outputs, of which transform_sums() has computed halves. False if one is not
// finite.
bool finish(const FewChannels& p, const Layout& layout, const Block& block, ptrdiff_t first, ptrdiff_t last,
            const float* halves) {
  const Geometry& g = p.geometry;
  const ptrdiff_t panel_size = (1 + steps_of(p)) * kPanel;
  TileOutputs to{};  // column by column: what is left is to be transformed down
  to.line = p.outputs;
  to.pixel = g.out_width * p.outputs;
  to.columns = min_of(kOut, g.out_height - block.top);
  const ptrdiff_t corner = ((block.image * g.out_height + block.top) * g.out_width + block.left) * p.outputs;
  Ints wild{};
  for (ptrdiff_t t = 0; t < block.count; ++t, halves += layout.group) {
    to.rows = min_of(kOut, g.out_width - block.left - t * kOut);
    for (ptrdiff_t n = first; n < last; n += kLanes) {
      const ptrdiff_t at = corner + t * kOut * p.outputs + n;
      to.some = p.outputs - n;
      to.output = p.output + at;
      to.residual = p.epilogue.residual ? p.epilogue.residual + at : nullptr;
      const Floats bias = load(p.packed + n / kPanel * panel_size + n % kPanel);
      Floats half[kOut][kIn];
      for (int j = 0; j < kOut; ++j) {
        for (int i = 0; i < kIn; ++i) half[j][i] = load(halves + (i * kOut + j) * layout.halves + n - first);
      }
      const Floats all = store_outputs<FilterOfFour, kOut, kOut>(p.epilogue, to, bias, half);
      wild |= all - all != Floats{};
    }
  }
  return !has_any(wild);
}

}  // namespace

size_t few_channels_tiles_scratch(const FewChannels& p) {
  const Geometry& g = p.geometry;
  const bool fits = g.taps_h == kWindow && g.taps_w == kWindow && g.stride_h == kStride &&
                    g.stride_w == kStride && g.dilation_h == 1 && g.dilation_w == 1 &&
                    p.channels >= kFewestChannels && kPhases * p.channels <= kPixel && p.outputs >= kPanel &&
                    p.outputs <= kMostOutputs && g.out_width <= kWidest;
  return fits ? static_cast<size_t>(Layout(p).all()) * sizeof(float) : 0;
}

bool few_channels_tiles(const FewChannels& p) {
  const Geometry& g = p.geometry;
  const Layout layout(p);
  float* const weights = static_cast<float*>(p.scratch);
  float* const ring = weights + kPoints * layout.weights;
  float* const pixels = ring + kIn * layout.line;
  float* const tiles = pixels + layout.pixels;
  float* const sums = tiles + kPoints * Layout::kTiles;
  float* const halves = sums + kIn * layout.sums;
  memset(ring, 0, static_cast<size_t>(kIn * layout.line) * sizeof(float));  // pixels have fewer elements
  transform_weights(p, layout, weights);
  const ptrdiff_t across = tiles_of(g.out_width), down = tiles_of(g.out_height);
  const ptrdiff_t blocks = max_of(across / kBlock, 1);
  ptrdiff_t after = 0;  // the lines that the ring has
  bool tame = true;
  for (ptrdiff_t row = p.first_row; row < p.last_row; ++row) {
    Block block{row / down, row % down * kOut, 0, 0};
    if (row == p.first_row || block.top == 0) after = block.top;
    for (; after < block.top + kIn; ++after) {
      make_line(p, layout, block.image, kStride * after - g.pad_h, pixels, ring + after % kIn * layout.line);
    }
    const float* lines[kIn];
    for (int i = 0; i < kIn; ++i) lines[i] = ring + (block.top + i) % kIn * layout.line;
    for (ptrdiff_t b = 0; b < blocks; ++b) {
      block.left = b * kBlock * kOut;
      block.count = b + 1 < blocks ? kBlock : across - b * kBlock;
      transform_tiles(layout, lines, block.left, block.count, tiles);
      for (ptrdiff_t n = 0; n < p.outputs; n += layout.group) {
        const ptrdiff_t last = min_of(n + layout.group, p.outputs), columns = round_up(last - n, kPanel);
        for (int i = 0; i < kIn; ++i) {
          for (ptrdiff_t t = 0; t < block.count; t += layout.rows) {
            const ptrdiff_t count = min_of(layout.rows, block.count - t);
            for (int j = 0; j < kIn; ++j) {
              const int point = i * kIn + j;
              if (t == 0) fetch_outputs(p, block, point, kIn * kIn, n, last);
              multiply_columns(layout, count, columns, tiles + point * Layout::kTiles + t * kPixel,
                               weights + point * layout.weights + n * layout.steps, sums + j * layout.sums);
            }
            transform_sums(layout, count, columns, sums,
                           halves + i * kOut * layout.halves + t * layout.group);
          }
        }
        tame &= finish(p, layout, block, n, last, halves);
      }
    }
  }
  return tame;
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
