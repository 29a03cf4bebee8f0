// Products with matrices that are not packed: laid out as panels a part at a time, or,
// for a few rows, multiplied where they lie.
#include "dots.h"
#include "routines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kAtOnce = 4;

// Products of one row with `count` columns of the matrix, each dense along k.
template <int count>
PENLIGHT_INLINE void dot_columns(const float* row, const float* columns, ptrdiff_t pitch, ptrdiff_t depth,
                                 float* sums) {
  Floats parts[count][2] = {};
  ptrdiff_t k = 0;
  for (; k + 2 * kLanes <= depth; k += 2 * kLanes) {
    const Floats a = load(row + k), b = load(row + k + kLanes);
    repeat<count>([&](auto j) __attribute__((always_inline)) {
      parts[j][0] += a * load(columns + j * pitch + k);
      parts[j][1] += b * load(columns + j * pitch + k + kLanes);
    });
  }
  for (; k < depth; k += kLanes) {
    const ptrdiff_t some = depth - k;
    const Floats a = load_part(row + k, some);
    for (int j = 0; j < count; ++j) parts[j][0] += a * load_part(columns + j * pitch + k, some);
  }
  for (int j = 0; j < count; ++j) sums[j] = sum_lanes(parts[j][0] + parts[j][1]);
}

// Steps of the sum that begin from zero: of many small sums less is lost than of one long one. The columns
// that a tile reads in so many stay in a near cache for the rows below it.
constexpr ptrdiff_t kSteps = 512;
// Rows of the matrix may lie too far apart for a processor to foresee them: the first tile of columns fetches
// what is read so many steps later.
constexpr ptrdiff_t kAhead = 16;
// Vectors of columns, side by side, of a tile of so many rows: as many sums as registers hold.
constexpr int kTile = 4, kLowRows = 3, kHighRows = 6, kNarrowRows = 8;
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kHighTile = 4;
#else
constexpr int kHighTile = 2;
#endif

// Steps [begin, end) of the sums of a tile, from row and column `row` and `n` on. Columns end at p.last,
// where the tile is not whole.
template <int rows, int vectors, bool whole>
void add_up_tile(const PlainProduct& p, ptrdiff_t row, ptrdiff_t n, ptrdiff_t begin, ptrdiff_t end) {
  const auto left = [&](int v) { return whole ? kLanes : p.last - n - v * kLanes; };
  Floats sums[rows][vectors] = {};
  const float* const input = p.input + row * p.depth;
  const float* from = p.matrix + begin * p.row_pitch + n;
  for (ptrdiff_t k = begin; k < end; ++k, from += p.row_pitch) {
    Floats columns[vectors];
    if (vectors == kTile && row == 0) {
      for (int v = 0; v < vectors; ++v) __builtin_prefetch(from + kAhead * p.row_pitch + v * kLanes);
    }
    repeat<vectors>(
        [&](auto v) __attribute__((always_inline)) { columns[v] = load_part(from + v * kLanes, left(v)); });
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      const Floats value = splat(input[i * p.depth + k]);
      repeat<vectors>([&](auto v) __attribute__((always_inline)) { sums[i][v] += value * columns[v]; });
    });
  }
  repeat<rows>([&](auto i) __attribute__((always_inline)) {
    float* const to = p.output + (row + i) * p.output_pitch + n;
    const float* const before = begin > 0 ? to : p.bias ? p.bias + n : nullptr;
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      if (before) sums[i][v] += load_part(before + v * kLanes, left(v));
      store_part(to + v * kLanes, sums[i][v], left(v));
    });
  });
}

// The last rows, by the tile that has just these.
template <int rows, int vectors, bool whole>
void add_up_rest(const PlainProduct& p, ptrdiff_t row, ptrdiff_t n, ptrdiff_t begin, ptrdiff_t end) {
  if constexpr (rows > 0) {
    if (p.rows - row < rows) return add_up_rest<rows - 1, vectors, whole>(p, row, n, begin, end);
    add_up_tile<rows, vectors, whole>(p, row, n, begin, end);
  }
}

