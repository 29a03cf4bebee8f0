// Places of elements that are not zero, and filling places that a mask names.
#include "kernels/common/broadcast.h"
#include "kernels/common/convert.h"
#include "kernels/common/view.h"

namespace penlight::portable {

constexpr int kBlock = 128;

// Calls body(position) for each element that is not zero, in row-major order.
// NaN is not zero; nor is a double too small for a float.
template <class Body>
static void for_each_nonzero(const Tensor& self, Body&& body) {
  const dim_t rank = self.dim(), last = rank - 1;
  const dim_t row = rank == 0 ? 1 : self.size(last), step = rank == 0 ? 0 : self.stride(last);
  const char* data = static_cast<const char*>(self.const_data_ptr());
  const dim_t item = static_cast<dim_t>(self.element_size());
  const bool floating = is_floating(self.scalar_type());
  if (self.numel() == 0) return;
  dim_t at[kMaxDim] = {};
  for (;;) {
    dim_t offset = 0;
    for (dim_t d = 0; d < last; ++d) offset += at[d] * self.stride(d);
    for (dim_t first = 0; first < row; first += kBlock) {
      const dim_t count = row - first < kBlock ? row - first : kBlock;
      const char* from = data + (offset + first * step) * item;
      double reals[kBlock];
      int64_t integers[kBlock];
      if (floating) {
        load_block(reals, self.scalar_type(), from, step, count);
      } else {
        load_block(integers, self.scalar_type(), from, step, count);
      }
      for (dim_t i = 0; i < count; ++i) {
        if (floating ? reals[i] != 0 : integers[i] != 0) {
          if (rank > 0) at[last] = first + i;
          body(static_cast<const dim_t*>(at));
        }
      }
    }
    dim_t d = last - 1;
    while (d >= 0 && ++at[d] == self.size(d)) at[d--] = 0;
    if (d < 0) return;
  }
}

Tensor& nonzero_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  if (out.scalar_type() != ScalarType::Long) {
    ctx.fail(Status::InvalidArgument, "places are int64, out has dtype {}", dtype_name(out.scalar_type()));
    return out;
  }
  dim_t sizes[] = {0, self.dim()};
  for_each_nonzero(self, [&](const dim_t*) { ++sizes[0]; });
  if (!ctx.resize(out, sizes)) return out;
  const dim_t rank = self.dim();
  int64_t* to = out.data_ptr<int64_t>();
  for_each_nonzero(self, [&](const dim_t* at) {
    for (dim_t d = 0; d < rank; ++d) to[d * out.stride(1)] = at[d];
    to += out.stride(0);
  });
  return out;
}

Tensor& nonzero_static_out(KernelContext& ctx, const Tensor& self, int64_t size, int64_t fill_value,
                           Tensor& out) {
  if (out.scalar_type() != ScalarType::Long || size < 0) {
    ctx.fail(Status::InvalidArgument, "places are int64 and size is not negative: got {} and {}",
             dtype_name(out.scalar_type()), size);
    return out;
  }
  const dim_t rank = self.dim();
  const dim_t sizes[] = {static_cast<dim_t>(size), rank};
  if (!ctx.resize(out, sizes)) return out;
  int64_t* to = out.data_ptr<int64_t>();
  int64_t written = 0;
  const auto write = [&](const dim_t* at) {
    if (written == size) return;
    for (dim_t d = 0; d < rank; ++d) to[d * out.stride(1)] = at ? at[d] : fill_value;
    to += out.stride(0);
    ++written;
  };
  for_each_nonzero(self, write);
  while (written < size) write(nullptr);
  return out;
}

Tensor& masked_scatter_out(KernelContext& ctx, const Tensor& self, const Tensor& mask, const Tensor& source,
                           Tensor& out) {
  if (!check_same_dtype(ctx, self, out) || !check_same_dtype(ctx, source, out)) return out;
  if (mask.scalar_type() != ScalarType::Bool) {
    ctx.fail(Status::InvalidArgument, "the mask has dtype {}, not bool", dtype_name(mask.scalar_type()));
    return out;
  }
  Shape shape(self.sizes());
  if (!broadcast_into(ctx, shape, mask.sizes()) || !ctx.resize(out, SizesRef(shape))) return out;
  View from = view_of(self), chosen = view_of(mask);
  if (!expand_view(ctx, from, SizesRef(shape)) || !expand_view(ctx, chosen, SizesRef(shape))) return out;
  const View to = view_of(out), values = view_of(source);
  move_view(out.element_size(), from, to);
  dim_t at[kMaxDim] = {}, flag_at[kMaxDim] = {}, value_at[kMaxDim] = {};
  char *target = to.data, *flag = chosen.data, *value = values.data;
  dim_t left_values = source.numel();
  for (dim_t left = shape.numel(); left > 0; --left) {
    if (*flag) {
      if (left_values-- == 0) {
        ctx.fail(Status::InvalidArgument, "the mask is true more often than source's {} elements",
                 source.numel());
        return out;
      }
      memmove(target, value, out.element_size());
      value = detail::next_element(values, value_at, value);
    }
    target = detail::next_element(to, at, target);
    flag = detail::next_element(chosen, flag_at, flag);
  }
  return out;
}

}  // namespace penlight::portable
