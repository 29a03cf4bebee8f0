// Sort, argsort, topk, median, kthvalue and mode.
//
// Stable: among equals the first comes first. NaN is greater than everything.
#include "kernels/common/order.h"

namespace penlight::portable {

struct Lane {
  dim_t length, self_stride, value_stride, index_stride;

  Lane(const Tensor& self, int dim, const Tensor& values, const Tensor& indices) {
    const bool scalar = self.dim() == 0;
    const auto stride = [&](const Tensor& t) { return scalar || t.dim() == 0 ? dim_t{1} : t.stride(dim); };
    length = scalar ? 1 : self.size(dim);
    self_stride = stride(self);
    value_stride = stride(values);
    index_stride = stride(indices);
  }
};

// Writes the first `count` of `ranked`: the elements themselves, bit for bit, and their places.
static void write_lane(const Tensor& self, dim_t from, const Lane& lane, const Ranked* ranked, dim_t count,
                       Tensor* values, dim_t value_to, Tensor& indices, dim_t index_to) {
  for (dim_t i = 0; i < count; ++i) {
    if (values) {
      memmove(address(*values, value_to + i * lane.value_stride),
              address(self, from + ranked[i].place * lane.self_stride), self.element_size());
    }
    indices.data_ptr<int64_t>()[index_to + i * lane.index_stride] = ranked[i].place;
  }
}

static bool check_order(KernelContext& ctx, const Tensor& self) {
  const ScalarType type = self.scalar_type();
  if (is_floating(type) || type == ScalarType::Bool ||
      (type >= ScalarType::Byte && type <= ScalarType::Long)) {
    return true;
  }
  return ctx.refuse(Status::NotSupported, "elements of type {} have no order here", dtype_name(type));
}

static bool check_outs(KernelContext& ctx, const Tensor& self, const Tensor* values, const Tensor& indices) {
  if (values && !check_same_dtype(ctx, self, *values)) return false;
  if (indices.scalar_type() != ScalarType::Long) {
    ctx.fail(Status::InvalidArgument, "places are int64, out has dtype {}",
             dtype_name(indices.scalar_type()));
  }
  return check_order(ctx, self) && ctx.ok();
}

// `values` may be null.
static void sort(KernelContext& ctx, const Tensor& self, int64_t dim, bool descending, Tensor* values,
                 Tensor& indices) {
  if (!check_outs(ctx, self, values, indices) || !normalize_dim(ctx, dim, self.dim())) return;
  if (values && !ctx.resize(*values, self.sizes())) return;
  if (!ctx.resize(indices, self.sizes()) || self.numel() == 0) return;
  const int d = static_cast<int>(dim);
  const Tensor& first = values ? *values : indices;
  const Lane lane(self, d, first, indices);
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * static_cast<size_t>(lane.length));
  if (!ranked) return;
  for_each_lane(self, d, first, indices, [&](dim_t from, dim_t value_to, dim_t index_to) {
    rank_elements(self.scalar_type(), address(self, from), lane.self_stride, 0, lane.length, descending,
                  ranked);
    sort_ranked(ranked, ranked + lane.length, lane.length);
    write_lane(self, from, lane, ranked, lane.length, values, value_to, indices, index_to);
  });
}

void sort_values(KernelContext& ctx, const Tensor& self, int64_t dim, bool descending, Tensor& values,
                 Tensor& indices) {
  sort(ctx, self, dim, descending, &values, indices);
}

void sort_values_stable(KernelContext& ctx, const Tensor& self, Optional<bool>, int64_t dim, bool descending,
                        Tensor& values, Tensor& indices) {
  sort(ctx, self, dim, descending, &values, indices);
}

Tensor& argsort_stable_out(KernelContext& ctx, const Tensor& self, bool, int64_t dim, bool descending,
                           Tensor& out) {
  sort(ctx, self, dim, descending, nullptr, out);
  return out;
}

