// Variance and standard deviation, with the mean where it is asked for.
//
// One pass: each block's mean and squared deviations are joined to those so far
// (Chan, Golub & LeVeque 1979), in double whatever the dtype, as ATen does.
#include <math.h>

#include "kernels/common/reduce.h"

namespace penlight::portable {

struct VarianceOf {
  VarianceOf(Tensor& to, Tensor* mean_out, double corrected, bool take_root)
      : out(to), mean(mean_out), correction(corrected), root(take_root) {}

  Tensor& out;
  Tensor* mean;
  double correction;
  bool root;
  double count;
  double average[kReduceColumns], deviation[kReduceColumns];

  void start(int columns) {
    count = 0;
    for (int k = 0; k < columns; ++k) average[k] = deviation[k] = 0;
  }

  void row(const double* x, dim_t n) {
    double sum = 0, squares = 0;
    for (dim_t i = 0; i < n; ++i) sum += x[i];
    const double own = sum / static_cast<double>(n), apart = own - average[0];
    if (apart - apart != 0) {
      // Infinite, or too large a sum: one by one, so that the results are NaN exactly where ATen's are.
      for (dim_t i = 0; i < n; ++i) column(x + i, 1);
      return;
    }
    for (dim_t i = 0; i < n; ++i) squares += (x[i] - own) * (x[i] - own);
    const double added = static_cast<double>(n), total = count + added;
    average[0] += apart * (added / total);
    // No infinite square times a count of 0.
    deviation[0] += squares + apart * (apart * (count * added / total));
    count = total;
  }

  void column(const double* x, int columns) {
    count += 1;
    const double share = 1 / count;
    for (int k = 0; k < columns; ++k) {
      const double apart = x[k] - average[k];
      if (apart - apart != 0 && x[k] - x[k] == 0 && average[k] - average[k] == 0) {
        // Two numbers whose difference is none: their variance is, the mean is not.
        average[k] += x[k] * share - average[k] * share;
        deviation[k] = HUGE_VAL;
        continue;
      }
      average[k] += apart * share;
      deviation[k] += apart * (x[k] - average[k]);
    }
  }

  void store(const dim_t* offset, const dim_t* stride, int columns) {
    const double left = count - correction, divisor = left > 0 ? left : 0;
    for (int k = 0; k < columns; ++k) {
      deviation[k] /= divisor;
      if (root) deviation[k] = sqrt(deviation[k]);
      if (count == 0) average[k] = NAN;
    }
    store_block(out, offset[0], stride[0], deviation, columns);
    if (mean) store_block(*mean, offset[1], stride[1], average, columns);
  }
};

static void variance(KernelContext& ctx, const Tensor& self, Optional<IntArrayRef> dims, double correction,
                     bool keepdim, bool root, Tensor& out, Tensor* mean) {
  ReduceLoop loop;
  if (!is_floating(self.scalar_type()) || !is_floating(out.scalar_type()))
    return ctx.fail("a variance is of floating point numbers, not {}", dtype_name(self.scalar_type()));
  if (loop.prepare(ctx, self, dims, keepdim, out, mean))
    loop.run<double>(VarianceOf(out, mean, correction, root));
}

static double number_of(const Optional<Scalar>& correction) {
  return correction ? correction->to<double>() : 1;
}

// A correction by yes or no is one of 1 or 0.
void variance_correction_out(KernelContext& ctx, bool root, const Tensor& self, Optional<IntArrayRef> dim,
                             Optional<Scalar> correction, bool keepdim, Tensor& out) {
  variance(ctx, self, dim, number_of(correction), keepdim, root, out, nullptr);
}

void variance_mean_out(KernelContext& ctx, bool root, const Tensor& self, Optional<IntArrayRef> dim,
                       Optional<Scalar> correction, bool keepdim, Tensor& out0, Tensor& out1) {
  variance(ctx, self, dim, number_of(correction), keepdim, root, out0, &out1);
}

}  // namespace penlight::portable
