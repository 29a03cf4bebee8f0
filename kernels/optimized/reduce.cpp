// Sums, means, Euclidean norms and extremes of float32, and sums and means of complex64, over dimensions
// that lie beside each other in memory; the portable kernels take what these decline.
#include "kernels/common/reduce.h"

#include "complex_pairs.h"
#include "isa.h"
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

// `out` has its sizes.
void reduce(KernelContext& ctx, Reduction reduction, const Tensor& self, uint32_t mask, const Run& lies,
            bool keepdim, Tensor& out) {
  const View to = view_of(out);
  View from = results_at(to.data, self, mask, keepdim, out);
  if (!same_strides(from, to)) {
    from.data = static_cast<char*>(ctx.allocate_scratch(out.nbytes()));
    if (!from.data) return;
  }
  Reduce run{};
  run.outer = lies.outer;
  run.count = lies.count;
  run.inner = lies.inner;
  run.input = self.const_data_ptr<float>();
  run.output = reinterpret_cast<float*>(from.data);
  run.reduction = reduction;
  run.last = run.outer;
  run.last_column = run.inner;
  // A part is some of the outer ones, or some columns of all of them.
  const dim_t blocks = (run.inner + kReducedColumns - 1) / kReducedColumns;
  const bool by_columns = blocks > run.outer;
  const dim_t steps = by_columns ? blocks : run.outer;
  in_parts(ctx, steps, static_cast<double>(self.numel()) / static_cast<double>(steps), [&](Range range) {
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
  move_view(sizeof(float), from, to);
}

Tensor& reduce(KernelContext& ctx, Reduction reduction, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
               bool keepdim, Tensor& out) {
  uint32_t mask = 0;
  Run lies{};
  if (!reduced_dims(ctx, self, dims, mask)) return out;
  if (self.numel() == 0) return decline(ctx, out);
  if (is_float(self) && is_float(out)) {
    if (!read_run(self, mask, lies)) return decline(ctx, out);
    if (resize(ctx, self, mask, keepdim, out)) reduce(ctx, reduction, self, mask, lies, keepdim, out);
    return out;
  }
  // Each part of a sum of complex numbers is a sum.
  const bool is_sum = reduction == Reduction::Sum || reduction == Reduction::Mean;
  if (!is_sum || !has_pairs(self) || !has_pairs(out)) return decline(ctx, out);
  Pairs pairs(self);
  if (!read_run(pairs.tensor(), mask, lies)) return decline(ctx, out);
  if (!resize(ctx, self, mask, keepdim, out)) return out;
  Pairs to(out);
  reduce(ctx, reduction, pairs.tensor(), mask, lies, keepdim, to.tensor());
  return out;
}

// Of images of so many dimensions; only where a single average is wanted.
Tensor& average(KernelContext& ctx, int dims, const Tensor& self, ArrayRef<int64_t> output_size,
                Tensor& out) {
  constexpr int64_t kLast[] = {-1, -2, -3};
  bool is_one =
      (self.dim() == dims + 1 || self.dim() == dims + 2) && output_size.size() == static_cast<size_t>(dims);
  for (int64_t size : output_size) is_one &= size == 1;
  if (!is_one || !is_float(self) || !is_float(out)) return decline(ctx, out);
  return reduce(ctx, Reduction::Mean, self, ArrayRef<int64_t>(kLast, static_cast<size_t>(dims)), true, out);
}

}  // namespace

Tensor& sum_int_list_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim,
                         bool keepdim, Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Sum, self, dim, keepdim, out);
}

Tensor& mean_out(KernelContext& ctx, const Tensor& self, Optional<ArrayRef<int64_t>> dim, bool keepdim,
                 Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Mean, self, dim, keepdim, out);
}

Tensor& mean_dtype_out(KernelContext& ctx, const Tensor& self, Optional<ScalarType>, Tensor& out) {
  return reduce(ctx, Reduction::Mean, self, nullopt, false, out);
}

Tensor& adaptive_avg_pool1d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> output_size,
                                Tensor& out) {
  return average(ctx, 1, self, output_size, out);
}

Tensor& adaptive_avg_pool2d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> output_size,
                                Tensor& out) {
  return average(ctx, 2, self, output_size, out);
}

Tensor& adaptive_avg_pool3d_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> output_size,
                                Tensor& out) {
  return average(ctx, 3, self, output_size, out);
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

Tensor& amax_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, bool keepdim, Tensor& out) {
  return reduce(ctx, Reduction::Greatest, self, dim, keepdim, out);
}

Tensor& amin_out(KernelContext& ctx, const Tensor& self, ArrayRef<int64_t> dim, bool keepdim, Tensor& out) {
  return reduce(ctx, Reduction::Least, self, dim, keepdim, out);
}

Tensor& max_unary_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return reduce(ctx, Reduction::Greatest, self, nullopt, false, out);
}

Tensor& min_unary_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return reduce(ctx, Reduction::Least, self, nullopt, false, out);
}

}  // namespace penlight::optimized
