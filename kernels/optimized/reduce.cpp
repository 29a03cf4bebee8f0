// Sums, means, products, Euclidean norms, variances and extremes of dense float32, and sums and means of
// dense complex64; the portable kernels take what these decline.
#include "reduce.h"

#include "complex_pairs.h"
#include "fold.h"
#include "isa.h"
#include "kernels/common/reduce.h"
#include "kernels/common/view.h"
#include "parallel.h"
#include "parameters.h"
#include "run.h"

namespace penlight::optimized {

namespace {

// Where the elements of `out` are if the dimensions of `self` that are left lie as they do there,
// without gaps, from `data` on.
View results_at(char* data, const Tensor& self, uint32_t mask, bool keepdim, const Tensor& out) {
  View view = view_of(out);
  view.data = data;
  dim_t stride = sizeof(float);
  for (dim_t k = self.dim(); k-- > 0;) {
    const dim_t d = dim_at(self, k);
    if (mask >> d & 1u) continue;
    dim_t at = d;
    for (dim_t before = 0; !keepdim && before < d; ++before) at -= mask >> before & 1u;
    view.strides[at] = stride;
    stride *= self.size(d);
  }
  return view;
}

bool resize(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, Tensor& out) {
  dim_t sizes[kMaxDim], rank = 0;
  for (dim_t d = 0; d < self.dim(); ++d) {
    const bool left = !(mask >> d & 1u);
    if (left || keepdim) sizes[rank++] = left ? self.size(d) : 1;
  }
  return ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank)));
}

// Dimensions as they lie in memory, innermost first; those that are reduced, or are not, and lie beside each
// other are one.
struct Lying {
  dim_t sizes[kMaxDim];
  bool reduced[kMaxDim];
  int count = 0;

  // False where `self` is not dense.
  bool read(const Tensor& self, uint32_t mask) {
    dim_t expected = 1;
    for (dim_t k = self.dim(); k-- > 0;) {
      const dim_t d = dim_at(self, k), size = self.size(d);
      const bool is_reduced = (mask >> d & 1u) != 0;
      if (size == 1) continue;
      if (self.stride(d) != expected) return false;
      expected *= size;
      if (count > 0 && reduced[count - 1] == is_reduced) {
        sizes[count - 1] *= size;
      } else {
        sizes[count] = size;
        reduced[count++] = is_reduced;
      }
    }
    return true;
  }

  // Takes the innermost one that is reduced away; how it lies among the others.
  Run take() {
    Run run = {1, 1, 1};
    int at = 0;
    for (; at < count && !reduced[at]; ++at) run.inner *= sizes[at];
    if (at == count) return run;
    run.count = sizes[at];
    for (int k = at + 1; k < count; ++k) {
      run.outer *= sizes[k];
      sizes[k - 1] = sizes[k];
      reduced[k - 1] = reduced[k];
    }
    --count;
    return run;
  }

  bool is_left() const {
    for (int k = 0; k < count; ++k) {
      if (reduced[k]) return true;
    }
    return false;
  }
};

// What a variance is divided by, and where means are wanted beside it.
struct About {
  double divisor = 0;
  float* means = nullptr;
};

void reduce(KernelContext& ctx, Reduction reduction, const Run& lies, const float* input, float* output,
            const About& about = {}) {
  Reduce run{};
  run.divisor = about.divisor;
  run.means = about.means;
  run.outer = lies.outer;
  run.count = lies.count;
  run.inner = lies.inner;
  run.input = input;
  run.output = output;
  run.reduction = reduction;
  run.last = run.outer;
  run.last_column = run.inner;
  // A part is some of the outer ones, or some columns of all of them.
  const dim_t blocks = (run.inner + kReducedColumns - 1) / kReducedColumns;
  const bool by_columns = blocks > run.outer;
  const dim_t steps = by_columns ? blocks : run.outer;
  const double elements =
      static_cast<double>(run.outer) * static_cast<double>(run.count) * static_cast<double>(run.inner);
  in_parts(ctx, steps, elements / static_cast<double>(steps), [&](Range range) {
    Reduce mine = run;
    if (by_columns) {
      mine.first_column = range.first * kReducedColumns;
      if (range.last < blocks) mine.last_column = range.last * kReducedColumns;
    } else {
      mine.first = range.first;
      mine.last = range.last;
    }
    routines().reduce(mine);
  });
}

