// Places of elements that are not zero, and filling places that a mask names.
#include "nonzero.h"

#include "kernels/common/view.h"

namespace penlight::portable {

Tensor& nonzero_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (out.scalar_type() != ScalarType::Long)
    return ctx.fail(out, Status::InvalidArgument, "places are int64, out has dtype {}",
                    dtype_name(out.scalar_type()));
  dim_t sizes[] = {0, self.dim()};
  for_each_nonzero(self, [&](const Found& found) { sizes[0] += found.count; });
  if (!ctx.resize(out, sizes)) return out;
  int64_t* to = out.data_ptr<int64_t>();
  for_each_nonzero(self, [&](const Found& found) {
    found.write(self.dim(), to, out.stride(0), out.stride(1));
    to += found.count * out.stride(0);
  });
  return out;
}

Tensor& nonzero_static_out(KernelContext& ctx, const Tensor& self, int64_t size, int64_t fill_value,
                           Tensor& out) {
  if (out.scalar_type() != ScalarType::Long || size < 0)
    return ctx.fail(out, Status::InvalidArgument, "places are int64 and size is not negative: got {} and {}",
                    dtype_name(out.scalar_type()), size);
  const dim_t rank = self.dim();
  const dim_t sizes[] = {static_cast<dim_t>(size), rank};
  if (!ctx.resize(out, sizes)) return out;
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
  return out;
}

Tensor& masked_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, const Tensor& source,
                           Tensor& out) {
  if (!check_same_dtype(ctx, self, out) || !check_same_dtype(ctx, source, out)) return out;
  if (mask.scalar_type() != ScalarType::Bool)
    return ctx.fail(out, Status::InvalidArgument, "the mask has dtype {}, not bool",
                    dtype_name(mask.scalar_type()));
  Shape shape(self.sizes());
  if (!broadcast_into(ctx, shape, mask.sizes()) || !ctx.resize(out, SizesRef(shape))) return out;
  View from = view_of(self), chosen = view_of(mask);
  if (!expand_view(ctx, from, SizesRef(shape)) || !expand_view(ctx, chosen, SizesRef(shape))) return out;
  const View to = view_of(out);
  move_view(out.element_size(), from, to);
  Elements targets(to), flags(chosen), values(view_of(source));
  dim_t left_values = source.numel();
  for (dim_t left = shape.numel(); left > 0; --left) {
    char* const target = targets.next();
    if (!*flags.next()) continue;
    if (left_values-- == 0)
      return ctx.fail(out, Status::InvalidArgument, "the mask is true more often than source's {} elements",
                      source.numel());
    memmove(target, values.next(), out.element_size());
  }
  return out;
}

}  // namespace penlight::portable
