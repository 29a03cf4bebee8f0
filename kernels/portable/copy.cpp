// Copies: to another element type, memory order, or place.
//
// Equal element types are moved by their width; others are converted elementwise,
// computed in the type of the source, which loses nothing.
#include "kernels/common/elementwise.h"
#include "kernels/common/span.h"
#include "kernels/common/view.h"

namespace penlight::portable {

// Through C: as int64, which is what integers are computed in, the upper half is negative.
template <class C>
static void float_of_uint64(KernelContext& ctx, const Tensor& from, Tensor& out) {
  const C* numbers = dense_copy<C>(ctx, from);
  if (numbers && ctx.resize(out, from.sizes())) dense_store(numbers, out);
}

static void copy_to(KernelContext& ctx, const Tensor& from, Tensor& out) {
  if (from.scalar_type() == out.scalar_type()) return move_to_out(ctx, view_of(from), out);
  if (from.scalar_type() == ScalarType::UInt64 && is_floating(out.scalar_type()))
    return out.scalar_type() == ScalarType::Double ? float_of_uint64<double>(ctx, from, out)
                                                   : float_of_uint64<float>(ctx, from, out);
  map<Domain::Number>(ctx, kConvert, out, from);
}

void to_copy_out(KernelContext& ctx, const Tensor& self, bool, Optional<MemoryFormat>, Tensor& out) {
  copy_to(ctx, self, out);
}

void clone_out(KernelContext& ctx, const Tensor& self, Optional<MemoryFormat>, Tensor& out) {
  copy_to(ctx, self, out);
}

// The program says which memory order `out` has, so dim_order is not needed here.
void to_dim_order_copy_out(KernelContext& ctx, const Tensor& self, bool, Optional<IntArrayRef>, Tensor& out) {
  copy_to(ctx, self, out);
}

// `src` broadcasts to the sizes of `self`, whose values do not count.
void copy_out(KernelContext& ctx, const Tensor& self, const Tensor& src, bool, Tensor& out) {
  if (src.scalar_type() != out.scalar_type()) {
    return map_promoting<Domain::Number, 1, 1>(ctx, PENLIGHT_OF_2(b), out, self, src);
  }
  View view = view_of(src);
  if (expand_view(ctx, view, self.sizes())) move_to_out(ctx, view, out);
}

// Writes a new value to state, which has no out variant: `self` is argument and result.
void copy_inplace(KernelContext& ctx, Tensor& self, const Tensor& src, bool non_blocking) {
  copy_out(ctx, self, src, non_blocking, self);
}

}  // namespace penlight::portable
