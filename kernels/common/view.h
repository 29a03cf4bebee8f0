// A window onto a tensor's elements, and what kernels that only move them share.
#pragma once

#include "kernels/common/broadcast.h"
#include "kernels/common/checks.h"
#include "kernels/common/move.h"

namespace penlight {

// Strides are in bytes, so that a view may also take elements apart.
struct View {
  char* data;
  int dim;
  dim_t sizes[kMaxViewDim];
  dim_t strides[kMaxViewDim];

  void insert_dim(int at, dim_t size, dim_t stride) {
    for (int d = dim++; d > at; --d) {
      sizes[d] = sizes[d - 1];
      strides[d] = strides[d - 1];
    }
    sizes[at] = size;
    strides[at] = stride;
  }

  void remove_dim(int at) {
    --dim;
    for (int d = at; d < dim; ++d) {
      sizes[d] = sizes[d + 1];
      strides[d] = strides[d + 1];
    }
  }

  dim_t numel() const {
    dim_t count = 1;
    for (int d = 0; d < dim; ++d) count *= sizes[d];
    return count;
  }
};

inline View without_dim(View view, int d) {
  view.remove_dim(d);
  return view;
}

inline View view_of(const Tensor& tensor) {
  View view;
  view.data = static_cast<char*>(tensor.data_ptr());
  view.dim = static_cast<int>(tensor.dim());
  const dim_t item = static_cast<dim_t>(tensor.element_size());
  for (int d = 0; d < view.dim; ++d) {
    view.sizes[d] = tensor.size(d);
    view.strides[d] = tensor.stride(d) * item;
  }
  return view;
}

// A tensor without dimensions is taken as having one of size 1.
inline View at_least_1d(const Tensor& tensor) {
  View view = view_of(tensor);
  if (view.dim == 0) view.insert_dim(0, 1, 0);
  return view;
}

// Calls body(addresses) at each position of the first `dims` dimensions, in row-major order: where it is in
// each view. The views have the same sizes there, but those of the first count.
template <size_t count, class Body>
inline void for_each_place(const View* const (&views)[count], int dims, Body&& body) {
  char* here[count];
  for (size_t k = 0; k < count; ++k) here[k] = views[k]->data;
  const dim_t* const sizes = views[0]->sizes;
  for (int d = 0; d < dims; ++d) {
    if (sizes[d] == 0) return;
  }
  dim_t at[kMaxViewDim] = {};
  for (int d = 0; d >= 0;) {
    body(static_cast<char* const*>(here));
    for (d = dims - 1; d >= 0; at[d--] = 0) {
      const bool inside = ++at[d] < sizes[d];
      const dim_t steps = inside ? 1 : 1 - sizes[d];
      for (size_t k = 0; k < count; ++k) here[k] += views[k]->strides[d] * steps;
      if (inside) break;
    }
  }
}

// Addresses of elements in row-major order, from the one at `first` on; after the last comes the first.
class Elements {
 public:
  explicit Elements(const View& view, dim_t first = 0) : view_(view), here_(view.data), at_{} {
    for (int d = view.dim; d-- > 0 && first > 0; first /= view.sizes[d]) {
      at_[d] = first % view.sizes[d];
      here_ += at_[d] * view.strides[d];
    }
  }

  char* next() {
    char *const element = here_, *here = here_;
    for (int d = view_.dim; d-- > 0;) {
      here += view_.strides[d];
      if (++at_[d] < view_.sizes[d]) break;
      here -= view_.strides[d] * view_.sizes[d];
      at_[d] = 0;
    }
    here_ = here;
    return element;
  }

