// Joining and taking apart: cat, stack, split, unbind, repeat, roll, flip.
#include "kernels/common/elementwise.h"
#include "kernels/common/view.h"
#include "likeness.h"

namespace penlight::portable {

// Into the part of `out` that begins at `start` in dimension `d`, of another element type.
static void convert_part(KernelContext& ctx, const Tensor& from, const Tensor& out, int d, dim_t start) {
  Likeness part(out);
  part.impl.data = address(out, start * out.stride(d));
  part.sizes[d] = from.size(d);
  part.impl.numel = from.numel();
  map<Domain::Number>(ctx, kConvert, part.tensor, from);
}

void cat_out(KernelContext& ctx, TensorList tensors, int64_t dim, Tensor& out) {
  if (tensors.empty()) return ctx.fail("cat takes at least one tensor");
  size_t first = 0;
  while (first + 1 < tensors.size() && is_skipped(tensors[first])) ++first;
  View sizes = view_of(tensors[first]);
  int d;
  if (sizes.dim == 0) return ctx.fail("cat takes tensors with dimensions, number {} has none", first);
  if (!wrap_dim(ctx, dim, sizes.dim, d)) return;
  dim_t length = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (is_complex(tensors[i].scalar_type()) && !is_complex(out.scalar_type())) {
      check_same_dtype(ctx, tensors[i], out);
      return;
    }
    if (is_skipped(tensors[i])) continue;
    bool fits = tensors[i].dim() == sizes.dim;
    for (int k = 0; fits && k < sizes.dim; ++k) fits = k == d || tensors[i].size(k) == sizes.sizes[k];
    if (!fits)
      return ctx.fail("cat: sizes of tensor {} differ from those of tensor {} outside dimension {}", i, first,
                      d);
    length += tensors[i].size(d);
  }
  sizes.sizes[d] = length;
  if (!resize_to(ctx, out, sizes)) return;
  const View whole = view_of(out);
  dim_t start = 0;
  for (const Tensor& tensor : tensors) {
    if (is_skipped(tensor)) continue;
    if (tensor.scalar_type() == out.scalar_type()) {
      move_view(out.element_size(), view_of(tensor), part_of(whole, d, start, tensor.size(d)));
    } else {
      convert_part(ctx, tensor, out, d, start);
    }
    start += tensor.size(d);
  }
}

void stack_out(KernelContext& ctx, TensorList tensors, int64_t dim, Tensor& out) {
  if (tensors.empty()) return ctx.fail("stack takes at least one tensor");
  View sizes = view_of(tensors[0]);
  int d;
  if (!wrap_dim(ctx, dim, sizes.dim + 1, d)) return;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!check_same_dtype(ctx, tensors[i], out)) return;
    if (!tensors[i].sizes().equals(tensors[0].sizes()))
      return ctx.fail("stack: sizes of tensor {} differ from those of the first", i);
  }
  sizes.insert_dim(d, static_cast<dim_t>(tensors.size()), 0);
  if (sizes.dim > kMaxDim) return ctx.fail("result has {} dimensions, the limit is {}", sizes.dim, kMaxDim);
  if (!resize_to(ctx, out, sizes)) return;
  View slot = view_of(out);
  const dim_t stride = slot.strides[d];
  slot.remove_dim(d);
  for (const Tensor& tensor : tensors) {
    move_view(out.element_size(), view_of(tensor), slot);
    slot.data += stride;
  }
}

// Fills out[i] with part(i), a view of self.
template <class Part>
static void split(KernelContext& ctx, const Tensor& self, TensorList out, Part&& part) {
  for (size_t i = 0; i < out.size() && ctx.ok(); ++i) {
    Tensor to = out[i];
    if (check_same_dtype(ctx, self, to)) move_to_out(ctx, part(i), to);
  }
}

static bool check_parts(KernelContext& ctx, const Tensor& self, size_t parts, TensorList out) {
  if (!check(ctx, self.dim() > 0, "a tensor without dimensions cannot be split")) return false;
  if (parts == out.size()) return true;
  return ctx.refuse("the input splits into {} parts, {} outputs are given", parts, out.size());
}

void split_copy_tensor_out(KernelContext& ctx, const Tensor& self, int64_t split_size, int64_t dim,
                           TensorList out) {
  int d;
  if (!wrap_dim(ctx, dim, self.dim(), d)) return;
  const int64_t size = self.dim() == 0 ? 1 : self.size(d);
  if (split_size < 0 || (split_size == 0 && size != 0))
    return ctx.fail("split size {} for a dimension of size {}", split_size, size);
  const int64_t parts = size == 0 ? 1 : (size - 1) / split_size + 1;
  if (!check_parts(ctx, self, static_cast<size_t>(parts), out)) return;
  split(ctx, self, out, [&](size_t i) {
    const int64_t start = static_cast<int64_t>(i) * split_size, rest = size - start;
    return part_of(view_of(self), d, static_cast<dim_t>(start),
                   static_cast<dim_t>(rest < split_size ? rest : split_size));
  });
}

