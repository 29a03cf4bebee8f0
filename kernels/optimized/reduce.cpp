// Sums, means and Euclidean norms of float32 over dimensions that lie beside each other in
// memory; the portable kernels take what these decline.
#include "isa.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kColumns = 64;  // of a part, where others lie between the elements of a sum

// Which of `self`'s dimensions `dims` names, as bits: all where it names none. False where one does not
// exist or is named twice, which the portable kernel says.
bool read_dims(const Tensor& self, Optional<ArrayRef<int64_t>> dims, uint32_t& mask) {
  mask = (1u << self.dim()) - 1;
  if (!dims.has_value() || dims.value().empty()) return true;
  mask = 0;
  for (int64_t dim : dims.value()) {
    if (dim < 0) dim += self.dim();
    if (dim < 0 || dim >= self.dim() || (mask >> dim & 1u)) return false;
    mask |= 1u << dim;
  }
  return true;
}

// Dimension `k` of a tensor in the order in which it lies in memory, outermost first.
dim_t dim_at(const Tensor& tensor, dim_t k) {
  return tensor.dim_order().empty() ? k : tensor.dim_order()[static_cast<size_t>(k)];
}

// How many elements there are before the named dimensions, in them, and after them. False where `self` is
// not dense, or where others lie between them.
bool read_run(const Tensor& self, uint32_t mask, Reduce& run) {
  run.outer = run.count = run.inner = 1;
  dim_t expected = 1;
  for (dim_t k = self.dim(); k-- > 0;) {
    const dim_t d = dim_at(self, k), size = self.size(d);
    if (size == 1) continue;
    if (self.stride(d) != expected) return false;
    expected *= size;
    if (mask >> d & 1u) {
      if (run.outer > 1) return false;
      run.count *= size;
    } else {
      (run.count > 1 ? run.outer : run.inner) *= size;
    }
  }
  return true;
}

// Do the dimensions of `out` lie as those of `self` that are left, without gaps?
bool lies_alike(const Tensor& self, uint32_t mask, bool keepdim, const Tensor& out) {
  dim_t expected = 1;
  for (dim_t k = self.dim(); k-- > 0;) {
    const dim_t d = dim_at(self, k);
    if ((mask >> d & 1u) || self.size(d) == 1) continue;
    dim_t at = d;
    for (dim_t before = 0; !keepdim && before < d; ++before) at -= mask >> before & 1u;
    if (out.stride(at) != expected) return false;
    expected *= self.size(d);
  }
  return true;
}

Tensor& reduce(KernelContext& ctx, Reduction reduction, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
               bool keepdim, Tensor& out) {
  uint32_t mask = 0;
  Reduce run{};
  if (!is_float(self) || !is_float(out) || self.numel() == 0 || !read_dims(self, dims, mask) ||
      !read_run(self, mask, run)) {
    ctx.decline();
    return out;
  }
  dim_t sizes[kMaxDim], rank = 0;
  for (dim_t d = 0; d < self.dim(); ++d) {
    const bool left = !(mask >> d & 1u);
    if (left || keepdim) sizes[rank++] = left ? self.size(d) : 1;
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank)))) return out;
  if (!lies_alike(self, mask, keepdim, out)) {
    ctx.decline();
    return out;
  }
  run.input = self.const_data_ptr<float>();
  run.output = out.mutable_data_ptr<float>();
  run.reduction = reduction;
  // A part is some of the outer ones, or some columns of one of them.
  const dim_t blocks = run.inner == 1 ? 1 : (run.inner + kColumns - 1) / kColumns;
  const double operations =
      2.0 * static_cast<double>(run.count) * static_cast<double>(run.inner < kColumns ? run.inner : kColumns);
  in_parts(ctx, run.outer * blocks, operations, [&](Range range) {
    for (dim_t at = range.first; at < range.last;) {
      Reduce mine = run;
      const dim_t o = at / blocks, block = at % blocks;
      // Whole ones together, else what is left of this one.
      const dim_t whole = block == 0 ? (range.last - at) / blocks : 0;
      const dim_t rest = range.last - at, last = whole || blocks < block + rest ? blocks : block + rest;
      mine.first = o;
      mine.last = whole ? o + whole : o + 1;
      mine.first_column = block * kColumns;
      mine.last_column = last == blocks ? run.inner : last * kColumns;
      routines().reduce(mine);
      at += whole ? whole * blocks : last - block;
    }
  });
  return out;
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

Tensor& linalg_vector_norm_out(KernelContext& ctx, const Tensor& self, Scalar ord,
                               Optional<ArrayRef<int64_t>> dim, bool keepdim, Optional<ScalarType>,
                               Tensor& out) {
  if (ord.to<double>() != 2.0) {
    ctx.decline();
    return out;
  }
  return reduce(ctx, Reduction::Norm, self, dim, keepdim, out);
}

}  // namespace penlight::optimized
