// The greatest or least few of float32 rows; the portable kernel takes, and reports, what this declines.
#include "isa.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

// Of more, or of so large a part of a row, making room for each takes longer than other ways.
constexpr int64_t kFew = 64, kMost = 512, kPart = 16;

}  // namespace

void topk_values(KernelContext& ctx, const Tensor& self, int64_t k, int64_t dim, bool largest, bool,
                 Tensor& values, Tensor& indices) {
  const dim_t dims = self.dim();
  const bool takes = is_float(self) && is_float(values) && indices.scalar_type() == ScalarType::Long &&
                     dims > 0 && (dim == -1 || dim == dims - 1) && self.is_contiguous() && self.numel() > 0 &&
                     self.size(-1) <= INT32_MAX && k > 0 && k <= self.size(-1) &&
                     (k <= kFew || (k <= kMost && k <= self.size(-1) / kPart));
  if (!takes) return ctx.decline();
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < dims; ++d) sizes[d] = self.size(d);
  sizes[dims - 1] = static_cast<dim_t>(k);
  const SizesRef wanted(sizes, static_cast<size_t>(dims));
  if (!ctx.resize(values, wanted) || !ctx.resize(indices, wanted)) return;
  if (!values.is_contiguous() || !indices.is_contiguous()) return ctx.decline();
  TopK job{};
  job.input = self.const_data_ptr<float>();
  job.values = values.mutable_data_ptr<float>();
  job.indices = indices.mutable_data_ptr<int64_t>();
  job.length = self.size(-1);
  job.count = static_cast<dim_t>(k);
  job.greatest = largest;
  const dim_t rows = self.numel() / job.length;
  const dim_t parts = parts_of(ctx, 4.0 * static_cast<double>(self.numel()), rows);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, static_cast<size_t>(k) * sizeof(int64_t), memory)) return;
  const auto part = [&](size_t index) {
    TopK mine = job;
    const Range range = range_of(index, parts, rows);
    mine.first = range.first;
    mine.last = range.last;
    mine.scratch = static_cast<int64_t*>(memory.of(index));
    routines().top_k(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

}  // namespace penlight::optimized
