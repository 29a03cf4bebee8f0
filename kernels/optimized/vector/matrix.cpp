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

// Vectors of columns whose sums stay in registers, and steps of the sum that begin from zero: of many
// small sums less is lost than of one long one.
constexpr int kTile = 4;
constexpr ptrdiff_t kSteps = 512;

// Products of `rows` rows with a tile of columns from `n` on, which lie side by side.
template <int rows>
void add_up_columns(const FewRows& p, ptrdiff_t n) {
  const ptrdiff_t left = p.last - n;
  for (ptrdiff_t begin = 0; begin == 0 || begin < p.depth; begin += kSteps) {
    const ptrdiff_t end = min_of(begin + kSteps, p.depth);
    Floats sums[rows][kTile] = {};
    const float* from = p.matrix + begin * p.row_pitch + n;
    for (ptrdiff_t k = begin; k < end; ++k, from += p.row_pitch) {
      Floats columns[kTile];
      repeat<kTile>([&](auto v) __attribute__((always_inline)) {
        columns[v] = load_part(from + v * kLanes, left - v * kLanes);
      });
      repeat<rows>([&](auto i) __attribute__((always_inline)) {
        const Floats value = splat(p.input[min_of(i, p.rows - 1) * p.depth + k]);
        repeat<kTile>([&](auto v) __attribute__((always_inline)) { sums[i][v] += value * columns[v]; });
      });
    }
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      if (i >= p.rows) return;
      float* const to = p.output + i * p.output_pitch + n;
      const float* const before = begin > 0 ? to : p.bias ? p.bias + n : nullptr;
      repeat<kTile>([&](auto v) __attribute__((always_inline)) {
        const ptrdiff_t some = left - v * kLanes;
        if (before) sums[i][v] += load_part(before + v * kLanes, some);
        store_part(to + v * kLanes, sums[i][v], some);
      });
    });
  }
}

}  // namespace

void pack_matrix(const PackMatrix& p) {
  float* to = p.output;
  for (ptrdiff_t first = p.first; first < p.last; first += kPanel, to += (1 + p.depth) * kPanel) {
    const ptrdiff_t count = min_of(p.last - first, kPanel);
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
}

void few_rows(const FewRows& p) {
  if (p.row_pitch != 1) {
    for (ptrdiff_t n = p.first; n < p.last; n += kTile * kLanes) {
      if (p.rows == 1) {
        add_up_columns<1>(p, n);
      } else if (p.rows == 2) {
        add_up_columns<2>(p, n);
      } else {
        add_up_columns<kFewRows>(p, n);
      }
    }
    return;
  }
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
