// Normalisation of each row of a matrix.
#include "routines.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// What a row is finished with.
struct Scale {
  float mean, rstd;
};

// The vector of a row at element `at`, whole or in part. Are there weights, and biases?
template <bool weights, bool biases, bool whole>
PENLIGHT_INLINE void finish_part(const NormRows& p, const float* x, float* out, Floats mean, Floats factor,
                                 ptrdiff_t at) {
  const ptrdiff_t left = whole ? kLanes : p.count - at;
  Floats value = (load_part(x + at, left) - mean) * factor;
  if constexpr (weights) value *= load_part(p.weight + at, left);
  if constexpr (biases) value += load_part(p.bias + at, left);
  store_part(out + at, value, left);
}

template <bool weights, bool biases>
void finish_row(const NormRows& p, const float* x, float* out, Scale scale) {
  const Floats mean = splat(scale.mean), factor = splat(scale.rstd);
  ptrdiff_t i = 0;
  for (; i + kLanes <= p.count; i += kLanes) finish_part<weights, biases, true>(p, x, out, mean, factor, i);
  if (i < p.count) finish_part<weights, biases, false>(p, x, out, mean, factor, i);
}

const float* row_of(const NormRows& p, ptrdiff_t row) { return p.input + row * p.count; }

float mean_of_row(const NormRows& p, ptrdiff_t row) {
  return p.centered ? static_cast<float>(mean_of(row_of(p, row), p.count)) : 0.0f;
}

double squares_of_row(const NormRows& p, ptrdiff_t row, float mean) {
  const Floats means = splat(mean);
  const auto square = [&](Floats v) __attribute__((always_inline)) { return (v - means) * (v - means); };
  return sum_of(row_of(p, row), p.count, square);
}

float rstd_of(const NormRows& p, double squares) {
  return static_cast<float>(1.0 / __builtin_sqrt(squares * (1.0 / static_cast<double>(p.count)) + p.eps));
}

void keep(const NormRows& p, ptrdiff_t row, Scale scale) {
  if (p.means) p.means[row] = scale.mean;
  if (p.rstds) p.rstds[row] = scale.rstd;
}

template <bool weights, bool biases>
void few_rows_of(const NormRows& p) {
  // Several rows at once: the steps of one wait for each other, those of several do not.
  constexpr ptrdiff_t kTogether = 4;
  for (ptrdiff_t first = p.first_row; first < p.last_row; first += kTogether) {
    const ptrdiff_t rows = min_of(kTogether, p.last_row - first);
    Scale scales[kTogether];
    double squares[kTogether];
    for (ptrdiff_t j = 0; j < rows; ++j) scales[j].mean = mean_of_row(p, first + j);
    for (ptrdiff_t j = 0; j < rows; ++j) squares[j] = squares_of_row(p, first + j, scales[j].mean);
    for (ptrdiff_t j = 0; j < rows; ++j) scales[j].rstd = rstd_of(p, squares[j]);
    for (ptrdiff_t j = 0; j < rows; ++j) {
      finish_row<weights, biases>(p, row_of(p, first + j), p.output + (first + j) * p.count, scales[j]);
      keep(p, first + j, scales[j]);
    }
  }
}

// Three rows, each at a step of its own, in one loop: what is loaded, summed and stored takes turns then, and
// does not wait for what the others fill.
struct Turn {
  const float *summed, *squared, *finished;
  float squared_mean;
  Scale scale;  // of the finished one
  float* output;
  double apart, squares;  // what is found of the first two
};

template <bool centered, bool weights, bool biases>
PENLIGHT_INLINE void take_turn(const NormRows& p, Turn& turn) {
  const Floats first = splat(turn.summed[0]), mean = splat(turn.squared_mean);
  const Floats finished_mean = splat(turn.scale.mean), factor = splat(turn.scale.rstd);
  Floats sums[4] = {}, squares[4] = {};
  // As sum_of() adds.
  const auto step = [&](ptrdiff_t i, auto into, auto whole) __attribute__((always_inline)) {
    constexpr bool is_whole = decltype(whole)() != 0;
    const ptrdiff_t left = is_whole ? kLanes : p.count - i;
    if constexpr (centered) {
      const Floats apart = load_part(turn.summed + i, left) - first;
      sums[into] += is_whole ? apart : first_lanes(apart, left);
    }
    const Floats value = load_part(turn.squared + i, left) - mean, square = value * value;
    squares[into] += is_whole ? square : first_lanes(square, left);
    finish_part<weights, biases, is_whole>(p, turn.finished, turn.output, finished_mean, factor, i);
  };
  ptrdiff_t i = 0;
  for (; i + 4 * kLanes <= p.count; i += 4 * kLanes) {
    repeat<4>([&](auto u) __attribute__((always_inline)) { step(i + u * kLanes, u, Index<1>()); });
  }
  for (; i + kLanes <= p.count; i += kLanes) step(i, Index<0>(), Index<1>());
  if (i < p.count) step(i, Index<1>(), Index<0>());
  turn.apart = static_cast<double>(sum_lanes((sums[0] + sums[1]) + (sums[2] + sums[3])));
  turn.squares = static_cast<double>(sum_lanes((squares[0] + squares[1]) + (squares[2] + squares[3])));
}

// Between the steps of a row lies a turn of others, so that a sum is there when it is needed.
template <bool centered, bool weights, bool biases>
void many_rows_of(const NormRows& p) {
  constexpr ptrdiff_t kApart = 2, kKept = 8;
  float means[kKept] = {}, rstds[kKept] = {};
  const ptrdiff_t last = p.last_row - 1;
  for (ptrdiff_t row = p.first_row; row < p.first_row + 2 * kApart; ++row) {
    means[row % kKept] = mean_of_row(p, row);
    if (row < p.first_row + kApart)
      rstds[row % kKept] = rstd_of(p, squares_of_row(p, row, means[row % kKept]));
  }
  for (ptrdiff_t row = p.first_row; row <= last; ++row) {
    // Past the end the last row is summed once more, for nothing.
    const ptrdiff_t squared = min_of(row + kApart, last), summed = min_of(row + 2 * kApart, last);
    const Scale scale = {means[row % kKept], rstds[row % kKept]};
    Turn turn = {row_of(p, summed),
                 row_of(p, squared),
                 row_of(p, row),
                 means[squared % kKept],
                 scale,
                 p.output + row * p.count,
                 0,
                 0};
    take_turn<centered, weights, biases>(p, turn);
    keep(p, row, scale);
    rstds[squared % kKept] = rstd_of(p, turn.squares);
    if constexpr (centered) {
      means[summed % kKept] = static_cast<float>(mean_from(turn.summed, p.count, turn.apart));
    }
  }
}

// From how many rows on turns are taken. Small builds do without.
#if defined(__OPTIMIZE_SIZE__)
constexpr ptrdiff_t kMany = PTRDIFF_MAX;
#else
constexpr ptrdiff_t kMany = 16;
#endif

template <bool weights, bool biases>
void rows_of(const NormRows& p) {
  if constexpr (kMany < PTRDIFF_MAX) {
    if (p.last_row - p.first_row >= kMany && p.count <= kPiece) {
      return p.centered ? many_rows_of<true, weights, biases>(p) : many_rows_of<false, weights, biases>(p);
    }
  }
  few_rows_of<weights, biases>(p);
}

}  // namespace

void norm_rows(const NormRows& p) {
  if (p.weight) return p.bias ? rows_of<true, true>(p) : rows_of<true, false>(p);
  return p.bias ? rows_of<false, true>(p) : rows_of<false, false>(p);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