// `out` has its sizes. Of dimensions with others between them, the innermost are reduced first: a mean of
// means, or a norm of norms, is that of all.
void reduce(KernelContext& ctx, Reduction reduction, const Tensor& self, uint32_t mask, Lying lies,
            bool keepdim, Tensor& out) {
  const View to = view_of(out);
  View from = results_at(to.data, self, mask, keepdim, out);
  if (!same_strides(from, to)) {
    from.data = static_cast<char*>(ctx.allocate_scratch(out.nbytes()));
    if (!from.data) return;
  }
  const float* input = self.const_data_ptr<float>();
  Run run = lies.take();
  for (; lies.is_left(); run = lies.take()) {
    const size_t size = static_cast<size_t>(run.outer * run.inner) * sizeof(float);
    float* const between = static_cast<float*>(ctx.allocate_scratch(size));
    if (!between) return;
    reduce(ctx, reduction, run, input, between);
    input = between;
    if (reduction == Reduction::Present) reduction = Reduction::Sum;  // what is no number now, stays
  }
  reduce(ctx, reduction, run, input, reinterpret_cast<float*>(from.data));
  move_view(sizeof(float), from, to);
}

Tensor& reduce(KernelContext& ctx, Reduction reduction, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
               bool keepdim, Tensor& out) {
  uint32_t mask = 0;
  Lying lies;
  if (!reduced_dims(ctx, self, dims, mask)) return out;
  if (self.numel() == 0) return decline(ctx, out);
  if (is_float(self) && is_float(out)) {
    if (!lies.read(self, mask)) return decline(ctx, out);
    if (resize(ctx, self, mask, keepdim, out)) reduce(ctx, reduction, self, mask, lies, keepdim, out);
    return out;
  }
  // Each part of a sum of complex numbers is a sum.
  const bool is_sum = reduction == Reduction::Sum || reduction == Reduction::Mean;
  if (!is_sum || !has_pairs(self) || !has_pairs(out)) return decline(ctx, out);
  Pairs pairs(self);
  if (!lies.read(pairs.tensor(), mask)) return decline(ctx, out);
  if (!resize(ctx, self, mask, keepdim, out)) return out;
  Pairs to(out);
  reduce(ctx, reduction, pairs.tensor(), mask, lies, keepdim, to.tensor());
  return out;
}

bool is_finite(const Tensor& x) {
  for (const float *at = x.const_data_ptr<float>(), *end = at + x.numel(); at < end; ++at) {
    if (*at - *at != 0) return false;
  }
  return true;
}

// Over dimensions that lie beside each other. What is not finite is left to the portable kernels, which have
// NaN and infinity where ATen has them.
void variance(KernelContext& ctx, Reduction reduction, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
              const Optional<Scalar>& correction, bool keepdim, Tensor& out, Tensor* mean) {
  uint32_t mask = 0;
  Lying lies;
  if (!reduced_dims(ctx, self, dims, mask)) return;
  if (!is_float(self) || !is_float(out) || (mean && !is_float(*mean)) || self.numel() == 0 ||
      !lies.read(self, mask)) {
    return ctx.decline();
  }
  const Run run = lies.take();
  const double divisor = static_cast<double>(run.count) - (correction ? correction->to<double>() : 1);
  if (lies.is_left() || !(divisor > 0)) return ctx.decline();
  if (!resize(ctx, self, mask, keepdim, out) || (mean && !resize(ctx, self, mask, keepdim, *mean))) return;
  const auto lies_so = [&](const Tensor& x) {
    const View to = view_of(x);
    return same_strides(results_at(to.data, self, mask, keepdim, x), to);
  };
  if (!lies_so(out) || (mean && !lies_so(*mean))) return ctx.decline();
  reduce(ctx, reduction, run, self.const_data_ptr<float>(), out.mutable_data_ptr<float>(),
         {divisor, mean ? mean->mutable_data_ptr<float>() : nullptr});
  if (!is_finite(out)) ctx.decline();
}

