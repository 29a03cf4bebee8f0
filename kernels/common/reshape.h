// Moving elements in row-major order between tensors of different shapes.
#pragma once

#include "kernels/common/view.h"

namespace penlight {

namespace detail {

// Splits the dimensions of both views until they are the same, so that a Mover
// can take over: [6, 4] and [2, 3, 4] become [2, 3, 4]. False where no split
// does it, as for [4, 3] and [3, 4].
inline bool split_alike(const View& from, const View& to, View& from_split, View& to_split) {
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

}  // namespace detail

// Both have the same number of elements.
inline void move_reshaped(size_t element_size, const View& from, const View& to) {
  dim_t count = from.numel();
  if (count == 0) return;
  View from_split, to_split;
  if (detail::split_alike(from, to, from_split, to_split))
    return move_view(element_size, from_split, to_split);
  // Dense on both sides needs no common shape.
  const dim_t item = static_cast<dim_t>(element_size);
  const auto dense = [&](const View& view) {
    View row{view.data, 1, {count}, {item}}, split, flat;
    return detail::split_alike(view, row, split, flat) && same_strides(split, flat);
  };
  if (dense(from) && dense(to)) {
    if (from.data != to.data) detail::move_bytes(to.data, from.data, static_cast<size_t>(count * item));
    return;
  }
  Elements source(from), target(to);
  while (count-- > 0) memmove(target.next(), source.next(), element_size);
}

}  // namespace penlight