// A heap of the `k` best, the worst of them on top.
static void sift_down(Ranked* heap, dim_t k, dim_t at) {
  const Ranked item = heap[at];
  for (;;) {
    dim_t child = 2 * at + 1;
    if (child >= k) break;
    if (child + 1 < k && ranks_before(heap[child], heap[child + 1])) ++child;
    if (!ranks_before(item, heap[child])) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = item;
}

constexpr dim_t kTopBlock = 128;

// Of many, and not of too many for each of them, all are looked at together.
static bool selects(dim_t length, dim_t k) { return k > 32 && k >= length / 64; }

// The first `k` of a lane in sorted order, at the start of `ranked`, which has
// room for k and a block, or for two lanes.
static void best_of_lane(const Tensor& self, dim_t from, const Lane& lane, dim_t k, bool descending,
                         Ranked* ranked) {
  if (k == 0) return;
  Ranked* const block = ranked + k;
  const auto rank = [&](dim_t first, dim_t count, Ranked* to) {
    rank_elements(self.scalar_type(), address(self, from + first * lane.self_stride), lane.self_stride, first,
                  count, descending, to);
  };
  if (selects(lane.length, k)) {
    rank(0, lane.length, ranked);
    select_first(ranked, ranked + lane.length, lane.length, k);
    return sort_ranked(ranked, ranked + lane.length, k);
  }
  rank(0, k, ranked);
  for (dim_t at = k / 2; at-- > 0;) sift_down(ranked, k, at);
  for (dim_t first = k; first < lane.length; first += kTopBlock) {
    const dim_t count = lane.length - first < kTopBlock ? lane.length - first : kTopBlock;
    rank(first, count, block);
    for (dim_t i = 0; i < count; ++i) {
      if (block[i].key >= ranked[0].key) continue;  // a later equal is not better
      ranked[0] = block[i];
      sift_down(ranked, k, 0);
    }
  }
  // Heap sort, by place among equals.
  for (dim_t left = k; left > 1; --left) {
    const Ranked worst = ranked[0];
    ranked[0] = ranked[left - 1];
    sift_down(ranked, left - 1, 0);
    ranked[left - 1] = worst;
  }
}

void topk_values(KernelContext& ctx, const Tensor& self, int64_t k, int64_t dim, bool largest, bool,
                 Tensor& values, Tensor& indices) {
  if (!check_outs(ctx, self, &values, indices) || !normalize_dim(ctx, dim, self.dim())) return;
  const int d = static_cast<int>(dim);
  View sizes = view_of(self);
  const int64_t length = sizes.dim == 0 ? 1 : sizes.sizes[d];
  if (k < 0 || k > length) {
    ctx.fail(Status::InvalidArgument, "k is {}, dimension {} has size {}", k, d, length);
    return;
  }
  if (sizes.dim > 0) sizes.sizes[d] = static_cast<dim_t>(k);
  if (!resize_to(ctx, values, sizes) || !resize_to(ctx, indices, sizes) || values.numel() == 0) return;
  const Lane lane(self, d, values, indices);
  const dim_t count = static_cast<dim_t>(k);
  const dim_t room = selects(lane.length, count) ? 2 * lane.length : count + kTopBlock;
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(static_cast<size_t>(room));
  if (!ranked) return;
  for_each_lane(self, d, values, indices, [&](dim_t from, dim_t value_to, dim_t index_to) {
    best_of_lane(self, from, lane, count, largest, ranked);
    write_lane(self, from, lane, ranked, count, &values, value_to, indices, index_to);
  });
}

// The element that `choose(ranked, spare, length)` returns of each lane, whose elements it may reorder.
template <class Choose>
static void pick(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                 Tensor& indices, Choose&& choose) {
  const int d = static_cast<int>(dim);
  View sizes = view_of(self);
  if (sizes.dim > 0) sizes.sizes[d] = 1;
  View kept = sizes;
  if (!keepdim && sizes.dim > 0) kept.remove_dim(d);
  if (!resize_to(ctx, values, kept) || !resize_to(ctx, indices, kept) || values.numel() == 0) return;
  const dim_t length = self.dim() == 0 ? 1 : self.size(d), step = self.dim() == 0 ? 1 : self.stride(d);
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * static_cast<size_t>(length));
  if (!ranked) return;
  View value_view = view_of(values), index_view = view_of(indices);
  if (!keepdim && sizes.dim > 0) {
    value_view.insert_dim(d, 1, 0);
    index_view.insert_dim(d, 1, 0);
  }
  dim_t at[kMaxDim] = {};
  for (;;) {
    dim_t from = 0, value_to = 0, index_to = 0;  // the latter two in bytes
    for (int k = 0; k < sizes.dim; ++k) {
      if (k == d) continue;
      from += at[k] * self.stride(k);
      value_to += at[k] * value_view.strides[k];
      index_to += at[k] * index_view.strides[k];
    }
    rank_elements(self.scalar_type(), address(self, from), step, 0, length, false, ranked);
    const int64_t place = choose(ranked, ranked + length, length).place;
    memmove(value_view.data + value_to, address(self, from + static_cast<dim_t>(place) * step),
            self.element_size());
    memcpy(index_view.data + index_to, &place, sizeof place);
    int k = sizes.dim - 1;
    for (; k >= 0; --k) {
      if (k == d) continue;
      if (++at[k] < self.size(k)) break;
      at[k] = 0;
    }
    if (k < 0) return;
  }
}

