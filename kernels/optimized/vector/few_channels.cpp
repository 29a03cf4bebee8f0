// Convolution of images with few channels, as the first of a network is, in either order.
//
// Runs of a window would be short and their pointers many. Instead the lines of the input
// under a few rows of outputs are copied, with the padding; what one output reads then lies
// a fixed distance from what its neighbour reads, for every step of the sum.
#include "few_channels.h"

#include "strip.h"
#include "tall_tiles.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kHalfVectors = kTileVectors / 2;
// Heights of tiles: a line of 14, 56 or 112 outputs is no multiple of the highest.
#ifdef PENLIGHT_FEW_TILES
constexpr int kHeights[] = {kTileRows};
#else
constexpr int kHeights[] = {kTileRows, kTileRows * 2 / 3, kTileRows / 2 + 1};
#endif

int height_of(const Geometry& g) { return best_height(g.out_width, kHeights); }

// Rows of outputs at a time: enough outputs to be worth a pass over the weights.
ptrdiff_t rows_of(const Geometry& g) { return min_of(max_of(4, 64 / g.out_width), g.out_height); }

bool has_wide_tiles(const FewChannels& p) { return kHasWideTiles && p.wide_tiles; }

// The height of tall tiles, for columns that would not fill a strip; 0 if there are none.
int tall_height(const FewChannels& p) {
  return p.tall_tiles && p.outputs % kStripColumns ? line_height(next_of(p), p.geometry.out_width) : 0;
}

// Columns of a line with its padding, under all outputs that full tiles have.
ptrdiff_t columns_of(const FewChannels& p) {
  const Geometry& g = p.geometry;
  const int tall = tall_height(p);
  ptrdiff_t outputs = round_up(g.out_width, height_of(g));
  if (has_wide_tiles(p)) outputs = max_of(outputs, round_up(g.out_width, kWideRows));
  if (tall) outputs = max_of(outputs, round_up(g.out_width, tall));
  return (outputs - 1) * g.stride_w + (g.taps_w - 1) * g.dilation_w + 1;
}

struct Tiles {
  const float* lines;
  const ptrdiff_t* offsets;  // of each step of the sum, in `lines`
  ptrdiff_t steps;
  ptrdiff_t next;           // elements from what one output reads to what the next does
  const float* weights;     // biases, then a panel's columns for each step
  ptrdiff_t weights_panel;  // elements from panel to panel, where a tile spans two
  Finish finish;
};

// A tile of outputs from `column` on, of which so many are stored.
template <int rows, int vectors>
PENLIGHT_INLINE void multiply_tile(const Tiles& t, ptrdiff_t column, ptrdiff_t stored) {
  const auto weight = [&](const float* base, int v) {
    constexpr int per_panel = kPanel / kLanes;
    return base + (v / per_panel) * t.weights_panel + (v % per_panel) * kLanes;
  };
  Floats sums[rows][vectors];
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    const Floats bias = load(weight(t.weights, v));
    repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][v] = bias; });
  });
  const ptrdiff_t next = t.next, steps = t.steps;
  const ptrdiff_t* const offsets = t.offsets;
  const float* const lines = t.lines + column * next;
  const float* b = t.weights + kPanel;
  ptrdiff_t k = 0;
  const auto step = [&](auto at) __attribute__((always_inline)) {
    const float* a = lines + offsets[k + at];
    Floats columns[vectors];
    repeat<vectors>([&](auto v)
                        __attribute__((always_inline)) { columns[v] = load(weight(b + at * kPanel, v)); });
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      const Floats value = splat(a[i * next]);
      repeat<vectors>([&](auto v)
                          __attribute__((always_inline)) { multiply_add(sums[i][v], value, columns[v]); });
    });
  };
  if constexpr (kUnrollsSteps || (kHasWideTiles && vectors == kWideVectors)) {
    for (; k + kStepsAtOnce <= steps; k += kStepsAtOnce, b += kStepsAtOnce * kPanel) {
      repeat<kStepsAtOnce>(step);
    }
  }
  for (; k < steps; ++k, b += kPanel) step(Index<0>());
  finish_tile<rows, vectors>(t.finish, column, stored, sums);
}

