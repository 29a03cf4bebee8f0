#include "matrix_exp.h"

namespace penlight::linear_algebra {

namespace {

// The series ends at x^16, as a polynomial in x^4 whose coefficients have the powers up to x^3 (Paterson &
// Stockmeyer 1973): six products. Up to this norm what is left out is below a double's rounding errors.
constexpr int kPowers = 4, kDegree = 16;
constexpr double kLargestNorm = 0.75;

double norm_of(const double* a, dim_t n) {
  double norm = 0;
  for (dim_t r = 0; r < n; ++r) {
    double row = 0;
    for (dim_t c = 0; c < n; ++c) row += math::fabs(a[r * n + c]);
    if (row > norm) norm = row;
  }
  return norm;
}

// The part of the series from x^first on, over x^first, below x^(first + 4).
void sum_powers(double* const* powers, dim_t n, int first, double factorial, double* sum) {
  const dim_t count = n * n;
  double factor = 1 / factorial;
  for (dim_t k = 0; k < count; ++k) sum[k] = k % (n + 1) == 0 ? factor : 0;
  for (int power = 1; power < kPowers; ++power) {
    factor /= first + power;
    for (dim_t k = 0; k < count; ++k) sum[k] += factor * powers[power][k];
  }
}

}  // namespace

void matrix_exp(KernelContext& ctx, const DenseLoops& loops, const Tensor& self, Tensor& out) {
  if (!check_square(ctx, self)) return;
  const dim_t n = self.size(-1), count = n * n;
  Batch batch(ctx, self);
  double *a = batch.read(self), *x = batch.write(out, {n, n}), *product = scratch(ctx, n, n);
  double* powers[kPowers + 1] = {nullptr, a};
  for (int power = 2; power <= kPowers; ++power) powers[power] = scratch(ctx, n, n);
  const auto add_product = [&](const double* left, const double* right, double* sum) {
    if (n > 0) loops.multiply({{sum, n}, n, n, n, left, n, 1, right, n, 1});
  };
  const size_t bytes = static_cast<size_t>(count) * sizeof(double);
  batch.for_each([&] {
    int squarings = 0;
    for (double norm = norm_of(a, n); norm > kLargestNorm && squarings < 1100; norm /= 2) ++squarings;
    const double scale = math::exp2(static_cast<double>(-squarings));
    for (dim_t k = 0; k < count; ++k) a[k] *= scale;
    for (int power = 2; power <= kPowers; ++power) {
      memset(powers[power], 0, bytes);
      add_product(powers[power - 1], a, powers[power]);
    }
    double factorial = 1;
    for (int k = 2; k <= kDegree; ++k) factorial *= k;
    for (dim_t k = 0; k < count; ++k) x[k] = k % (n + 1) == 0 ? 1 / factorial : 0;
    for (int first = kDegree - kPowers; first >= 0; first -= kPowers) {
      for (int k = first + kPowers; k > first && k > 1; --k) factorial /= k;
      sum_powers(powers, n, first, factorial, product);
      add_product(x, powers[kPowers], product);
      memcpy(x, product, bytes);
    }
    for (; squarings > 0; --squarings) {
      memset(product, 0, bytes);
      add_product(x, x, product);
      memcpy(x, product, bytes);
    }
  });
}

}  // namespace penlight::linear_algebra
