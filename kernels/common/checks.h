// Checks that kernels begin with. Those with a context return false with the failure recorded.
#pragma once

#include <penlight/kernel.h>

namespace penlight {

// Of tensors that are joined: a one-dimensional empty one may stand among those of any shape.
inline bool is_skipped(const Tensor& tensor) { return tensor.dim() == 1 && tensor.numel() == 0; }

// Makes a dimension counted from the end count from the start. A tensor of rank
// 0 has dimension 0 (and -1), as in ATen.
inline bool normalize_dim(KernelContext& ctx, int64_t& dim, dim_t rank) {
  const int64_t limit = rank == 0 ? 1 : rank;
  if (dim < -limit || dim >= limit)
    return ctx.refuse("dimension {} is not in [{}, {}]", dim, -limit, limit - 1);
  if (dim < 0) dim += limit;
  return true;
}

inline bool wrap_dim(KernelContext& ctx, int64_t d, dim_t rank, int& wrapped) {
  if (!normalize_dim(ctx, d, rank)) return false;
  wrapped = static_cast<int>(d);
  return true;
}

// The same for one of a list, in which no dimension may be given twice: `seen` has a bit for each before it.
inline bool take_dim(KernelContext& ctx, int64_t d, dim_t rank, uint32_t& seen, int& wrapped) {
  if (!wrap_dim(ctx, d, rank, wrapped)) return false;
  if (seen & (1u << wrapped)) return ctx.refuse("dimension {} is given twice", wrapped);
  seen |= 1u << wrapped;
  return true;
}

// An index into `size` elements, negative from the end: data, so a kernel failure. `d` is for the message.
inline bool wrap_index(KernelContext& ctx, int64_t index, int d, dim_t size, dim_t& wrapped) {
  if (index < -static_cast<int64_t>(size) || index >= static_cast<int64_t>(size))
    return ctx.refuse(Status::KernelFailed, "index {} is out of range for dimension {} with size {}", index,
                      d, size);
  wrapped = static_cast<dim_t>(index < 0 ? index + size : index);
  return true;
}

inline bool check_same_dtype(KernelContext& ctx, const Tensor& a, const Tensor& b) {
  if (a.scalar_type() == b.scalar_type()) return true;
  return ctx.refuse("element types differ: {} and {}", dtype_name(a.scalar_type()),
                    dtype_name(b.scalar_type()));
}

inline bool check_same_sizes(KernelContext& ctx, const Tensor& a, const Tensor& b) {
  if (a.sizes().equals(b.sizes())) return true;
  return ctx.refuse("sizes differ: ranks {} and {}, {} and {} elements", a.dim(), b.dim(), a.numel(),
                    b.numel());
}

// `what` names the argument in the message.
inline bool check_rank(KernelContext& ctx, const Tensor& tensor, dim_t rank, const char* what) {
  if (tensor.dim() == rank) return true;
  return ctx.refuse("{} has rank {}, wanted {}", what, tensor.dim(), rank);
}

inline bool check(KernelContext& ctx, bool condition, const char* what) {
  if (condition) return true;
  return ctx.refuse("{}", what);
}

}  // namespace penlight
