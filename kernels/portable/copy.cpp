// Copies: to another element type, memory order, or place.
//
// Equal element types are moved by their width; others are converted elementwise,
// computed in the type of the source, which loses nothing.
#include "kernels/common/elementwise.h"
#include "kernels/common/view.h"

namespace penlight::portable {

namespace {

Tensor& copy_to(KernelContext& ctx, const Tensor& from, Tensor& out) {
  if (from.scalar_type() == out.scalar_type()) return move_to_out(ctx, view_of(from), out);
  return map<Domain::Number>(ctx, Convert{}, out, from);
}

}  // namespace

Tensor& to_copy_out(KernelContext& ctx, const Tensor& self, bool, Optional<MemoryFormat>, Tensor& out) {
  return copy_to(ctx, self, out);
}

Tensor& clone_out(KernelContext& ctx, const Tensor& self, Optional<MemoryFormat>, Tensor& out) {
  return copy_to(ctx, self, out);
}

// The program says which memory order `out` has, so dim_order is not needed here.
Tensor& to_dim_order_copy_out(KernelContext& ctx, const Tensor& self, bool, Optional<ArrayRef<int64_t>>,
                              Tensor& out) {
  return copy_to(ctx, self, out);
}

// `src` broadcasts to the sizes of `self`, whose values do not count.
Tensor& copy_out(KernelContext& ctx, const Tensor& self, const Tensor& src, bool, Tensor& out) {
  if (src.scalar_type() != out.scalar_type()) {
    return map_promoting<Domain::Number, 1, 1>(ctx, PENLIGHT_OF_2(b), out, self, src);
  }
  View view = view_of(src);
  return expand_view(ctx, view, self.sizes()) ? move_to_out(ctx, view, out) : out;
}

// Writes a new value to state, which has no out variant: `self` is argument and result.
Tensor& copy_inplace(KernelContext& ctx, Tensor& self, const Tensor& src, bool non_blocking) {
  return copy_out(ctx, self, src, non_blocking, self);
}

}  // namespace penlight::portable
