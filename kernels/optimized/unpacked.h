// Products of matrices as they lie, split between threads.
#pragma once

#include <penlight/kernel.h>

#include "product.h"

namespace penlight::optimized {

// C[m, n] = sum over k of A[m, k] * B[k, n] + bias[n]; A and C are dense.
struct Matrices {
  const float* a;
  const float* b;
  const float* bias;
  float* c;
  dim_t m, n, k;
  dim_t row_pitch, column_pitch;  // of B: elements from k to k + 1, from n to n + 1
};

// What each element is does not depend on the number of threads. Scratch is found in `kept`, and
// left there. False, with the failure recorded, for want of memory.
bool multiply(KernelContext& ctx, const Matrices& matrices, ProductScratch* kept = nullptr);

// `count` products of the same sizes: their A, dense B and C lie one behind the other.
bool multiply_each(KernelContext& ctx, const Matrices& first, dim_t count, ProductScratch& kept);

}  // namespace penlight::optimized