// All rows of a tile's columns, by tiles of at most so many.
template <int most, int vectors, bool whole>
void add_up_columns(const PlainProduct& p, ptrdiff_t n) {
  for (ptrdiff_t begin = 0; begin == 0 || begin < p.depth; begin += kSteps) {
    const ptrdiff_t end = min_of(begin + kSteps, p.depth);
    ptrdiff_t row = 0;
    for (; row + most <= p.rows; row += most) add_up_tile<most, vectors, whole>(p, row, n, begin, end);
    add_up_rest<most - 1, vectors, whole>(p, row, n, begin, end);
  }
}

// A few rows by many columns: some rows of the matrix at a time are read on, line after line, which
// processors foresee, and sums wait in the output. Both stay in a near cache from row to row.
// Tiles of vectors of 16 floats read whole lines of a row, and are as they were measured.
constexpr bool kHasLines = kLanes < 16;
constexpr int kRowsAtOnce = 8;
constexpr ptrdiff_t kColumnsAtOnce = 2048;

// The next `rows` steps of the sums of one row; the first ones begin them.
template <int rows>
void add_rows(const PlainProduct& p, ptrdiff_t row, ptrdiff_t k, ptrdiff_t first, ptrdiff_t last) {
  const float* const from = p.matrix + k * p.row_pitch;
  float* const to = p.output + row * p.output_pitch;
  const float* const before = k > 0 ? to : p.bias;
  Floats values[rows];
  repeat<rows>([&](auto i)
                   __attribute__((always_inline)) { values[i] = splat(p.input[row * p.depth + k + i]); });
  const auto add = [&](ptrdiff_t n, auto get) __attribute__((always_inline)) {
    Floats sum = values[0] * get(from + n);
    repeat<rows - 1>([&](auto i) __attribute__((always_inline)) {
      sum += values[i + 1] * get(from + (i + 1) * p.row_pitch + n);
    });
    return before ? sum + get(before + n) : sum;
  };
  ptrdiff_t n = first;
  for (; n + kLanes <= last; n += kLanes) store(to + n, add(n, [](const float* x) { return load(x); }));
  const ptrdiff_t left = last - n;
  if (left) store_some(to + n, add(n, [&](const float* x) { return load_some(x, left); }), left);
}

void add_up_by_lines(const PlainProduct& p) {
  for (ptrdiff_t first = p.first; first < p.last; first += kColumnsAtOnce) {
    const ptrdiff_t last = min_of(first + kColumnsAtOnce, p.last);
    ptrdiff_t k = 0;
    for (; k + kRowsAtOnce <= p.depth; k += kRowsAtOnce) {
      for (ptrdiff_t row = 0; row < p.rows; ++row) add_rows<kRowsAtOnce>(p, row, k, first, last);
    }
    for (; k < p.depth; ++k) {
      for (ptrdiff_t row = 0; row < p.rows; ++row) add_rows<1>(p, row, k, first, last);
    }
  }
}

// Rows that lie side by side, times columns that do.
void add_up(const PlainProduct& p) {
  ptrdiff_t n = p.first;
  if constexpr (!kFewTiles) {
    if (kHasLines && p.by_lines && p.depth > 0) return add_up_by_lines(p);
    const ptrdiff_t width = (p.rows <= kLowRows ? kTile : kHighTile) * kLanes;
    for (; n + width <= p.last; n += width) {
      if (p.rows <= kLowRows) {
        add_up_columns<kLowRows, kTile, true>(p, n);
      } else {
        add_up_columns<kHighRows, kHighTile, true>(p, n);
      }
    }
    for (; n + 2 * kLanes <= p.last; n += 2 * kLanes) add_up_columns<kHighRows, 2, true>(p, n);
    for (; n + kLanes <= p.last; n += kLanes) add_up_columns<kNarrowRows, 1, true>(p, n);
    if (n < p.last) add_up_columns<kNarrowRows, 1, false>(p, n);
  } else {
    for (; n < p.last; n += kTile * kLanes) add_up_columns<kLowRows, kTile, false>(p, n);
  }
}

