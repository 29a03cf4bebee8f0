// Normalisation of each row of a matrix.
#include "routines.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// One row, or two neighbours together: they share weights, and the steps of one do not wait for the other's.
// Whichever it is, a row is summed in the same order.

// Calls step(at, which of two sums, is the vector whole?) for each vector of `count` elements.
template <class Step>
PENLIGHT_INLINE void by_twos(ptrdiff_t count, Step&& step) {
  ptrdiff_t i = 0;
  for (; i + 2 * kLanes <= count; i += 2 * kLanes) {
    step(i, Index<0>(), Index<1>());
    step(i + kLanes, Index<1>(), Index<1>());
  }
  if (i + kLanes <= count) {
    step(i, Index<0>(), Index<1>());
    i += kLanes;
  }
  if (i < count) step(i, Index<1>(), Index<0>());
}

// What is summed of a row in one pass: by how far its numbers are from one near them (from zero where nothing
// is centered), and the squares of that.
template <int rows>
struct Sums {
  Floats from[rows], apart[rows][2], squares[rows][2];
};

template <int rows>
struct Moments {
  double apart[rows], squares[rows];
};

// From the first number of each row.
template <int rows>
PENLIGHT_INLINE Sums<rows> nothing_of(const float* x, ptrdiff_t count) {
  Sums<rows> sums = {};
  repeat<rows>([&](auto j) __attribute__((always_inline)) { sums.from[j] = splat(x[j * count]); });
  return sums;
}

template <bool centered, int rows, class Whole>
PENLIGHT_INLINE void add_part(Sums<rows>& sums, ptrdiff_t into, const float* x, ptrdiff_t count,
                              ptrdiff_t left, Whole) {
  constexpr bool is_whole = Whole() != 0;
  repeat<rows>([&](auto j) __attribute__((always_inline)) {
    Floats value = load_part(x + j * count, is_whole ? kLanes : left);
    if constexpr (centered) {
      value -= sums.from[j];
      if constexpr (!is_whole) value = first_lanes(value, left);
      sums.apart[j][into] += value;
    }
    sums.squares[j][into] += value * value;
  });
}

// The two sums of each row come out in a quarter of one vector.
template <int rows>
PENLIGHT_INLINE Moments<rows> moments_in(const Sums<rows>& sums) {
  constexpr int kHalf = kLanes / 2, kQuarter = kLanes / 4;
  Floats each[rows];
  repeat<rows>([&](auto j) __attribute__((always_inline)) {
    each[j] = fold_both<kHalf>(sums.apart[j][0] + sums.apart[j][1], sums.squares[j][0] + sums.squares[j][1]);
  });
  const Floats all = fold_lanes<kQuarter / 2>(fold_both<kQuarter>(each[0], each[rows - 1]));
  Moments<rows> found;
  repeat<rows>([&](auto j) __attribute__((always_inline)) {
    found.apart[j] = static_cast<double>(all[j * kQuarter]);
    found.squares[j] = static_cast<double>(all[kHalf + j * kQuarter]);
  });
  return found;
}

template <bool centered, int rows>
Moments<rows> moments_of(const float* x, ptrdiff_t count, const Sums<rows>& nothing) {
  Moments<rows> total = {};
  for (ptrdiff_t begin = 0; begin < count; begin += kPiece) {
    const ptrdiff_t piece = min_of(kPiece, count - begin);
    Sums<rows> sums = nothing;
    by_twos(piece, [&](ptrdiff_t i, auto into, auto whole) __attribute__((always_inline)) {
      add_part<centered>(sums, into, x + begin + i, count, piece - i, whole);
    });
    const Moments<rows> found = moments_in(sums);
    for (int j = 0; j < rows; ++j) {
      total.apart[j] += found.apart[j];
      total.squares[j] += found.squares[j];
    }
  }
  return total;
}

// What rows are finished with.
template <int rows>
struct Scales {
  float mean[rows], rstd[rows];
};

