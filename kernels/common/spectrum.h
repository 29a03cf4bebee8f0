// Eigenvalues of symmetric matrices and singular values: reflections leave two diagonals, of which shifted
// steps of QR make one.
//
// Matrices are finite and have no element above 1: squares neither overflow nor matter where they vanish.
#pragma once

#include "reflections.h"

namespace penlight {

// Eigenvalues of the symmetric matrix `a`, ascending, and its vectors as the rows of `v` unless that is null;
// `a` is used up. False when a value does not converge.
constexpr dim_t kEigenvalueRows = 50;  // so many rows of n has `spare` room for
bool diagonalise(const DenseLoops& loops, double* a, dim_t n, double* v, double* values, double* spare);

// Singular values of `a` [rows, columns], which is not wide, the largest first. Its left vectors, as many as
// `kept`, come as rows of `u` and the right ones as those of `v`, unless these are null; `a` is used up, and
// `square` has room for a matrix of [columns, rows]. False when a value does not converge.
constexpr dim_t kSingularRows = 99;  // so many rows has `spare` room for, of `rows`
bool decompose(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, dim_t kept, double* u,
               double* v, double* values, double* square, double* spare);

}  // namespace penlight
