// Householder's reflections I - tau v v^T, with v = (1, rest...), and what is made of many of them.
#pragma once

#include "dense_loops.h"
#include "matrices.h"

namespace penlight {

// Vectors of reflections inside a matrix: number k begins with its 1, which is not stored, at data + k *
// next, and goes on by `step`.
struct Reflections {
  const double* data;
  dim_t next, step;
  const double* tau;
  dim_t count;
};

// The reflection that turns `x` into (beta, 0...): `x` becomes its vector. Returns tau; 0 for none.
double find_reflection(const DenseLoops& loops, double* x, dim_t count, double& beta);

// R above and on the diagonal of `a`, the reflections' vectors below it.
// `spare` has room for two rows and two columns.
void reduce_to_triangle(const DenseLoops& loops, double* a, dim_t rows, dim_t columns, double* tau,
                        double* spare);

// The first `columns` columns of the product of reflections, the first of which reach over all `rows`.
// `spare` has room for two rows and two columns.
void expand_reflections(const DenseLoops& loops, const Reflections& reflections, Rows q, dim_t rows,
                        dim_t columns, double* spare);

inline void set_zeros(double* x, dim_t count) { memset(x, 0, static_cast<size_t>(count) * sizeof(double)); }

inline void swap_pointers(double*& a, double*& b) {
  double* const kept = a;
  a = b;
  b = kept;
}

}  // namespace penlight