 private:
  View view_;
  char* here_;
  dim_t at_[kMaxViewDim];
};

// For views of the same sizes; the stride of a dimension of size 1 is not used.
inline bool same_strides(const View& a, const View& b) {
  for (int d = 0; d < a.dim; ++d) {
    if (a.strides[d] != b.strides[d] && a.sizes[d] != 1) return false;
  }
  return true;
}

// The part that begins at `start` in dimension `d` and has `length` there.
inline View part_of(const View& whole, int d, dim_t start, dim_t length) {
  View part = whole;
  part.data += start * whole.strides[d];
  part.sizes[d] = length;
  return part;
}

// Elements of `element_size` bytes from one view to another of the same sizes.
inline void move_view(size_t element_size, const View& from, const View& to) {
  // `out` may be given the memory of a dead input: nothing to move then.
  if (from.data == to.data && same_strides(from, to)) return;
  Mover(element_size, from.dim, from.sizes, from.strides, to.strides).run(from.data, to.data);
}

inline SizesRef sizes_of(const View& view) { return {view.sizes, static_cast<size_t>(view.dim)}; }

inline bool resize_to(KernelContext& ctx, Tensor& out, const View& view) {
  return ctx.resize(out, sizes_of(view));
}

// Gives `out` the sizes of `from`, if it can have so many.
inline bool take_sizes(KernelContext& ctx, const View& from, Tensor& out) {
  if (from.dim > kMaxDim) return ctx.refuse("result has {} dimensions, the limit is {}", from.dim, kMaxDim);
  return resize_to(ctx, out, from);
}

// Gives `out` the sizes of `from`, a view of elements of out's dtype, and fills it.
inline void move_to_out(KernelContext& ctx, const View& from, Tensor& out) {
  if (take_sizes(ctx, from, out)) move_view(out.element_size(), from, view_of(out));
}

// The same of the view that `change` makes of self's: false, with the failure recorded, where there is none.
template <class Change>
inline void copy_view(KernelContext& ctx, const Tensor& self, Tensor& out, Change&& change) {
  View view = view_of(self);
  if (check_same_dtype(ctx, self, out) && change(view)) move_to_out(ctx, view, out);
}

// Makes `out` the same as `self`, to be changed in part.
inline bool copy_whole(KernelContext& ctx, const Tensor& self, Tensor& out) {
  copy_view(ctx, self, out, [](View&) { return true; });
  return ctx.ok();
}

// Views of views. Each changes `view` and returns true, or fails.

inline bool select_view(KernelContext& ctx, View& view, int64_t dim, int64_t index) {
  int d;
  dim_t at;
  if (view.dim == 0) return ctx.refuse("select takes a tensor with dimensions");
  if (!wrap_dim(ctx, dim, view.dim, d) || !wrap_index(ctx, index, d, view.sizes[d], at)) return false;
  view.data += at * view.strides[d];
  view.remove_dim(d);
  return true;
}

inline bool permute_view(KernelContext& ctx, View& view, IntArrayRef dims) {
  const View whole = view;
  if (dims.size() != static_cast<size_t>(whole.dim))
    return ctx.refuse("{} dimensions given for a tensor that has {}", dims.size(), whole.dim);
  uint32_t seen = 0;
  for (int d = 0; d < whole.dim; ++d) {
    int from;
    if (!take_dim(ctx, dims[static_cast<size_t>(d)], whole.dim, seen, from)) return false;
    view.sizes[d] = whole.sizes[from];
    view.strides[d] = whole.strides[from];
  }
  return true;
}

inline bool transpose_view(KernelContext& ctx, View& view, int64_t dim0, int64_t dim1) {
  int a, b;
  if (!wrap_dim(ctx, dim0, view.dim, a) || !wrap_dim(ctx, dim1, view.dim, b)) return false;
  const View whole = view;
  if (view.dim > 0) {
    view.sizes[a] = whole.sizes[b];
    view.strides[a] = whole.strides[b];
    view.sizes[b] = whole.sizes[a];
    view.strides[b] = whole.strides[a];
  }
  return true;
}

inline bool slice_view(KernelContext& ctx, View& view, int64_t dim, Optional<int64_t> start,
                       Optional<int64_t> end, int64_t step) {
  int d;
  if (view.dim == 0 || step <= 0)
    return ctx.refuse("slice takes a tensor with dimensions and a positive step, got {} and {}", view.dim,
                      step);
  if (!wrap_dim(ctx, dim, view.dim, d)) return false;
  const int64_t size = view.sizes[d];
  int64_t first = start.value_or(0), last = end.value_or(size);
  if (first < 0) first += size;
  if (last < 0) last += size;
  first = first < 0 ? 0 : first > size ? size : first;
  last = last < first ? first : last > size ? size : last;
  const int64_t count = (last - first) / step + ((last - first) % step != 0);
  view.sizes[d] = static_cast<dim_t>(count);
  view.data += static_cast<dim_t>(first) * view.strides[d];
  if (count > 1) view.strides[d] *= static_cast<dim_t>(step);
  return true;
}

// Broadcasts to `size`, in which -1 stands for the size there is.
template <class Int>
inline bool expand_view(KernelContext& ctx, View& view, ArrayRef<Int> size) {
  const int rank = static_cast<int>(size.size());
  if (rank < view.dim || rank > kMaxDim)
    return ctx.refuse("a tensor with {} dimensions cannot be expanded to {}", view.dim, rank);
  while (view.dim < rank) view.insert_dim(0, -1, 0);
  for (int d = 0; d < rank; ++d) {
    const int64_t wanted = size[static_cast<size_t>(d)];
    const bool keep = wanted == -1 && view.sizes[d] >= 0;
    if (keep || wanted == view.sizes[d]) continue;
    if (wanted < 0 || (view.sizes[d] >= 0 && view.sizes[d] != 1))
      return ctx.refuse("dimension {} has size {} and cannot be expanded to {}", d, view.sizes[d], wanted);
    view.sizes[d] = static_cast<dim_t>(wanted);
    view.strides[d] = 0;
  }
  return true;
}

inline bool diagonal_view(KernelContext& ctx, View& view, int64_t offset, int64_t dim1, int64_t dim2) {
  int a, b;
  if (!wrap_dim(ctx, dim1, view.dim, a) || !wrap_dim(ctx, dim2, view.dim, b)) return false;
  if (view.dim < 2 || a == b)
    return ctx.refuse("a diagonal needs two different dimensions, got {} and {} of {}", dim1, dim2, view.dim);
  const int64_t rows = offset < 0 ? view.sizes[a] + offset : view.sizes[a];
  const int64_t columns = offset < 0 ? view.sizes[b] : view.sizes[b] - offset;
  const int64_t shorter = rows < columns ? rows : columns;
  const dim_t size = static_cast<dim_t>(shorter > 0 ? shorter : 0);
  const dim_t stride = view.strides[a] + view.strides[b];
  if (size > 0) {
    view.data += offset < 0 ? static_cast<dim_t>(-offset) * view.strides[a]
                            : static_cast<dim_t>(offset) * view.strides[b];
  }
  view.remove_dim(a > b ? a : b);
  view.remove_dim(a > b ? b : a);
  view.insert_dim(view.dim, size, stride);
  return true;
}

// Refuses what would reach outside the tensor's own elements.
inline bool as_strided_view(KernelContext& ctx, const Tensor& self, IntArrayRef size, IntArrayRef stride,
                            Optional<int64_t> storage_offset, View& view) {
  const dim_t item = static_cast<dim_t>(self.element_size());
  const int64_t offset = storage_offset.value_or(0);
  if (size.size() != stride.size() || size.size() > static_cast<size_t>(kMaxDim) || offset < 0)
    return ctx.refuse("as_strided with {} sizes, {} strides, offset {}", size.size(), stride.size(), offset);
  const uint64_t limit = static_cast<uint64_t>(self.numel());
  uint64_t last = static_cast<uint64_t>(offset);
  bool empty = false, inside = true;
  view.dim = static_cast<int>(size.size());
  for (size_t d = 0; d < size.size(); ++d) {
    if (size[d] < 0 || stride[d] < 0)
      return ctx.refuse("as_strided with size {} and stride {}", size[d], stride[d]);
    view.sizes[d] = static_cast<dim_t>(size[d]);
    view.strides[d] = 0;
    empty |= size[d] == 0;
    if (size[d] > 1 && stride[d] > 0) {
      // Compared by division: the product may not fit.
      const uint64_t steps = static_cast<uint64_t>(size[d] - 1), width = static_cast<uint64_t>(stride[d]);
      inside = inside && steps <= limit / width;
      last += inside ? steps * width : 0;
      if (inside) view.strides[d] = static_cast<dim_t>(stride[d]) * item;
    }
  }
  if (!empty && (!inside || last >= limit))
    return ctx.refuse("as_strided reaches element {} of a tensor with {}", last, limit);
  view.data = static_cast<char*>(self.data_ptr()) + (empty ? 0 : static_cast<dim_t>(offset) * item);
  return true;
}

}  // namespace penlight
