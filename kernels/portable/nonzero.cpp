// Places of elements that are not zero, and taking and filling places that a mask names.
#include "nonzero.h"

#include "kernels/common/view.h"

namespace penlight::portable {

void nonzero_static_out(KernelContext& ctx, const Tensor& self, int64_t size, int64_t fill_value,
                        Tensor& out) {
  if (out.scalar_type() != ScalarType::Long || size < 0)
    return ctx.fail("places are int64 and size is not negative: got {} and {}", dtype_name(out.scalar_type()),
                    size);
  const dim_t rank = self.dim();
  const dim_t sizes[] = {static_cast<dim_t>(size), rank};
  if (!ctx.resize(out, sizes)) return;
  int64_t* to = out.data_ptr<int64_t>();
  dim_t left = sizes[0];
  for_each_nonzero(self, [&](Found found) {
    if (found.count > left) found.count = left;
    found.write(rank, to, out.stride(0), out.stride(1));
    to += found.count * out.stride(0);
    left -= found.count;
  });
  for (; left > 0; --left, to += out.stride(0)) {
    for (dim_t d = 0; d < rank; ++d) to[d * out.stride(1)] = fill_value;
  }
}

void nonzero_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  dim_t count = 0;
  for_each_nonzero(self, [&](const Found& found) { count += found.count; });
  nonzero_static_out(ctx, self, count, 0, out);
}

// Both broadcast to each other.
static bool spread_mask(KernelContext& ctx, const Tensor& self, const Tensor& mask, View& from,
                        View& chosen) {
  if (mask.scalar_type() != ScalarType::Bool)
    return ctx.refuse("the mask has dtype {}, not bool", dtype_name(mask.scalar_type()));
  Shape shape(self.sizes());
  from = view_of(self);
  chosen = view_of(mask);
  return broadcast_into(ctx, shape, mask.sizes()) && expand_view(ctx, from, SizesRef(shape)) &&
         expand_view(ctx, chosen, SizesRef(shape));
}

void masked_select_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, Tensor& out) {
  View from, chosen;
  if (!check_same_dtype(ctx, self, out) || !spread_mask(ctx, self, mask, from, chosen)) return;
  // Counted first: the result's size depends on the data.
  dim_t found = 0;
  const auto for_each_chosen = [&](auto body) {
    Elements sources(from), flags(chosen);
    for (dim_t left = from.numel(); left > 0; --left) {
      const char* const source = sources.next();
      if (*flags.next()) body(source);
    }
  };
  for_each_chosen([&](const char*) { ++found; });
  if (!ctx.resize(out, SizesRef(&found, 1))) return;
  Elements targets(view_of(out));
  for_each_chosen([&](const char* source) { memmove(targets.next(), source, out.element_size()); });
}

void masked_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, const Tensor& source,
                        Tensor& out) {
  View from, chosen;
  if (!check_same_dtype(ctx, source, out) || !check_same_dtype(ctx, self, out) ||
      !spread_mask(ctx, self, mask, from, chosen) || !resize_to(ctx, out, from))
    return;
  const View to = view_of(out);
  move_view(out.element_size(), from, to);
  Elements targets(to), flags(chosen), values(view_of(source));
  dim_t left_values = source.numel();
  for (dim_t left = from.numel(); left > 0; --left) {
    char* const target = targets.next();
    if (!*flags.next()) continue;
    if (left_values-- == 0)
      return ctx.fail("the mask is true more often than source's {} elements", source.numel());
    memmove(target, values.next(), out.element_size());
  }
}

}  // namespace penlight::portable
