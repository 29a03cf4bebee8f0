// Matrix products over packed weights: linear layers and convolutions alike.
//
// One register tile is a few rows by one or two panels. Weights are read in the
// order in which they were packed, the input where it lies: a row of the tile is a
// pointer for each tap (Dukhan, "The indirect convolution algorithm", 2019), so a
// convolution builds no matrix of patches. Only windows that reach over the left or
// right edge of an image are copied, with zeros, when a run spans their columns.
//
// Rows, taps and channels are walked in blocks, so that a block of a panel stays in
// the first cache while a block of rows, in the second, passes over it. Sums run
// over k in the same order for every split of rows and panels between threads.
#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

#if defined(__AVX512F__)
constexpr int kRows = 8, kVectors = 2;  // 8 rows by 32 columns
#elif defined(__AVX__)
constexpr int kRows = 6, kVectors = 2;  // 6 by 16
#elif defined(__aarch64__)
constexpr int kRows = 6, kVectors = 4;  // 6 by 16: 24 sums of 32 registers
#else
constexpr int kRows = 4, kVectors = 2;  // 4 by 8: half a panel
#endif
constexpr ptrdiff_t kColumns = kVectors * kLanes;
constexpr ptrdiff_t kDepth = 384;  // k of one block: 24 KB of a panel
constexpr ptrdiff_t kRowBlock = 96;
constexpr ptrdiff_t kPointers = 4096;  // most row pointers of a block

PENLIGHT_INLINE ptrdiff_t min_of(ptrdiff_t a, ptrdiff_t b) { return a < b ? a : b; }

// One block of k for one tile of the output.
struct Tile {
  const float* const* rows;  // [tap][row]
  ptrdiff_t taps, row_step;  // row_step: pointers from tap to tap
  ptrdiff_t first_channel, channels;
  const float* weights;     // of the first tap and channel of the block
  ptrdiff_t weights_tap;    // elements from tap to tap
  ptrdiff_t weights_panel;  // elements from panel to panel, where a tile spans two
  const float* start;       // biases, or null: the sums so far lie in the output
  bool last;                // the sums are complete
  float* output;
  const float* residual;
  ptrdiff_t output_pitch, residual_pitch, columns;  // columns: how many exist
};

template <int rows, class Sums>
PENLIGHT_INLINE void store_tile(const Tile& tile, Sums& sums) {
  for (int i = 0; i < rows; ++i) {
    float* to = tile.output + i * tile.output_pitch;
    for (int v = 0; v < kVectors; ++v) {
      const ptrdiff_t left = tile.columns - v * kLanes;
      if (left >= kLanes) {
        store(to + v * kLanes, sums[i][v]);
      } else if (left > 0) {
        store_some(to + v * kLanes, sums[i][v], left);
      }
    }
  }
}

PENLIGHT_INLINE Floats load_columns(const float* from, ptrdiff_t left) {
  if (left >= kLanes) return load(from);
  return left > 0 ? load_some(from, left) : Floats{};
}

