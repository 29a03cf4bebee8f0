// Rows of a table by their numbers.
#include <penlight/kernel.h>
#include <string.h>

#include "kernels/common/checks.h"
#include "kernels/common/dispatch.h"

namespace penlight::portable {

namespace {

int64_t index_at(const Tensor& indices, dim_t offset) {
  return indices.dtype() == ScalarType::Long ? indices.const_data_ptr<int64_t>()[offset]
                                             : indices.const_data_ptr<int32_t>()[offset];
}

template <class Unit>
void copy_row(const Unit* from, dim_t from_step, Unit* to, dim_t to_step, dim_t count) {
  if (from_step == 1 && to_step == 1) {
    memcpy(to, from, static_cast<size_t>(count) * sizeof(Unit));
    return;
  }
  for (dim_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
}

}  // namespace

// padding_idx, scale_grad_by_freq and sparse say something about gradients only.
Tensor& embedding_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, int64_t padding_idx,
                      bool scale_grad_by_freq, bool sparse, Tensor& out) {
  (void)padding_idx;
  (void)scale_grad_by_freq;
  (void)sparse;
  if (!check_rank(ctx, weight, 2, "weight") || !check_same_dtype(ctx, weight, out)) return out;
  const dim_t rank = indices.dim();
  if ((indices.dtype() != ScalarType::Long && indices.dtype() != ScalarType::Int) || rank >= kMaxDim)
    return ctx.fail(out, Status::InvalidArgument, "indices of {} with {} dimensions; they are int32 or int64",
                    dtype_name(indices.dtype()), rank);
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < rank; ++d) sizes[d] = indices.size(d);
  const dim_t rows = weight.size(0), width = sizes[rank] = weight.size(1);
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank + 1))) || out.numel() == 0) return out;
  dispatch_bytes(ctx, weight.dtype(), [&](auto tag) {
    using Unit = typename decltype(tag)::type;
    dim_t at[kMaxDim] = {}, from = 0, to = 0;
    for (;;) {
      const int64_t row = index_at(indices, from);
      if (row < 0 || row >= rows) {
        ctx.fail(Status::KernelFailed, "index {} is out of range for a table of {} rows", row, rows);
        return;
      }
      copy_row(weight.const_data_ptr<Unit>() + static_cast<dim_t>(row) * weight.stride(0), weight.stride(1),
               out.mutable_data_ptr<Unit>() + to, out.stride(rank), width);
      dim_t d = rank - 1;
      for (; d >= 0; --d) {
        from += indices.stride(d);
        to += out.stride(d);
        if (++at[d] < sizes[d]) break;
        from -= indices.stride(d) * sizes[d];
        to -= out.stride(d) * sizes[d];
        at[d] = 0;
      }
      if (d < 0) return;
    }
  });
  return out;
}

}  // namespace penlight::portable
