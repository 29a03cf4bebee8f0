// The loops that factorisations of matrices spend their time in: what the algorithms ask of them.
//
// Matrices are of doubles and lie row by row, so that all of these go along rows. The algorithms call
// them by a table, DenseLoops: each library has one of its own vectors (dense_loops_of.h).
#pragma once

#include <stddef.h>

namespace penlight {

// Part of a matrix: row i begins at data + i * stride.
struct Rows {
  double* data;
  ptrdiff_t stride;
};

// `count` factors, one for each row, that lie `step` apart.
struct Factors {
  const double* data;
  ptrdiff_t step;
  // Files for different instruction sets include this: the linker is to find no copy of it.
  inline __attribute__((always_inline)) double operator[](ptrdiff_t i) const { return data[i * step]; }
};

// Each row of a matrix loses p[i] * first + q[i] * second; then `sums` gain with[i] * row.
struct RowUpdate {
  Rows a;
  ptrdiff_t rows, columns;
  Factors p;
  const double* first;
  Factors q;
  const double* second;  // null: there is none
  Factors with;
  double* sums;  // null: none are wanted
};

// c += factor * a b, of [rows, depth] and [depth, columns]; element [i, k] of a is at data + i * row + k *
// step.
struct RowProduct {
  Rows c;
  ptrdiff_t rows, columns, depth;
  const double* a;
  ptrdiff_t row, step;
  const double* b;
  ptrdiff_t b_stride;
  double factor;
};

// Neighbouring rows k and k + 1 turn, for k from `first` on: into c x + s y and c y - s x.
struct Sweep {
  ptrdiff_t first, turns;
  const double *cosines, *sines;  // from `first` on
};

// Sweeps over rows, one after the other: over a few columns all of them, which are kept in `panel` meanwhile.
// It has room for kPanelColumns of all rows.
constexpr ptrdiff_t kPanelColumns = 16;
struct RowTurns {
  Rows a;
  ptrdiff_t rows, columns;
  const Sweep* sweeps;
  ptrdiff_t count;
  double* panel;
};

// Rows a become a - tau (a v) v for each of `count` vectors, or from the last one on: number k lies in row k
// of `vectors`, from column k on.
struct RowReflections {
  Rows a;
  ptrdiff_t rows, columns;
  const double* vectors;
  ptrdiff_t stride;
  const double* tau;
  ptrdiff_t count;
  bool backward;
};

struct DenseLoops {
  void (*update)(const RowUpdate&);
  void (*multiply)(const RowProduct&);
  void (*turn)(const RowTurns&);
  void (*reflect)(const RowReflections&);
  // sums[i] = row i of `a`, with `x`.
  void (*dots)(const Rows& a, ptrdiff_t rows, ptrdiff_t columns, const double* x, double* sums);
};

}  // namespace penlight
