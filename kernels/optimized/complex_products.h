// Matrix products of complex64, as products of float32.
#pragma once

#include <penlight/kernel.h>

#include "product.h"

namespace penlight::optimized {

// C[m, n] = sum over k of A[m, k] * B[k, n] + bias[n], all dense and each element a real and an
// imaginary part.
struct ComplexMatrices {
  const float* a;
  const float* b;
  const float* bias;
  float* c;
  dim_t m, n, k;
  bool transposed;  // B lies as [n, k]
};

// Scratch of one product, which the next one of its size takes too.
struct ComplexScratch {
  float* a = nullptr;
  float* b = nullptr;
  float* c = nullptr;
  ProductScratch product;
};

// False, with the failure recorded, for want of memory.
bool multiply_complex(KernelContext& ctx, const ComplexMatrices& matrices, ComplexScratch& scratch);

}  // namespace penlight::optimized
