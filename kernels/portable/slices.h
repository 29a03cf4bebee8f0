// Slices of a tensor along one of its dimensions, which a row of indices names.
#pragma once

#include "indexed.h"

namespace penlight::portable {

// Slices of `whole`, beside those of `other` in order. Both have at least one dimension.
struct Slices {
  View whole, other;
  Indexing named;

  // `values` null: there is no other to look at.
  bool prepare(KernelContext& ctx, const Tensor& of, int64_t dim, const Tensor& index, const Tensor* values,
               bool wraps = false) {
    int d;
    whole = at_least_1d(of);
    if (!wrap_dim(ctx, dim, of.dim(), d) || !named.prepare_slices(ctx, whole, d, index, wraps)) return false;
    const Shape sizes = named.sizes();
    other = at_least_1d(values ? *values : of);
    // A slice of size 1 may come without its dimension.
    if (other.numel() == 1 && whole.dim == 1) other.dim = 1;
    if (!values) other.strides[d] = 0;
    if (!values || sizes_of(other).equals(sizes)) return true;
    return ctx.refuse("values do not have the sizes of {} slices along dimension {}", index.numel(), d);
  }

  template <class Body>
  void for_each_block(KernelContext& ctx, Body&& body) const {
    named.for_each_block(ctx, other, body);
  }

  const View& whole_slice() const { return named.rest(); }
  View other_slice() const { return named.rest_of(other); }
};

}  // namespace penlight::portable
