// Copies of what a view shows, into any order of dimensions, which threads split: some places of one
// dimension each.
#include "kernels/common/view.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

// As long as moving an element takes: into another order, and in runs.
constexpr double kTurned = 40, kInRuns = 16;

// The dimension that lies outermost of those whose places threads can share about equally; else the one with
// most places.
int split_dim(const View& to, size_t threads) {
  const dim_t enough = 2 * static_cast<dim_t>(threads);
  int best = 0;
  for (int d = 1; d < to.dim; ++d) {
    const dim_t size = to.sizes[d], most = to.sizes[best];
    const bool outer = to.strides[d] > to.strides[best];
    if (most >= enough ? size >= enough && outer : size > most) best = d;
  }
  return best;
}

// As move_to_out().
void move_in_parts(KernelContext& ctx, const View& from, double operations, Tensor& out) {
  if (!take_sizes(ctx, from, out) || out.numel() == 0) return;
  const View to = view_of(out);
  const size_t item = out.element_size();
  if (to.dim == 0) return move_view(item, from, to);
  const int d = split_dim(to, ctx.threads());
  const double rest = static_cast<double>(out.numel()) / static_cast<double>(to.sizes[d]);
  in_parts(ctx, to.sizes[d], operations * rest, [&](Range range) {
    const dim_t count = range.last - range.first;
    move_view(item, part_of(from, d, range.first, count), part_of(to, d, range.first, count));
  });
}

template <class Change>
void copy_in_parts(KernelContext& ctx, const Tensor& self, double operations, Tensor& out, Change&& change) {
  View view = view_of(self);
  if (check_same_dtype(ctx, self, out) && change(view)) move_in_parts(ctx, view, operations, out);
}

}  // namespace

void permute_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef dims, Tensor& out) {
  copy_in_parts(ctx, self, kTurned, out, [&](View& view) { return permute_view(ctx, view, dims); });
}

void transpose_copy_int_out(KernelContext& ctx, const Tensor& self, int64_t dim0, int64_t dim1, Tensor& out) {
  copy_in_parts(ctx, self, kTurned, out, [&](View& view) { return transpose_view(ctx, view, dim0, dim1); });
}

void slice_copy_tensor_out(KernelContext& ctx, const Tensor& self, int64_t dim, Optional<int64_t> start,
                           Optional<int64_t> end, int64_t step, Tensor& out) {
  copy_in_parts(ctx, self, kInRuns, out,
                [&](View& view) { return slice_view(ctx, view, dim, start, end, step); });
}

void as_strided_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef size, IntArrayRef stride,
                         Optional<int64_t> storage_offset, Tensor& out) {
  copy_in_parts(ctx, self, kInRuns, out,
                [&](View& view) { return as_strided_view(ctx, self, size, stride, storage_offset, view); });
}

// The program says which memory order `out` has.
void to_dim_order_copy_out(KernelContext& ctx, const Tensor& self, bool, Optional<IntArrayRef>, Tensor& out) {
  if (self.scalar_type() != out.scalar_type()) return ctx.decline();
  move_in_parts(ctx, view_of(self), kTurned, out);
}

}  // namespace penlight::optimized
