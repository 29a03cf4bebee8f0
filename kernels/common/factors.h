// Triangular factors of one matrix, and what is solved with them: LU, Cholesky.
//
// Blocks of columns are factorised by themselves; what is right of and below them is a product, in which
// nearly all of the time is spent.
#pragma once

#include "dense_loops.h"
#include "matrices.h"

namespace penlight {

// What the algorithms compute with: matrices row by row, in double.
struct Triangle {
  const double* data;
  dim_t n, stride;
  bool upper, unit;
};

constexpr dim_t kFactorBlock = 16;  // columns

// Factorises `a` in place with the largest pivot of each column; pivots count from 1. `spare` has room for
// kFactorBlock columns. The number of the first pivot that is 0, or 0.
int64_t factorise(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, int64_t* pivots,
                  double* spare, bool search = true);

// x = inverse(triangle) x, for right-hand sides side by side.
void solve_triangle(const DenseLoops& loops, const Triangle& a, Rows x, dim_t columns);

// x = inverse(a) x, of the factors that replaced `a`.
void solve_factorised(const DenseLoops& loops, const double* lu, dim_t n, const int64_t* pivots, double* x,
                      dim_t columns);

// x = inverse(a), of the factors that replaced `a`.
void invert_factorised(const DenseLoops& loops, const double* lu, dim_t n, const int64_t* pivots, double* x);

// Factorises the lower triangle of `a` in place as L L^T; above it there will be zeros. `spare` has room for
// as many rows of n as a block has columns. The number of the first minor that is not positive, or 0.
int64_t factorise_positive(const DenseLoops& loops, double* a, dim_t n, double* spare);

}  // namespace penlight
