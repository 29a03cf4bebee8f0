// Copies: to another element type, memory order, or place.
//
// Equal element types are moved by their width; others are converted elementwise,
// computed in the type of the source, which loses nothing.
#include "kernels/common/elementwise.h"
#include "kernels/common/view.h"

namespace penlight::portable {

namespace {

// Through C: as int64, which is what integers are computed in, the upper half is negative.
template <class C>
void float_of_uint64(KernelContext& ctx, const Tensor& from, Tensor& out) {
  constexpr dim_t kBlock = 64;
  if (!ctx.resize(out, from.sizes())) return;
  StridedLoop loop(out.sizes());
  loop.add(out);
  loop.add(from);
  loop.for_each_row([&](const dim_t* at, dim_t count) {
    for (dim_t done = 0; done < count; done += kBlock) {
      const dim_t some = count - done < kBlock ? count - done : kBlock;
      C block[kBlock];
      load_block(block, from, at[1] + done * loop.inner_stride(1), loop.inner_stride(1), some);
      store_block(out, at[0] + done * loop.inner_stride(0), loop.inner_stride(0), block, some);
    }
  });
}

void copy_to(KernelContext& ctx, const Tensor& from, Tensor& out) {
  if (from.scalar_type() == out.scalar_type()) return move_to_out(ctx, view_of(from), out);
  if (from.scalar_type() == ScalarType::UInt64 && is_floating(out.scalar_type()))
    return out.scalar_type() == ScalarType::Double ? float_of_uint64<double>(ctx, from, out)
                                                   : float_of_uint64<float>(ctx, from, out);
  map<Domain::Number>(ctx, kConvert, out, from);
}

}  // namespace

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
