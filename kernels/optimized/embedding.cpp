// Rows of a table that is also the weight of a linear layer, and so lies in panels.
#include "kernels/common/convert.h"
#include "packed.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

// The row's column of a panel.
template <class Element>
void copy_row(const Element* column, float* to, dim_t depth) {
  for (dim_t k = 0; k < depth; ++k) to[k] = convert<float>(column[k * kPanel]);
}

void copy_row(const Tensor& weight, dim_t row, float* to, dim_t depth) {
  const dim_t at = (row / kPanel * (1 + depth) + 1) * kPanel + row % kPanel;
  switch (format_of(weight)) {
    case Format::Float16:
      return copy_row(weight.const_data_ptr<Half>() + at, to, depth);
    case Format::BFloat16:
      return copy_row(weight.const_data_ptr<BFloat16>() + at, to, depth);
    case Format::Float32:
      return copy_row(weight.const_data_ptr<float>() + at, to, depth);
  }
}

}  // namespace

Tensor& embedding_packed_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, int64_t rows,
                             int64_t depth, Tensor& out) {
  const dim_t rank = indices.dim();
  const bool is_long = indices.scalar_type() == ScalarType::Long;
  if ((!is_long && indices.scalar_type() != ScalarType::Int) || rank >= kMaxDim || !indices.is_contiguous())
    return ctx.fail(out, Status::InvalidArgument,
                    "indices of {} with {} dimensions; they are int32 or int64, and dense",
                    dtype_name(indices.scalar_type()), rank);
  dim_t size = 0;
  if (!packed_size(rows, depth, size))
    return ctx.fail(out, Status::InvalidArgument, "embedding_packed cannot have {} rows of {}", rows, depth);
  if (!check_packed(ctx, weight, size, format_of(weight))) return out;
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < rank; ++d) sizes[d] = indices.size(d);
  sizes[rank] = static_cast<dim_t>(depth);
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank + 1))) || out.numel() == 0) return out;
  if (!is_dense_float(out))
    return ctx.fail(out, Status::InvalidArgument, "the result of embedding_packed is dense float32");
  const dim_t count = indices.numel();
  const auto row_at = [&](dim_t i) -> int64_t {
    return is_long ? indices.const_data_ptr<int64_t>()[i] : indices.const_data_ptr<int32_t>()[i];
  };
  for (dim_t i = 0; i < count; ++i) {
    const int64_t row = row_at(i);
    if (row >= 0 && row < rows) continue;
    return ctx.fail(out, Status::KernelFailed, "index {} is out of range for a table of {} rows", row, rows);
  }
  in_parts(ctx, count, 4.0 * static_cast<double>(depth), [&](Range range) {
    for (dim_t i = range.first; i < range.last; ++i) {
      copy_row(weight, static_cast<dim_t>(row_at(i)), out.mutable_data_ptr<float>() + i * sizes[rank],
               sizes[rank]);
    }
  });
  return out;
}

}  // namespace penlight::optimized