void split_with_sizes_copy_out(KernelContext& ctx, const Tensor& self, IntArrayRef sizes, int64_t dim,
                               TensorList out) {
  int d;
  if (!wrap_dim(ctx, dim, self.dim(), d) || !check_parts(ctx, self, sizes.size(), out)) return;
  int64_t rest = self.size(d);
  for (int64_t size : sizes) rest = size < 0 || size > rest ? -1 : rest - size;
  if (rest != 0)
    return ctx.fail("split sizes do not add up to {}, the size of dimension {}", self.size(d), d);
  dim_t start = 0;
  split(ctx, self, out, [&](size_t i) {
    const dim_t length = static_cast<dim_t>(sizes[i]);
    start += length;
    return part_of(view_of(self), d, start - length, length);
  });
}

void unbind_copy_int_out(KernelContext& ctx, const Tensor& self, int64_t dim, TensorList out) {
  int d;
  if (!wrap_dim(ctx, dim, self.dim(), d)) return;
  if (!check_parts(ctx, self, self.dim() == 0 ? 0 : static_cast<size_t>(self.size(d)), out)) return;
  split(ctx, self, out,
        [&](size_t i) { return without_dim(part_of(view_of(self), d, static_cast<dim_t>(i), 1), d); });
}

void repeat_out(KernelContext& ctx, const Tensor& self, IntArrayRef repeats, Tensor& out) {
  View from = view_of(self);
  const int rank = static_cast<int>(repeats.size());
  if (!check_same_dtype(ctx, self, out)) return;
  if (rank < from.dim || rank > kMaxDim)
    return ctx.fail("{} repeats given for a tensor with {} dimensions", rank, from.dim);
  while (from.dim < rank) from.insert_dim(0, 1, 0);
  View sizes = from;
  for (int d = 0; d < rank; ++d) {
    const int64_t count = repeats[static_cast<size_t>(d)];
    if (count < 0 || __builtin_mul_overflow(from.sizes[d], static_cast<dim_t>(count), &sizes.sizes[d]))
      return ctx.fail("{} repeats of dimension {}", count, d);
  }
  if (!resize_to(ctx, out, sizes)) return;
  // Each dimension as [times, size]: the input does not move along the first.
  View to = view_of(out);
  for (int d = rank; d-- > 0;) {
    const dim_t times = static_cast<dim_t>(repeats[static_cast<size_t>(d)]);
    from.insert_dim(d, times, 0);
    to.sizes[d] = from.sizes[d + 1];
    to.insert_dim(d, times, to.strides[d] * from.sizes[d + 1]);
  }
  move_view(out.element_size(), from, to);
}

void flip_out(KernelContext& ctx, const Tensor& self, IntArrayRef dims, Tensor& out) {
  return copy_view(ctx, self, out, [&](View& view) {
    uint32_t seen = 0;
    for (int64_t dim : dims) {
      int d;
      if (!take_dim(ctx, dim, view.dim, seen, d)) return false;
      if (view.dim == 0 || self.numel() == 0) continue;
      view.data += (view.sizes[d] - 1) * view.strides[d];
      view.strides[d] = -view.strides[d];
    }
    return true;
  });
}

// Shifts [0, size) of dimension `d` and of those after it: two parts for each.
static void roll_from(size_t element_size, const dim_t* shifts, int d, const View& from, const View& to) {
  while (d < from.dim && shifts[d] == 0) ++d;
  if (d == from.dim) return move_view(element_size, from, to);
  const dim_t size = from.sizes[d], shift = shifts[d];
  roll_from(element_size, shifts, d + 1, part_of(from, d, 0, size - shift),
            part_of(to, d, shift, size - shift));
  roll_from(element_size, shifts, d + 1, part_of(from, d, size - shift, shift), part_of(to, d, 0, shift));
}

void roll_out(KernelContext& ctx, const Tensor& self, IntArrayRef shifts, IntArrayRef dims, Tensor& out) {
  if (!check_same_dtype(ctx, self, out)) return;
  const bool flat = dims.empty() && shifts.size() == 1;
  if (!flat && shifts.size() != dims.size())
    return ctx.fail("roll takes as many shifts as dimensions, got {} and {}", shifts.size(), dims.size());
  View from = view_of(self);
  if (!resize_to(ctx, out, from)) return;
  if (self.numel() == 0) return;
  View to = view_of(out);
  if (flat) {
    const int64_t count = self.numel();
    const size_t item = out.element_size();
    Elements source(from), target(to, static_cast<dim_t>((shifts[0] % count + count) % count));
    for (int64_t i = 0; i < count; ++i) memmove(target.next(), source.next(), item);
    return;
  }
  dim_t by[kMaxViewDim] = {};
  for (size_t i = 0; i < dims.size(); ++i) {
    int d;
    if (!wrap_dim(ctx, dims[i], from.dim, d)) return;
    if (from.dim == 0) continue;
    const int64_t size = from.sizes[d];
    by[d] = static_cast<dim_t>(((by[d] + shifts[i] % size) % size + size) % size);
  }
  roll_from(out.element_size(), by, 0, from, to);
}

}  // namespace penlight::portable
