// Padding: with a constant, with the reflection, with the nearest element.
//
// Pads are given for the last dimension first, as [before, after] pairs; a
// negative one cuts.
#include "fill.h"

namespace penlight::portable {

// One dimension of `out`: `before` elements of padding, `length` of input
// beginning at `start`, `after` of padding.
struct PaddedDim {
  dim_t before, start, length, after;
};

// The sizes that `pad` gives, and where in them the input lies.
static bool pad_sizes(KernelContext& ctx, const View& from, IntArrayRef pad, View& sizes, PaddedDim* dims) {
  if (pad.size() % 2 != 0 || pad.size() / 2 > static_cast<size_t>(from.dim))
    return ctx.refuse("{} pads given for a tensor with {} dimensions", pad.size(), from.dim);
  sizes = from;
  for (int d = 0; d < from.dim; ++d) {
    const size_t pair = 2 * static_cast<size_t>(from.dim - 1 - d);
    const int64_t before = pair < pad.size() ? pad[pair] : 0, after = pair < pad.size() ? pad[pair + 1] : 0;
    constexpr int64_t kWidest = INTPTR_MAX / 4;
    const bool sane = before > -kWidest && before < kWidest && after > -kWidest && after < kWidest;
    const int64_t size = sane ? from.sizes[d] + before + after : -1;
    if (size < 0)
      return ctx.refuse("pads {} and {} leave nothing of dimension {} with size {}", before, after, d,
                        from.sizes[d]);
    sizes.sizes[d] = static_cast<dim_t>(size);
    PaddedDim& part = dims[d];
    part.start = static_cast<dim_t>(before < 0 ? -before : 0);
    part.before = static_cast<dim_t>(before > 0 ? (before < size ? before : size) : 0);
    const int64_t end = from.sizes[d] + (after < 0 ? after : 0);
    const int64_t length = end - part.start;
    part.length = static_cast<dim_t>(length > 0 ? length : 0);
    part.after = sizes.sizes[d] - part.before - part.length;
  }
  return true;
}

void constant_pad_nd_out(KernelContext& ctx, const Tensor& self, IntArrayRef pad, Scalar value, Tensor& out) {
  View from = view_of(self), sizes;
  PaddedDim dims[kMaxDim];
  if (!check_same_dtype(ctx, self, out) || !pad_sizes(ctx, from, pad, sizes, dims) ||
      !resize_to(ctx, out, sizes))
    return;
  char item[16];
  if (!scalar_item(ctx, value, out.scalar_type(), item)) return;
  dim_t before[kMaxDim];
  for (int d = 0; d < from.dim; ++d) {
    before[d] = dims[d].before;
    from.sizes[d] = dims[d].length;
    from.data += dims[d].start * from.strides[d];
  }
  move_padded(out.element_size(), from, before, item, view_of(out));
}

// Dense rows of `source`, with what is before and after them in rows of `to`.
static void pad_rows(size_t item, const PaddedDim& row, bool reflects, int64_t ahead, View source, View to) {
  const int last = source.dim - 1;
  const dim_t size = source.sizes[last], begin = row.before, end = begin + row.length, all = end + row.after;
  source.sizes[last] = to.sizes[last] = 1;
  detail::with_item(item, [&](auto tag) {
    using Item = typename decltype(tag)::type;
    constexpr dim_t kItem = static_cast<dim_t>(sizeof(Item));
    for_each_place({&source, &to}, last, [&](char* const* at) {
      const auto put = [&](dim_t i, int64_t from) {
        const char* const x = at[0] + static_cast<dim_t>(from) * kItem;
        detail::store_item(at[1] + i * kItem, detail::load_item<Item>(x));
      };
      for (dim_t i = 0; i < begin; ++i) put(i, reflects ? ahead - i : 0);
      memcpy(at[1] + begin * kItem, at[0] + row.start * kItem,
             static_cast<size_t>(row.length) * sizeof(Item));
      for (dim_t i = end; i < all; ++i) put(i, reflects ? 2 * (size - 1) - (i - ahead) : size - 1);
    });
  });
}

// A padded dimension has three parts: what is before the input, the input, and what is after it. Each is
// a view of the input, of a dimension walked backwards (`reflects`) or not at all, so pads need
// no intermediate. Of dense rows the parts are written together.
void pad_border_out(KernelContext& ctx, int spatial, bool reflects, const Tensor& self, IntArrayRef pad,
                    Tensor& out) {
  View from = view_of(self), sizes;
  PaddedDim dims[kMaxDim];
  if (!check_same_dtype(ctx, self, out)) return;
  if (pad.size() != 2 * static_cast<size_t>(spatial) || (from.dim != spatial + 1 && from.dim != spatial + 2))
    return ctx.fail("{} pads given for a tensor with {} dimensions, of which the last {} are padded",
                    pad.size(), from.dim, spatial);
  if (!pad_sizes(ctx, from, pad, sizes, dims)) return;
  bool vanished = true;  // as ATen: all padded dimensions may not do so at once
  for (int d = from.dim - spatial; d < from.dim; ++d) {
    vanished &= sizes.sizes[d] == 0;
    const size_t pair = 2 * static_cast<size_t>(from.dim - 1 - d);
    const int64_t size = from.sizes[d], widest = pad[pair] > pad[pair + 1] ? pad[pair] : pad[pair + 1];
    if (size == 0 || (reflects && widest >= size))
      return ctx.fail("pads {} and {} do not fit dimension {} with size {}", pad[pair], pad[pair + 1], d,
                      size);
  }
  if (vanished) return ctx.fail("the pads leave nothing of the input");
  if (!resize_to(ctx, out, sizes)) return;
  if (out.numel() == 0) return;
  const int last_dim = from.dim - 1;
  const dim_t item = static_cast<dim_t>(out.element_size());
  const bool by_rows = from.strides[last_dim] == item && view_of(out).strides[last_dim] == item;
  const int parted = by_rows ? last_dim : from.dim;
  int parts = 1;
  for (int d = from.dim - spatial; d < parted; ++d) parts *= 3;
  for (int part = 0; part < parts; ++part) {
    View source = from, to = view_of(out);
    bool empty = false;
    for (int d = from.dim - spatial, rest = part; d < parted; ++d, rest /= 3) {
      const int64_t ahead = pad[2 * static_cast<size_t>(from.dim - 1 - d)], last = from.sizes[d] - 1;
      const PaddedDim& padded = dims[d];
      int64_t first = padded.start, step = 1;
      dim_t at = padded.before, size = padded.length;
      if (rest % 3 != 1) {
        const bool is_before = rest % 3 == 0;
        at = is_before ? 0 : padded.before + padded.length;
        size = is_before ? padded.before : padded.after;
        const int64_t reflected = is_before ? ahead : 2 * last - (at - ahead);
        first = reflects ? reflected : is_before ? 0 : last;
        step = reflects ? -1 : 0;
      }
      to.sizes[d] = source.sizes[d] = size;
      empty = size == 0;
      if (empty) break;
      to.data += at * to.strides[d];
      source.data += static_cast<dim_t>(first) * source.strides[d];
      source.strides[d] *= static_cast<dim_t>(step);
    }
    if (empty) continue;
    if (by_rows) {
      pad_rows(out.element_size(), dims[last_dim], reflects, pad[0], source, to);
    } else {
      move_view(out.element_size(), source, to);
    }
  }
}

}  // namespace penlight::portable
