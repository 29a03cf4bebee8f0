// The greatest or least few of float32 rows, along any dimension; the portable kernel takes, and reports,
// what this declines.
#include "isa.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

// Of more, or of so large a part of a row, making room for each takes longer than other ways.
constexpr int64_t kFew = 64, kMost = 512, kPart = 16;

// Rows that do not lie one behind the other: so many at once are copied, and what is found is copied back.
constexpr dim_t kRowsAtOnce = 16, kCopied = 1 << 15;

// Row i begins at i / inner * length * inner + i % inner; its elements lie `inner` apart.
struct Slices {
  dim_t inner, at_once;
};

Slices slices_of(const Tensor& self, dim_t dim) {
  Slices s{1, 1};
  for (dim_t d = dim + 1; d < self.dim(); ++d) s.inner *= self.size(d);
  const dim_t near = kCopied / self.size(dim);
  s.at_once = near < 1 ? 1 : near < kRowsAtOnce ? near : kRowsAtOnce;
  return s;
}

// Bytes for the rows, what is found in them, and what finding it takes.
size_t scratch_of(const Slices& s, const TopK& job) {
  const size_t found = static_cast<size_t>(job.count), own = found * sizeof(int64_t);
  if (s.inner == 1) return own;
  const size_t each =
      found * (sizeof(int64_t) + sizeof(float)) + static_cast<size_t>(job.length) * sizeof(float);
  return own + static_cast<size_t>(s.at_once) * each;
}

void copy_and_find(const TopK& all, const Slices& s, Range rows) {
  TopK mine = all;
  int64_t* const indices = all.scratch + all.count;
  float* const values = reinterpret_cast<float*>(indices + s.at_once * all.count);
  float* const copied = values + s.at_once * all.count;
  mine.input = copied;
  mine.values = values;
  mine.indices = indices;
  mine.first = 0;
  for (dim_t row = rows.first; row < rows.last; row += mine.last) {
    const dim_t outer = row / s.inner, first = row % s.inner;
    mine.last = s.at_once;
    if (mine.last > s.inner - first) mine.last = s.inner - first;
    if (mine.last > rows.last - row) mine.last = rows.last - row;
    const float* const from = all.input + outer * all.length * s.inner + first;
    for (dim_t l = 0; l < all.length; ++l) {
      for (dim_t i = 0; i < mine.last; ++i) copied[i * all.length + l] = from[l * s.inner + i];
    }
    routines().top_k(mine);
    const dim_t to = outer * all.count * s.inner + first;
    for (dim_t k = 0; k < all.count; ++k) {
      for (dim_t i = 0; i < mine.last; ++i) {
        all.values[to + k * s.inner + i] = values[i * all.count + k];
        all.indices[to + k * s.inner + i] = indices[i * all.count + k];
      }
    }
  }
}

}  // namespace

void topk_values(KernelContext& ctx, const Tensor& self, int64_t k, int64_t dim, bool largest, bool,
                 Tensor& values, Tensor& indices) {
  const dim_t dims = self.dim();
  if (dim < 0) dim += dims;
  const bool takes = is_float(self) && is_float(values) && indices.scalar_type() == ScalarType::Long &&
                     dim >= 0 && dim < dims && self.is_contiguous() && self.numel() > 0 &&
                     self.size(static_cast<dim_t>(dim)) <= INT32_MAX && k > 0 &&
                     k <= self.size(static_cast<dim_t>(dim));
  if (!takes) return ctx.decline();
  const dim_t along = static_cast<dim_t>(dim), length = self.size(along);
  if (k > kFew && (k > kMost || k > length / kPart)) return ctx.decline();
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < dims; ++d) sizes[d] = d == along ? static_cast<dim_t>(k) : self.size(d);
  const SizesRef wanted(sizes, static_cast<size_t>(dims));
  if (!ctx.resize(values, wanted) || !ctx.resize(indices, wanted)) return;
  if (!values.is_contiguous() || !indices.is_contiguous()) return ctx.decline();
  TopK job{};
  job.input = self.const_data_ptr<float>();
  job.values = values.mutable_data_ptr<float>();
  job.indices = indices.mutable_data_ptr<int64_t>();
  job.length = length;
  job.count = static_cast<dim_t>(k);
  job.greatest = largest;
  const Slices slices = slices_of(self, along);
  const dim_t rows = self.numel() / length;
  const dim_t parts = parts_of(ctx, 4.0 * static_cast<double>(self.numel()), rows);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, scratch_of(slices, job), memory)) return;
  const auto part = [&](size_t index) {
    TopK mine = job;
    const Range range = range_of(index, parts, rows);
    mine.scratch = static_cast<int64_t*>(memory.of(index));
    if (slices.inner > 1) return copy_and_find(mine, slices, range);
    mine.first = range.first;
    mine.last = range.last;
    routines().top_k(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

}  // namespace penlight::optimized
