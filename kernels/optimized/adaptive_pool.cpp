// Averages of parts of signals, images and volumes: of as many as are wanted, or of all. The portable kernels
// take what these decline.
#include "average_pool.h"
#include "parameters.h"
#include "reduce.h"

namespace penlight::optimized {

namespace {

constexpr int64_t kMostPlaces = 1 << 24;  // of an axis, so that a product of two fits an address

// Output `at` of `axis` is from first to last.
dim_t part_begin(dim_t at, dim_t in, dim_t out) { return at * in / out; }
dim_t part_end(dim_t at, dim_t in, dim_t out) { return ((at + 1) * in + out - 1) / out; }

// False, with nothing written, if it is for the portable kernel.
bool average_parts(KernelContext& ctx, size_t dims, const Tensor& self, ArrayRef<int64_t> output_size,
                   Tensor& out) {
  const size_t rank = static_cast<size_t>(self.dim());
  if (!is_float(self) || !is_float(out) || output_size.size() != dims ||
      (rank != dims + 1 && rank != dims + 2) || self.numel() == 0)
    return false;
  dim_t in[3] = {1, 1, 1}, wanted[3] = {1, 1, 1}, sizes[5];
  for (size_t d = 0; d < rank; ++d) sizes[d] = self.size(static_cast<dim_t>(d));
  for (size_t d = 0; d < dims; ++d) {
    const dim_t size = sizes[rank - dims + d];
    if (output_size[d] < 1 || output_size[d] > kMostPlaces || size > kMostPlaces) return false;
    in[3 - dims + d] = size;
    wanted[3 - dims + d] = sizes[rank - dims + d] = static_cast<dim_t>(output_size[d]);
  }
  if (!ctx.resize(out, SizesRef(sizes, rank))) return true;
  AveragePool pool{};
  if (!place(self, dims, out, pool)) return false;
  pool.geometry.height = in[1];
  pool.geometry.width = in[2];
  pool.geometry.out_height = wanted[1];
  pool.geometry.out_width = wanted[2];
  pool.depth.size = in[0];
  pool.depth.out = wanted[0];
  const dim_t columns = round_to_panel(wanted[2]);
  float* const counts = ctx.allocate_scratch_array<float>(static_cast<size_t>(columns));
  int32_t* const first = ctx.allocate_scratch_array<int32_t>(static_cast<size_t>(columns));
  if (!counts || !first) return true;
  for (dim_t w = 0; w < columns; ++w) {
    const dim_t at = w < wanted[2] ? w : 0, begin = part_begin(at, in[2], wanted[2]);
    const dim_t count = part_end(at, in[2], wanted[2]) - begin;
    first[w] = static_cast<int32_t>(begin);
    counts[w] = static_cast<float>(count);
    if (count > pool.most_columns) pool.most_columns = count;
  }
  pool.columns = first;
  pool.sizes = counts;
  const dim_t length = in[2] + pool.most_columns;
  if (length > kLongestLine / pool.pixel) return false;
  pool.line_size = length * pool.pixel + kPanel;
  const double inputs = static_cast<double>(self.numel()), outputs = static_cast<double>(out.numel());
  average_rows(ctx, pool, out.numel() / (wanted[2] * pool.pixel),
               2.0 * (2.0 + static_cast<double>(pool.most_columns) + inputs / outputs));
  return true;
}

Tensor& average(KernelContext& ctx, size_t dims, const Tensor& self, ArrayRef<int64_t> output_size,
                Tensor& out) {
  constexpr int64_t kLast[] = {-1, -2, -3};
  const size_t rank = static_cast<size_t>(self.dim());
  bool is_one = (rank == dims + 1 || rank == dims + 2) && output_size.size() == dims;
  for (int64_t size : output_size) is_one &= size == 1;
  if (!is_one) return or_decline(ctx, average_parts(ctx, dims, self, output_size, out), out);
  if (!is_float(self) || !is_float(out)) return decline(ctx, out);
  return mean_out(ctx, self, ArrayRef<int64_t>(kLast, dims), true, nullopt, out);
}

}  // namespace

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

}  // namespace penlight::optimized
