// The loops of linear algebra with this library's vectors.
#pragma once

#include "kernels/common/dense_loops_of.h"
#include "vector.h"

namespace penlight::portable {

struct DenseVector {
  using type = Vector<double>;
  static constexpr int lanes = VectorOf<double>::lanes, rows = 4, vectors = 2;
  static type load(const double* from) { return load_vector(from); }
  static void store(double* to, type value) { store_vector(to, value); }
  static type load_some(const double* from, ptrdiff_t) { return type{*from}; }
  static void store_some(double* to, type value, ptrdiff_t) { *to = value[0]; }
  static double sum(type value) { return sum_lanes<double>(value); }
};

constexpr DenseLoops kLoops = DenseLoopsOf<DenseVector>::table();

}  // namespace penlight::portable