// Outputs [column, outputs) of a line.
template <int rows, int vectors>
void multiply(const Tiles& t, ptrdiff_t column, ptrdiff_t outputs) {
  for (; column < outputs; column += rows) {
    multiply_tile<rows, vectors>(t, column, min_of(rows, outputs - column));
  }
}

// A line of outputs, by tiles of a height.
template <int vectors, int at = 0>
void multiply_line(const Tiles& t, int height, ptrdiff_t outputs) {
  if constexpr (at + 1 < static_cast<int>(sizeof kHeights / sizeof *kHeights)) {
    if (height != kHeights[at]) return multiply_line<vectors, at + 1>(t, height, outputs);
  }
  multiply<kHeights[at], vectors>(t, 0, outputs);
}

// By wide tiles, the last of them no higher than it needs to be.
void multiply_wide(const Tiles& t, ptrdiff_t outputs) {
  if constexpr (kHasWideTiles) {
    const ptrdiff_t rest = outputs % kWideRows, whole = outputs - rest;
    multiply<kWideRows, kWideVectors>(t, 0, whole);
    with_height<kWideRows>(rest, [&](auto height) { multiply<height, kWideVectors>(t, whole, outputs); });
  }
}

}  // namespace

size_t few_channels_scratch(const FewChannels& p) {
  const Geometry& g = p.geometry;
  size_t size = static_cast<size_t>(lines_of(g, rows_of(g)));
  if (__builtin_mul_overflow(size, static_cast<size_t>(columns_of(p)), &size) ||
      __builtin_mul_overflow(size, static_cast<size_t>(p.channels) * sizeof(float), &size) ||
      __builtin_add_overflow(size, static_cast<size_t>(steps_of(p)) * sizeof(ptrdiff_t), &size)) {
    return SIZE_MAX;
  }
  return size;
}

void few_channels(const FewChannels& p) {
  const Geometry& g = p.geometry;
  const ptrdiff_t steps = steps_of(p);
  ptrdiff_t* offsets = static_cast<ptrdiff_t*>(p.scratch);
  float* lines = reinterpret_cast<float*>(offsets + steps);
  const ptrdiff_t columns = columns_of(p), line = columns * p.channels;
  find_steps(p, columns, offsets);
  Tiles t;
  t.offsets = offsets;
  t.steps = steps;
  t.next = next_of(p);
  t.weights_panel = (1 + steps) * kPanel;
  const int height = height_of(g), tall = tall_height(p);
  ptrdiff_t count = 0;
  for (ptrdiff_t first = p.first_row; first < p.last_row; first += count) {
    const ptrdiff_t image = first / g.out_height, oh = first % g.out_height;
    count = min_of(rows_of(g), min_of(p.last_row - first, g.out_height - oh));
    copy_lines(p, image, oh * g.stride_h - g.pad_h, lines_of(g, count), columns, lines);
    for (ptrdiff_t column = 0, width; column < p.outputs; column += width) {
      const ptrdiff_t rest = p.outputs - column;
      const bool wide = has_wide_tiles(p) && rest >= kWideColumns, is_tall = tall && rest < kStripColumns;
      width = min_of(wide ? kWideColumns : is_tall ? kPanel : kStripColumns, rest);
      t.weights = p.packed + column / kPanel * t.weights_panel + column % kPanel;
      for (ptrdiff_t r = 0; r < count; ++r) {
        const ptrdiff_t at = (first + r) * g.out_width * p.outputs + column;
        t.lines = lines + r * g.stride_h * line;
        t.finish = {p.output + at, p.outputs, width, p.epilogue};
        if (t.finish.epilogue.residual) t.finish.epilogue.residual += at;
        if (is_tall) {
          multiply_line_tall(t.weights, t.lines, offsets, t.next, steps, g.out_width, tall, false, t.finish);
        } else if (wide) {
          multiply_wide(t, g.out_width);
        } else if (width > kHalfVectors * kLanes) {
          multiply_line<kTileVectors>(t, height, g.out_width);
        } else {
          multiply_line<kHalfVectors>(t, height, g.out_width);
        }
      }
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