PENLIGHT_INLINE float rstd_of(const NormRows& p, double variance) {
  return 1.0f / __builtin_sqrtf(static_cast<float>(variance + p.eps));
}

// Squares about the first number instead of the mean lose digits where that number lies far out: less than
// one of seven up to this ratio of its squared distance from the mean to the variance.
constexpr double kFar = 8;

// Of one row, about the number that its sums were taken from: the mean, and the variance about it.
struct Spread {
  double apart, variance;
  bool is_exact;  // so, and a number
};

// `share` is 1 / count.
PENLIGHT_INLINE Spread spread_of(double apart, double squares, double share) {
  apart *= share;
  const double offset = apart * apart, variance = squares * share - offset;
  const bool is_exact = (offset <= kFar * variance) & (squares <= __FLT_MAX__);
  return {apart, variance, is_exact};
}

// With a second pass over rows that begin far out: about the mean that the first one found.
template <int rows>
[[gnu::noinline]] Scales<rows> exact_scales_of(const NormRows& p, const float* x, Moments<rows> found,
                                               Scales<rows> scales) {
  const double share = 1.0 / static_cast<double>(p.count);
  for (int j = 0; j < rows; ++j, x += p.count) {
    if (spread_of(found.apart[j], found.squares[j], share).is_exact) continue;
    const float mean = static_cast<float>(mean_from(x, p.count, found.apart[j]));
    const Moments<1> again = moments_of<true, 1>(x, p.count, {{splat(mean)}, {}, {}});
    const Spread spread = spread_of(again.apart[0], again.squares[0], share);
    scales.mean[j] = spread.apart - spread.apart == 0.0 ? static_cast<float>(mean + spread.apart) : mean;
    scales.rstd[j] = rstd_of(p, spread.variance);
  }
  return scales;
}

template <bool centered, int rows>
PENLIGHT_INLINE Scales<rows> scales_of(const NormRows& p, const float* x, const Moments<rows>& found,
                                       double share) {
  Scales<rows> scales = {};
  bool are_exact = true;
  repeat<rows>([&](auto j) __attribute__((always_inline)) {
    const Spread spread = spread_of(found.apart[j], found.squares[j], share);
    if constexpr (centered) {
      scales.mean[j] = static_cast<float>(x[j * p.count] + spread.apart);
      are_exact &= spread.is_exact;
    }
    scales.rstd[j] = rstd_of(p, spread.variance);
  });
  return are_exact ? scales : exact_scales_of(p, x, found, scales);
}

template <int rows>
PENLIGHT_INLINE void keep(const NormRows& p, ptrdiff_t row, const Scales<rows>& scales) {
  for (int j = 0; j < rows; ++j) {
    if (p.means) p.means[row + j] = scales.mean[j];
    if (p.rstds) p.rstds[row + j] = scales.rstd[j];
  }
}

// Rows that are being finished. Not read from NormRows in loops: what they store could change that, for all
// that a compiler knows.
template <int rows>
struct FinishedRows {
  const float *x, *weight, *bias;
  float* out;
  ptrdiff_t count;
  Floats mean[rows], factor[rows];
};

template <int rows>
PENLIGHT_INLINE FinishedRows<rows> finish_of(const NormRows& p, ptrdiff_t row, const Scales<rows>& scales) {
  FinishedRows<rows> finish = {
      p.input + row * p.count, p.weight, p.bias, p.output + row * p.count, p.count, {}, {}};
  repeat<rows>([&](auto j) __attribute__((always_inline)) {
    finish.mean[j] = splat(scales.mean[j]);
    finish.factor[j] = splat(scales.rstd[j]);
  });
  return finish;
}

