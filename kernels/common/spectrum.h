// Eigenvalues of symmetric matrices and singular values: reflections leave two diagonals, of which shifted
// steps of QR make one.
//
// Matrices are finite and have no element above 1: squares neither overflow nor matter where they vanish.
#pragma once

#include "reflections.h"

namespace penlight {

// Eigenvalues of the symmetric matrix `a`, ascending, and its vectors as the rows of `v` unless that is null;
// `a` is used up. False when a value does not converge.
constexpr dim_t eigenvalue_spare(dim_t n) { return 50 * n; }  // so many numbers has `spare` room for
bool diagonalise(const DenseLoops& loops, double* a, dim_t n, double* v, double* values, double* spare);

// Singular values of `a` [rows, columns], which is not wide, the largest first. Its left vectors, as many as
// `kept`, come as rows of `u` and the right ones as those of `v`, unless these are null; `a` is used up, and
// `square` has room for a matrix of [columns, rows]. False when a value does not converge.
constexpr dim_t singular_spare(dim_t rows, dim_t columns) { return 3 * rows + 2 + 103 * columns; }
bool decompose(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, dim_t kept, double* u,
               double* v, double* values, double* square, double* spare);

// The same of a matrix that is much longer than wide, which `a` [columns, rows] is the transposed of: of the
// triangle that reflections leave. `spare` has room for so many numbers more, and `square` for [kept, rows].
constexpr dim_t long_spare(dim_t columns) {
  return singular_spare(columns, columns) + (3 * columns + 2) * columns;
}
bool decompose_long(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, dim_t kept, double* u,
                    double* v, double* values, double* square, double* spare);

}  // namespace penlight