// Whole panels of a matrix whose rows are dense: each row is read on, line after line.
constexpr ptrdiff_t kPanelsAtOnce = 8;
void pack_rows(const PackMatrix& p, ptrdiff_t first, ptrdiff_t panels, float* output) {
  const auto pack = [&](const float* from, float* to) {
    for (ptrdiff_t panel = 0; panel < panels; ++panel) {
      memcpy(to + panel * (1 + p.depth) * kPanel, from + panel * kPanel, sizeof(float) * kPanel);
    }
  };
  if (p.bias) {
    pack(p.bias + first, output);
  } else {
    for (ptrdiff_t panel = 0; panel < panels; ++panel) {
      memset(output + panel * (1 + p.depth) * kPanel, 0, sizeof(float) * kPanel);
    }
  }
  for (ptrdiff_t k = 0; k < p.depth; ++k) {
    pack(p.matrix + k * p.row_pitch + first, output + (1 + k) * kPanel);
  }
}

// `count` columns, from `first` on, of any matrix.
void pack_panel(const PackMatrix& p, ptrdiff_t first, ptrdiff_t count, float* to) {
  memset(to, 0, sizeof(float) * static_cast<size_t>(count < kPanel ? (1 + p.depth) * kPanel : kPanel));
  if (p.bias) memcpy(to, p.bias + first, static_cast<size_t>(count) * sizeof(float));
  if (p.column_pitch == 1) {
    const float* from = p.matrix + first;
    for (ptrdiff_t k = 0; k < p.depth; ++k, from += p.row_pitch) {
      memcpy(to + (1 + k) * kPanel, from, static_cast<size_t>(count) * sizeof(float));
    }
  } else if (p.row_pitch == 1) {
    for (ptrdiff_t j = 0; j < count; j += kLanes) {
      lay_out(p.matrix + (first + j) * p.column_pitch, p.column_pitch, count - j, p.depth, to + kPanel + j,
              kPanel);
    }
  } else {
    for (ptrdiff_t j = 0; j < count; ++j) {
      const float* from = p.matrix + (first + j) * p.column_pitch;
      float* column = to + kPanel + j;
      for (ptrdiff_t k = 0; k < p.depth; ++k) column[k * kPanel] = from[k * p.row_pitch];
    }
  }
}

}  // namespace

void pack_matrix(const PackMatrix& p) {
  const ptrdiff_t size = (1 + p.depth) * kPanel;
  for (ptrdiff_t first = p.first; first < p.last;) {
    float* const to = p.output + (first - p.first) / kPanel * size;
    const ptrdiff_t whole = p.column_pitch == 1 ? min_of((p.last - first) / kPanel, kPanelsAtOnce) : 0;
    if (whole > 0) {
      pack_rows(p, first, whole, to);
    } else {
      pack_panel(p, first, min_of(p.last - first, kPanel), to);
    }
    first += max_of(whole, 1) * kPanel;
  }
}

void plain_product(const PlainProduct& p) {
  if (p.row_pitch != 1) return add_up(p);
  for (ptrdiff_t n = p.first; n < p.last;) {
    const ptrdiff_t left = p.last - n;
    const float* columns = p.matrix + n * p.column_pitch;
    for (ptrdiff_t m = 0; m < p.rows; ++m) {
      const float* row = p.input + m * p.depth;
      float* out = p.output + m * p.output_pitch + n;
      const ptrdiff_t count = left < kAtOnce ? 1 : kAtOnce;
      if (count == 1) {
        dot_columns<1>(row, columns, p.column_pitch, p.depth, out);
      } else {
        dot_columns<kAtOnce>(row, columns, p.column_pitch, p.depth, out);
      }
      for (ptrdiff_t j = 0; p.bias && j < count; ++j) out[j] += p.bias[n + j];
    }
    n += left < kAtOnce ? 1 : kAtOnce;
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