static bool check_lane(KernelContext& ctx, const Tensor& self, int64_t& dim, const Tensor& values,
                       const Tensor& indices) {
  if (!check_outs(ctx, self, &values, indices) || !normalize_dim(ctx, dim, self.dim())) return false;
  if (self.dim() == 0 || self.size(dim) > 0) return true;
  return ctx.refuse(Status::InvalidArgument, "dimension {} has size 0", dim);
}

static Ranked select(Ranked* ranked, Ranked* spare, dim_t length, dim_t rank) {
  select_first(ranked, spare, length, rank + 1);
  return ranked[rank];
}

// The lower of two in the middle. NaN, if there is one; with `skip_nan`, of those that are numbers.
static Ranked middle(Ranked* ranked, Ranked* spare, dim_t length, bool floating, bool skip_nan) {
  dim_t numbers = length;
  for (dim_t i = 0; floating && i < length; ++i) numbers -= ranked[i].key == kNanKey ? 1 : 0;
  if (numbers < length && !skip_nan) return select(ranked, spare, length, numbers);
  return select(ranked, spare, length, numbers == 0 ? 0 : (numbers - 1) / 2);
}

void median_dim_values(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                       Tensor& indices) {
  if (!check_lane(ctx, self, dim, values, indices)) return;
  const bool floating = is_floating(self.scalar_type());
  pick(ctx, self, dim, keepdim, values, indices, [floating](Ranked* ranked, Ranked* spare, dim_t length) {
    return middle(ranked, spare, length, floating, false);
  });
}

void nanmedian_dim_values(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                          Tensor& indices) {
  if (!check_lane(ctx, self, dim, values, indices)) return;
  const bool floating = is_floating(self.scalar_type());
  pick(ctx, self, dim, keepdim, values, indices, [floating](Ranked* ranked, Ranked* spare, dim_t length) {
    return middle(ranked, spare, length, floating, true);
  });
}

void kthvalue_values(KernelContext& ctx, const Tensor& self, int64_t k, int64_t dim, bool keepdim,
                     Tensor& values, Tensor& indices) {
  if (!check_lane(ctx, self, dim, values, indices)) return;
  const int64_t length = self.dim() == 0 ? 1 : self.size(dim);
  if (k < 1 || k > length) {
    ctx.fail(Status::InvalidArgument, "k is {}, dimension {} has size {}", k, dim, length);
    return;
  }
  pick(ctx, self, dim, keepdim, values, indices, [k](Ranked* ranked, Ranked* spare, dim_t length) {
    return select(ranked, spare, length, static_cast<dim_t>(k - 1));
  });
}

// The median of all elements: one number. `skip_nan`: of those that are numbers.
static Tensor& median(KernelContext& ctx, const Tensor& self, bool skip_nan, Tensor& out) {
  if (!check_same_dtype(ctx, self, out) || !check_order(ctx, self) || !ctx.resize(out, SizesRef()))
    return out;
  const dim_t length = self.numel();
  if (length == 0) {
    store_element(out.scalar_type(), out.data_ptr(), __builtin_nan(""));
    return out;
  }
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * static_cast<size_t>(length));
  if (!ranked) return out;
  rank_all(self, false, ranked);
  const Ranked chosen = middle(ranked, ranked + length, length, is_floating(self.scalar_type()), skip_nan);
  memmove(out.data_ptr(), element_at(self, chosen.place), out.element_size());
  return out;
}

Tensor& median_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return median(ctx, self, false, out);
}

Tensor& nanmedian_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return median(ctx, self, true, out);
}

// The most frequent element, the smallest of several, at its last place.
void mode_values(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                 Tensor& indices) {
  if (!check_lane(ctx, self, dim, values, indices)) return;
  pick(ctx, self, dim, keepdim, values, indices, [](Ranked* ranked, Ranked* spare, dim_t length) {
    sort_ranked(ranked, spare, length);
    dim_t best = 0, most = 0;
    for (dim_t first = 0; first < length;) {
      dim_t last = first;
      while (last + 1 < length && ranked[last + 1].key == ranked[first].key) ++last;
      if (last + 1 - first > most) {
        most = last + 1 - first;
        best = last;
      }
      first = last + 1;
    }
    return ranked[best];
  });
}

}  // namespace penlight::portable