template <int rows>
void multiply(const Tile& tile, Activation activation, float low, float high) {
  Floats sums[rows][kVectors];
  // Panels are narrower than a tile of the widest vectors: vector v lies here.
  const auto weight = [&](const float* base, int v) {
    constexpr int per_panel = kPanel / kLanes;
    return base + (v / per_panel) * tile.weights_panel + (v % per_panel) * kLanes;
  };
  if (tile.start) {
    repeat<kVectors>([&](auto v) __attribute__((always_inline)) {
      const Floats bias = load(weight(tile.start, v));
      repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][v] = bias; });
    });
  } else {
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      repeat<kVectors>([&](auto v) __attribute__((always_inline)) {
        sums[i][v] =
            load_columns(tile.output + i * tile.output_pitch + v * kLanes, tile.columns - v * kLanes);
      });
    });
  }
  for (ptrdiff_t t = 0; t < tile.taps; ++t) {
    const float* a[rows];
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      a[i] = tile.rows[t * tile.row_step + i] + tile.first_channel;
    });
    const float* b = tile.weights + t * tile.weights_tap;
    for (ptrdiff_t c = 0; c < tile.channels; ++c) {
      Floats columns[kVectors];
      repeat<kVectors>([&](auto v) __attribute__((always_inline)) { columns[v] = load(weight(b, v)); });
      repeat<rows>([&](auto i) __attribute__((always_inline)) {
        const Floats value = splat(a[i][c]);
        repeat<kVectors>([&](auto v) __attribute__((always_inline)) { sums[i][v] += value * columns[v]; });
      });
      b += kPanel;
    }
  }
  if (!tile.last) return store_tile<rows>(tile, sums);
  if (tile.residual) {
    for (int i = 0; i < rows; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        sums[i][v] +=
            load_columns(tile.residual + i * tile.residual_pitch + v * kLanes, tile.columns - v * kLanes);
      }
    }
  }
  const Bounds bounds = {splat(low), splat(high)};
  with_activation(activation, [&](auto which) {
    constexpr Activation chosen = static_cast<Activation>(static_cast<int>(decltype(which)()));
    if constexpr (chosen != Activation::None) {
      for (int i = 0; i < rows; ++i) {
        for (int v = 0; v < kVectors; ++v) sums[i][v] = activated<chosen>(sums[i][v], bounds);
      }
    }
  });
  store_tile<rows>(tile, sums);
}

using MultiplyFn = void (*)(const Tile&, Activation, float, float);

MultiplyFn multiply_of(ptrdiff_t rows) {
  switch (rows) {
    case 1:
      return multiply<1>;
    case 2:
      return multiply<2>;
    case 3:
      return multiply<3>;
    case 4:
      return multiply<4>;
#if defined(__AVX__) || defined(__aarch64__)
    case 5:
      return multiply<5>;
    case 6:
      return multiply<6>;
#endif
#if defined(__AVX512F__)
    case 7:
      return multiply<7>;
    case 8:
      return multiply<8>;
#endif
  }
  return nullptr;
}

// Where the runs of a block of rows begin.
class Rows {
 public:
  Rows(const Product& product, const float** pointers, float* copies)
      : product_(product), pointers_(pointers), copies_(copies) {}

  // Fills [tile][tap][row in tile] for `count` rows from `first`.
  void locate(ptrdiff_t first, ptrdiff_t count, ptrdiff_t tile_rows) {
    const Product& p = product_;
    copied_ = 0;
    const ptrdiff_t positions = p.out_height * p.out_width;
    ptrdiff_t image = first / positions, rest = first % positions;
    ptrdiff_t oh = rest / p.out_width, ow = rest % p.out_width;
    const ptrdiff_t taps = p.taps_h * p.taps_w;
    for (ptrdiff_t r = 0; r < count; ++r) {
      const float** to = pointers_ + (r / tile_rows) * tile_rows * taps + r % tile_rows;
      const float* base = p.input + image * p.height * p.width * p.pixel;
      const ptrdiff_t left = ow * p.stride_w - p.pad_w;
      for (ptrdiff_t th = 0; th < p.taps_h; ++th) {
        const ptrdiff_t ih = oh * p.stride_h - p.pad_h + th * p.dilation_h;
        const float* line = ih >= 0 && ih < p.height ? base + ih * p.width * p.pixel : nullptr;
        for (ptrdiff_t tw = 0; tw < p.taps_w; ++tw) {
          *to = run(line, left + tw * p.dilation_w);
          to += tile_rows;
        }
      }
      if (++ow == p.out_width) {
        ow = 0;
        if (++oh == p.out_height) {
          oh = 0;
          ++image;
        }
      }
    }
  }

 private:
  const float* run(const float* line, ptrdiff_t column) {
    const Product& p = product_;
    if (!line) return p.zeros;
    if (column >= 0 && column + p.span_w <= p.width) return line + column * p.pixel;
    if (column >= p.width || column + p.span_w <= 0) return p.zeros;
    float* copy = copies_ + copied_;
    copied_ += p.channels;
    const ptrdiff_t per_column = p.channels / p.span_w;
    for (ptrdiff_t s = 0; s < p.span_w; ++s) {
      const ptrdiff_t from = column + s;
      if (from >= 0 && from < p.width) {
        memcpy(copy + s * per_column, line + from * p.pixel, static_cast<size_t>(per_column) * 4);
      } else {
        memset(copy + s * per_column, 0, static_cast<size_t>(per_column) * 4);
      }
    }
    return copy;
  }