Reduction variance_of(bool root) { return root ? Reduction::Deviation : Reduction::Variance; }

// Of floats, or of integers and bool.
Tensor& reduce(KernelContext& ctx, Reduction reduction, NumberFold fold, const Tensor& self,
               Optional<ArrayRef<int64_t>> dims, bool keepdim, Tensor& out) {
  const ScalarType type = self.scalar_type();
  if (is_integral(type) || type == ScalarType::Bool) {
    return or_decline(ctx, kIntegerSelected && fold_numbers(ctx, fold, self, dims, keepdim, out), out);
  }
  return reduce(ctx, reduction, self, dims, keepdim, out);
}

}  // namespace

Tensor& sum_int_list_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim,
                         bool keepdim, Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Sum, NumberFold::Sum, self, dim, keepdim, out);
}

Tensor& sum_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Sum, NumberFold::Sum, self, nullopt, false, out);
}

Tensor& nansum_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                   Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Present, NumberFold::Sum, self, dim, keepdim, out);
}

Tensor& prod_int_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Optional<ScalarType>,
                     Tensor& out) {
  return reduce(ctx, Reduction::Product, self, ArrayRef<int64_t>(&dim, 1), keepdim, out);
}

Tensor& prod_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Product, self, nullopt, false, out);
}

Tensor& mean_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                 Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Mean, self, dim, keepdim, out);
}

bool mean_of_run(KernelContext& ctx, const Run& run, const float* input, float* output) {
  reduce(ctx, Reduction::Mean, run, input, output);
  return ctx.ok();
}

Tensor& mean_dtype_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Mean, self, nullopt, false, out);
}

Tensor& linalg_vector_norm_out(KernelContext& ctx, const Tensor& self, Scalar ord,
                               Optional<ArrayRef<int64_t>> dim, bool keepdim, Optional<ScalarType>,
                               Tensor& out) {
  if (ord.to<double>() != 2.0) {
    ctx.decline();
    return out;
  }
  return reduce(ctx, Reduction::Norm, self, dim, keepdim, out);
}

void variance_correction_out(KernelContext& ctx, bool root, const Tensor& self,
                             Optional<ArrayRef<int64_t>> dim, Optional<Scalar> correction, bool keepdim,
                             Tensor& out) {
  variance(ctx, variance_of(root), self, dim, correction, keepdim, out, nullptr);
}

void variance_mean_out(KernelContext& ctx, bool root, const Tensor& self, Optional<ArrayRef<int64_t>> dim,
                       Optional<Scalar> correction, bool keepdim, Tensor& out0, Tensor& out1) {
  variance(ctx, variance_of(root), self, dim, correction, keepdim, out0, &out1);
}

Tensor& amax_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, bool keepdim, Tensor& out) {
  return reduce(ctx, Reduction::Greatest, NumberFold::Greatest, self, dim, keepdim, out);
}

Tensor& amin_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, bool keepdim, Tensor& out) {
  return reduce(ctx, Reduction::Least, NumberFold::Least, self, dim, keepdim, out);
}

Tensor& max_unary_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return reduce(ctx, Reduction::Greatest, NumberFold::Greatest, self, nullopt, false, out);
}

Tensor& min_unary_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return reduce(ctx, Reduction::Least, NumberFold::Least, self, nullopt, false, out);
}

}  // namespace penlight::optimized
