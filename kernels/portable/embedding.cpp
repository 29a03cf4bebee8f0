// Rows of a table by their numbers.
#include <penlight/kernel.h>
#include <string.h>

#include "kernels/common/checks.h"
#include "kernels/common/convert.h"
#include "kernels/common/strided.h"

namespace penlight::portable {

// padding_idx, scale_grad_by_freq and sparse say something about gradients only.
void embedding_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, int64_t, bool, bool,
                   Tensor& out) {
  if (!check_rank(ctx, weight, 2, "weight") || !check_same_dtype(ctx, weight, out)) return;
  const dim_t rank = indices.dim();
  if ((indices.dtype() != ScalarType::Long && indices.dtype() != ScalarType::Int) || rank >= kMaxDim)
    return ctx.fail("indices of {} with {} dimensions; they are int32 or int64", dtype_name(indices.dtype()),
                    rank);
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < rank; ++d) sizes[d] = indices.size(d);
  const dim_t rows = weight.size(0), width = sizes[rank] = weight.size(1);
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank + 1))) || out.numel() == 0) return;
  StridedLoop loop(indices.sizes());
  loop.add(indices);
  loop.add(indices.sizes(), SizesRef(out.strides().data(), static_cast<size_t>(rank)));
  const dim_t item = static_cast<dim_t>(weight.element_size());
  const dim_t from_step = weight.stride(1) * item, to_step = out.stride(rank) * item;
  // All of a row where it has no gaps, else element by element.
  const bool dense = from_step == item && to_step == item;
  const size_t part = static_cast<size_t>(dense ? width * item : item);
  loop.for_each_row([&](const dim_t* at, dim_t count) {
    for (dim_t i = 0; i < count && ctx.ok(); ++i) {
      const int64_t row = load_element<int64_t>(indices, at[0] + i * loop.inner_stride(0));
      if (row < 0 || row >= rows)
        return ctx.fail(Status::KernelFailed, "index {} is out of range for a table of {} rows", row, rows);
      const char* from = weight.const_data_ptr<char>() + static_cast<dim_t>(row) * weight.stride(0) * item;
      char* to = out.mutable_data_ptr<char>() + (at[1] + i * loop.inner_stride(1)) * item;
      for (dim_t k = 0; k < (dense ? 1 : width); ++k) memcpy(to + k * to_step, from + k * from_step, part);
    }
  });
}

}  // namespace penlight::portable
