#include "complex_products.h"

#include "unpacked.h"

namespace penlight::optimized {

namespace {

// The real parts of `count` numbers, and after them the imaginary ones.
void take_apart(const float* numbers, dim_t count, float* parts) {
  for (dim_t i = 0; i < count; ++i) {
    parts[i] = numbers[2 * i];
    parts[count + i] = numbers[2 * i + 1];
  }
}

bool provide(KernelContext& ctx, const ComplexMatrices& x, ComplexScratch& scratch) {
  if (scratch.c) return true;
  const auto floats = [&](dim_t rows, dim_t columns) {
    return ctx.allocate_scratch_array<float>(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  };
  scratch.a = floats(2 * x.m, x.k);
  if (scratch.a && x.transposed) scratch.b = floats(2 * x.n, x.k);
  if (scratch.a && (scratch.b || !x.transposed)) scratch.c = floats(2 * x.m, 2 * x.n);
  return scratch.c != nullptr;
}

}  // namespace

// Rows of real and rows of imaginary parts of A are multiplied with columns of real and columns of
// imaginary parts of B, which are neighbours where B lies as it is wanted: the same four products of
// each pair of elements that the definition has.
bool multiply_complex(KernelContext& ctx, const ComplexMatrices& x, ComplexScratch& scratch) {
  if (!provide(ctx, x, scratch)) return false;
  take_apart(x.a, x.m * x.k, scratch.a);
  if (x.transposed) take_apart(x.b, x.n * x.k, scratch.b);
  const dim_t columns = 2 * x.n;
  const Matrices parts = {scratch.a,
                          x.transposed ? scratch.b : x.b,
                          nullptr,
                          scratch.c,
                          2 * x.m,
                          columns,
                          x.k,
                          x.transposed ? 1 : columns,
                          x.transposed ? x.k : 1};
  if (!multiply(ctx, parts, &scratch.product)) return false;
  const dim_t step = x.transposed ? 1 : 2, imaginary = x.transposed ? x.n : 1;
  for (dim_t i = 0; i < x.m; ++i) {
    const float *of_real = scratch.c + i * columns, *of_imaginary = of_real + x.m * columns;
    float* result = x.c + i * columns;
    for (dim_t j = 0; j < x.n; ++j) {
      const dim_t re = j * step, im = re + imaginary;
      result[2 * j] = of_real[re] - of_imaginary[im] + (x.bias ? x.bias[2 * j] : 0.0f);
      result[2 * j + 1] = of_real[im] + of_imaginary[re] + (x.bias ? x.bias[2 * j + 1] : 0.0f);
    }
  }
  return true;
}

}  // namespace penlight::optimized
