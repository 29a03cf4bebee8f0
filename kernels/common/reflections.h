// Householder's reflections I - tau v v^T, with v = (1, rest...), and what is made of many of them.
//
// Here matrices are transposed: what is reflected, and its vectors, are rows.
#pragma once

#include "dense_loops.h"
#include "matrices.h"

namespace penlight {

// Vector number k, of those that begin with k zeros, is row k: its 1 is at data + k * stride + k.
struct Reflections {
  const double* data;
  dim_t stride;
  const double* tau;
  dim_t count;
};

// The reflection that turns `x` into (beta, 0...): `x` becomes its vector. Returns tau; 0 for none.
double find_reflection(const DenseLoops& loops, double* x, dim_t count, double& beta);

// The first `count` rows of `length` become those of R, transposed, but for its diagonal, which is `beta`:
// there and after it they are the vectors of reflections.
void reduce_to_triangle(const DenseLoops& loops, double* a, dim_t count, dim_t length, double* tau,
                        double* beta);

// The first `rows` columns of the product of reflections, as rows of `length`.
void expand_reflections(const DenseLoops& loops, const Reflections& reflections, Rows q, dim_t rows,
                        dim_t length);

inline void set_zeros(double* x, dim_t count) { memset(x, 0, static_cast<size_t>(count) * sizeof(double)); }

}  // namespace penlight
