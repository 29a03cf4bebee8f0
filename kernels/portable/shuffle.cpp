// Channels to pixels and back: only moves, described as views.
#include "kernels/common/view.h"

namespace penlight::portable {

// Splits dimension `d` of a view into [size / inner, inner].
static void split_dim(View& view, int d, dim_t inner) {
  const dim_t stride = view.strides[d];
  view.sizes[d] /= inner;
  view.strides[d] = stride * inner;
  view.insert_dim(d + 1, inner, stride);
}

// Takes dimension `from` out and puts it in so that it becomes dimension `to`.
static void move_dim(View& view, int from, int to) {
  const dim_t size = view.sizes[from], stride = view.strides[from];
  view.remove_dim(from);
  view.insert_dim(to, size, stride);
}

static bool check_factor(KernelContext& ctx, const Tensor& self, int64_t factor) {
  if (self.dim() >= 3 && self.dim() <= kMaxDim - 2 && factor > 0 && factor < 1 << 15) return true;
  return ctx.refuse("factor {} for an input of {} dimensions", factor, self.dim());
}

// [..., C r r, H, W] to [..., C, H r, W r], or back.
void shuffle_pixels_out(KernelContext& ctx, bool to_pixels, const Tensor& self, int64_t factor, Tensor& out) {
  if (!check_factor(ctx, self, factor) || !check_same_dtype(ctx, self, out)) return;
  const dim_t r = static_cast<dim_t>(factor);
  View from = view_of(self), sizes = from;
  const int c = from.dim - 3;
  dim_t &channels = sizes.sizes[c], &height = sizes.sizes[c + 1], &width = sizes.sizes[c + 2];
  if (to_pixels ? channels % r != 0 || channels / r % r != 0 : height % r != 0 || width % r != 0)
    return ctx.fail("{} channels of [{}, {}] do not divide by {}", channels, height, width, r);
  channels = to_pixels ? channels / r / r : channels * r * r;
  height = to_pixels ? height * r : height / r;
  width = to_pixels ? width * r : width / r;
  if (!resize_to(ctx, out, sizes)) return;
  View to = view_of(out);
  View &deep = to_pixels ? from : to, &wide = to_pixels ? to : from;
  split_dim(deep, c, r);         // [C r, r, H, W]
  split_dim(deep, c, r);         // [C, r, r, H, W]
  split_dim(wide, c + 2, r);     // [C, H r, W, r]
  split_dim(wide, c + 1, r);     // [C, H, r, W, r]
  move_dim(wide, c + 2, c + 1);  // [C, r, H, W, r]
  move_dim(wide, c + 4, c + 2);  // [C, r, r, H, W]
  move_view(out.element_size(), from, to);
}

// [N, groups, C / groups, ...] with the two transposed.
void channel_shuffle_out(KernelContext& ctx, const Tensor& self, int64_t groups, Tensor& out) {
  if (!check_factor(ctx, self, groups) || !check_same_dtype(ctx, self, out)) return;
  const dim_t g = static_cast<dim_t>(groups);
  if (self.size(1) % g != 0) return ctx.fail("{} groups do not divide {} channels", g, self.size(1));
  if (!ctx.resize(out, self.sizes()) || self.numel() == 0) return;
  View from = view_of(self), to = view_of(out);
  split_dim(from, 1, self.size(1) / g);
  split_dim(to, 1, g);
  move_dim(to, 2, 1);
  move_view(out.element_size(), from, to);
}

}  // namespace penlight::portable