  const Product& product_;
  const float** pointers_;
  float* copies_;
  ptrdiff_t copied_ = 0;
};

ptrdiff_t rows_of_block(const Product& p) {
  const ptrdiff_t taps = p.taps_h * p.taps_w;
  const ptrdiff_t most = min_of(kRowBlock, kPointers / taps / kRows * kRows);
  return most < kRows ? kRows : most;
}

}  // namespace

size_t product_scratch(const Product& p) {
  const ptrdiff_t taps = p.taps_h * p.taps_w, rows = rows_of_block(p);
  const ptrdiff_t copies = p.span_w > 1 ? rows * p.taps_h * p.channels : 0;
  return static_cast<size_t>(rows * taps) * sizeof(float*) + static_cast<size_t>(copies) * sizeof(float);
}

void product(const Product& p) {
  const ptrdiff_t taps = p.taps_h * p.taps_w;
  const ptrdiff_t panel_size = (1 + taps * p.channels) * kPanel;
  const ptrdiff_t most = rows_of_block(p);
  const float** pointers = static_cast<const float**>(p.scratch);
  Rows rows(p, pointers, reinterpret_cast<float*>(pointers + most * taps));

  // Blocks of rows of about one size.
  const ptrdiff_t total = p.last_row - p.first_row;
  const ptrdiff_t blocks = (total + most - 1) / most;
  const ptrdiff_t even = blocks ? (total + blocks - 1) / blocks : 0;
  const ptrdiff_t block = (even + kRows - 1) / kRows * kRows;
  // Whole taps when several fit a block of k, else parts of one.
  const ptrdiff_t taps_step = p.channels >= kDepth ? 1 : min_of(taps, kDepth / p.channels);
  const ptrdiff_t parts = (p.channels + kDepth - 1) / kDepth;
  const ptrdiff_t channels_step = taps_step > 1 || parts <= 1 ? p.channels : (p.channels + parts - 1) / parts;
  const ptrdiff_t last_column = min_of(p.last_panel * kPanel, p.outputs);

  for (ptrdiff_t row = p.first_row; row < p.last_row; row += block) {
    const ptrdiff_t count = min_of(block, p.last_row - row);
    rows.locate(row, count, kRows);
    for (ptrdiff_t tap = 0; tap < taps; tap += taps_step) {
      for (ptrdiff_t channel = 0; channel < p.channels; channel += channels_step) {
        const ptrdiff_t tap_count = min_of(taps_step, taps - tap);
        const ptrdiff_t channel_count = min_of(channels_step, p.channels - channel);
        const bool first = tap == 0 && channel == 0;
        const bool last = tap + tap_count == taps && channel + channel_count == p.channels;
        for (ptrdiff_t column = p.first_panel * kPanel; column < last_column; column += kColumns) {
          const float* panel = p.packed + column / kPanel * panel_size + column % kPanel;
          Tile tile;
          tile.taps = tap_count;
          tile.row_step = kRows;
          tile.first_channel = channel;
          tile.channels = channel_count;
          tile.weights = panel + (1 + tap * p.channels + channel) * kPanel;
          tile.weights_tap = p.channels * kPanel;
          // Past the last panel of an odd number the same one is read again, for nothing.
          tile.weights_panel = column + kPanel < (p.outputs + kPanel - 1) / kPanel * kPanel ? panel_size : 0;
          tile.start = first ? panel : nullptr;
          tile.last = last;
          tile.columns = min_of(kColumns, last_column - column);
          tile.output_pitch = p.output_pitch;
          tile.residual_pitch = p.residual_pitch;
          for (ptrdiff_t r = 0; r < count; r += kRows) {
            tile.rows = pointers + r * taps + tap * kRows;
            tile.output = p.output + (row + r) * p.output_pitch + column;
            tile.residual = p.residual ? p.residual + (row + r) * p.residual_pitch + column : nullptr;
            multiply_of(min_of(kRows, count - r))(tile, p.activation, p.low, p.high);
          }
        }
      }
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
