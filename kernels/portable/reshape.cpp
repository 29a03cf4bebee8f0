// Reshapes: the elements in row-major order, under other sizes.
#include "kernels/common/view.h"

namespace penlight::portable {

// Splits the dimensions of both views until they are the same, so that a Mover
// can take over: [6, 4] and [2, 3, 4] become [2, 3, 4]. False where no split
// does it, as for [4, 3] and [3, 4].
static bool split_alike(const View& from, const View& to, View& from_split, View& to_split) {
  from_split.dim = to_split.dim = 0;
  from_split.data = from.data;
  to_split.data = to.data;
  int a = from.dim, b = to.dim;
  dim_t size_a = 1, size_b = 1, stride_a = 0, stride_b = 0;
  for (;;) {
    while (size_a == 1 && a > 0) {
      size_a = from.sizes[--a];
      stride_a = from.strides[a];
    }
    while (size_b == 1 && b > 0) {
      size_b = to.sizes[--b];
      stride_b = to.strides[b];
    }
    if (size_a == 1 && size_b == 1) return true;
    const dim_t step = size_a < size_b ? size_a : size_b;
    if (step == 1 || size_a % step != 0 || size_b % step != 0) return false;
    from_split.insert_dim(0, step, stride_a);
    to_split.insert_dim(0, step, stride_b);
    size_a /= step;
    size_b /= step;
    stride_a *= step;
    stride_b *= step;
  }
}

// Both have the same number of elements.
static void move_reshaped(size_t element_size, const View& from, const View& to) {
  dim_t count = from.numel();
  if (count == 0) return;
  View from_split, to_split;
  if (split_alike(from, to, from_split, to_split)) return move_view(element_size, from_split, to_split);
  // Dense on both sides needs no common shape.
  const dim_t item = static_cast<dim_t>(element_size);
  const auto dense = [&](const View& view) {
    View row{view.data, 1, {count}, {item}}, split, flat;
    return split_alike(view, row, split, flat) && same_strides(split, flat);
  };
  if (dense(from) && dense(to)) {
    if (from.data != to.data) detail::move_bytes(to.data, from.data, static_cast<size_t>(count * item));
    return;
  }
  Elements source(from), target(to);
  while (count-- > 0) memmove(target.next(), source.next(), element_size);
}

// `size` with its -1 replaced.
static bool resolve_sizes(KernelContext& ctx, dim_t numel, IntArrayRef size, dim_t* sizes) {
  if (size.size() > static_cast<size_t>(kMaxDim))
    return ctx.refuse("result has {} dimensions, the limit is {}", size.size(), kMaxDim);
  int64_t known = 1;
  size_t open = size.size();
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] == -1 && open == size.size()) {
      open = d;
    } else if (size[d] < 0 || __builtin_mul_overflow(known, size[d], &known))
      return ctx.refuse("size {} in dimension {} of a reshape", size[d], d);
    sizes[d] = static_cast<dim_t>(size[d]);
  }
  if (open < size.size()) {
    if (known == 0 || numel % known != 0)
      return ctx.refuse("{} elements do not divide into groups of {}", numel, known);
    sizes[open] = static_cast<dim_t>(numel / known);
  } else if (known != numel)
    return ctx.refuse("{} elements cannot be viewed as {}", numel, known);
  return true;
}

void view_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef size, Tensor& out) {
  dim_t sizes[kMaxDim];
  if (!check_same_dtype(ctx, self, out) || !resolve_sizes(ctx, self.numel(), size, sizes)) return;
  if (!ctx.resize(out, {sizes, size.size()})) return;
  move_reshaped(out.element_size(), view_of(self), view_of(out));
}

// The first elements in row-major order; zeros where there are no more.
void resize_out(KernelContext& ctx, const Tensor& self, IntArrayRef size, Optional<MemoryFormat>,
                Tensor& out) {
  if (!check_same_dtype(ctx, self, out) || !resize_to(ctx, out, size)) return;
  Elements source(view_of(self)), target(view_of(out));
  for (dim_t i = 0; i < out.numel(); ++i) {
    static const char kZeros[16] = {};
    memmove(target.next(), i < self.numel() ? source.next() : kZeros, out.element_size());
  }
}

// The strides only describe the result of a view: a copy has its own.
void reshape_alias_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef size, IntArrayRef,
                            Tensor& out) {
  view_copy_out(ctx, self, size, out);
}

// The same bytes as elements of another type; the last dimension grows or
// shrinks with the elements' size.
void view_copy_dtype_out(KernelContext& ctx, const Tensor& self, ScalarType dtype, Tensor& out) {
  const dim_t from_size = static_cast<dim_t>(self.element_size());
  const dim_t to_size = static_cast<dim_t>(out.element_size());
  if (dtype != out.scalar_type())
    return ctx.fail("out has dtype {}, asked for {}", dtype_name(out.scalar_type()), dtype_name(dtype));
  View from = view_of(self);
  if (from_size == to_size) return move_to_out(ctx, from, out);
  View sizes = from;
  const int last = from.dim - 1;
  if (from.dim == 0 || (from_size < to_size && from.sizes[last] * from_size % to_size != 0))
    return ctx.fail("the last dimension of {} cannot be viewed as {}", dtype_name(self.scalar_type()),
                    dtype_name(dtype));
  sizes.sizes[last] = from.sizes[last] * from_size / to_size;
  if (!resize_to(ctx, out, sizes)) return;
  View to = view_of(out);
  // In units of the smaller of the two, the larger one is one more dimension.
  const dim_t unit = from_size < to_size ? from_size : to_size;
  from.insert_dim(from.dim, from_size / unit, unit);
  to.insert_dim(to.dim, to_size / unit, unit);
  move_reshaped(static_cast<size_t>(unit), from, to);
}

}  // namespace penlight::portable