// The vectors at element `at`. Are there weights, and biases?
template <bool weights, bool biases, int rows, class Whole>
PENLIGHT_INLINE void finish_part(const FinishedRows<rows>& f, ptrdiff_t at, Whole) {
  const ptrdiff_t left = Whole() != 0 ? kLanes : f.count - at;
  const Floats weight = weights ? load_part(f.weight + at, left) : Floats{};
  const Floats bias = biases ? load_part(f.bias + at, left) : Floats{};
  repeat<rows>([&](auto j) __attribute__((always_inline)) {
    Floats value = (load_part(f.x + j * f.count + at, left) - f.mean[j]) * f.factor[j];
    if constexpr (weights) value *= weight;
    if constexpr (biases) value += bias;
    store_part(f.out + j * f.count + at, value, left);
  });
}

template <bool centered, bool weights, bool biases, int rows>
void rows_alone(const NormRows& p, ptrdiff_t row, double share) {
  const float* x = p.input + row * p.count;
  const Scales<rows> scales =
      scales_of<centered>(p, x, moments_of<centered, rows>(x, p.count, nothing_of<rows>(x, p.count)), share);
  const FinishedRows<rows> finish = finish_of(p, row, scales);
  by_twos(p.count, [&](ptrdiff_t i, auto, auto whole)
                       __attribute__((always_inline)) { finish_part<weights, biases>(finish, i, whole); });
  keep(p, row, scales);
}

// Two rows are finished while two others are summed, in one loop: what is loaded, summed and stored takes
// turns then, and does not wait for what the others fill. For rows of one piece; an even number of them.
template <bool centered, bool weights, bool biases>
void rows_in_turns(const NormRows& p, ptrdiff_t first, ptrdiff_t last, double share) {
  const float* x = p.input + first * p.count;
  Scales<2> scales =
      scales_of<centered>(p, x, moments_of<centered, 2>(x, p.count, nothing_of<2>(x, p.count)), share);
  for (ptrdiff_t row = first; row < last; row += 2) {
    // At the end the last two are summed once more, for nothing.
    const float* next = p.input + min_of(row + 2, last - 2) * p.count;
    Sums<2> sums = nothing_of<2>(next, p.count);
    const FinishedRows<2> finish = finish_of(p, row, scales);
    by_twos(p.count, [&](ptrdiff_t i, auto into, auto whole) __attribute__((always_inline)) {
      add_part<centered>(sums, into, next + i, finish.count, finish.count - i, whole);
      finish_part<weights, biases>(finish, i, whole);
    });
    keep(p, row, scales);
    scales = scales_of<centered>(p, next, moments_in(sums), share);
  }
}

// From how many rows on turns are taken. Small builds do without.
#if defined(__OPTIMIZE_SIZE__)
constexpr ptrdiff_t kMany = PTRDIFF_MAX;
#else
constexpr ptrdiff_t kMany = 16;
#endif

template <bool centered, bool weights, bool biases>
void rows_of(const NormRows& p) {
  const double share = 1.0 / static_cast<double>(p.count);
  ptrdiff_t row = p.first_row;
  // Two long rows are not in the nearest cache any more when they are finished.
  if constexpr (kMany < PTRDIFF_MAX) {
    if (p.count <= kPiece && p.last_row - row >= kMany) {
      const ptrdiff_t last = row + (p.last_row - row) / 2 * 2;
      rows_in_turns<centered, weights, biases>(p, row, last, share);
      row = last;
    } else if (p.count <= kPiece) {
      for (; row + 2 <= p.last_row; row += 2) rows_alone<centered, weights, biases, 2>(p, row, share);
    }
  }
  for (; row < p.last_row; ++row) rows_alone<centered, weights, biases, 1>(p, row, share);
}

}  // namespace

void norm_rows(const NormRows& p) {
  if (!p.centered) return p.weight ? rows_of<false, true, false>(p) : rows_of<false, false, false>(p);
  if (p.weight) return p.bias ? rows_of<true, true, true>(p) : rows_of<true, true, false>(p);
  return p.bias ? rows_of<true, false, true>(p) : rows_of<true, false, false>(p);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
