// Sort, argsort, topk, median, kthvalue and mode.
//
// Stable: among equals the first comes first. NaN is greater than everything.
#include "order.h"

namespace penlight::portable {

// A lane of a tensor along one dimension, whose elements lie `step` bytes apart.
struct Lane {
  ScalarType type;
  const char* data;
  dim_t length, step;

  void rank(dim_t first, dim_t count, bool descending, Ranked* to) const {
    rank_elements(type, data + first * step, step / static_cast<dim_t>(element_size(type)), first, count,
                  descending, to);
  }
};

// Of each lane the `count` elements that `choose(lane, ranked)` returns, which ranks them in `ranked`,
// with `room`: bit for bit, and their places. With a single one, the dimension may go. `values` may be null.
template <class Choose>
static void for_each_lane(KernelContext& ctx, const Tensor& self, int64_t dim, dim_t count, bool keepdim,
                          dim_t room, Tensor* values, Tensor& indices, Choose&& choose) {
  const int d = static_cast<int>(dim);
  View sizes = view_of(self);
  if (sizes.dim > 0) sizes.sizes[d] = count;
  if (sizes.dim > 0 && !keepdim) sizes.remove_dim(d);
  if ((values && !resize_to(ctx, *values, sizes)) || !resize_to(ctx, indices, sizes) || indices.numel() == 0)
    return;
  Ranked* const ranked = ctx.allocate_scratch_array<Ranked>(static_cast<size_t>(room));
  if (!ranked) return;
  // Views without the dimension.
  View views[] = {at_least_1d(self), at_least_1d(values ? *values : indices), at_least_1d(indices)};
  const dim_t length = views[0].sizes[d];
  dim_t steps[3] = {};
  const bool gone = views[2].dim < views[0].dim;
  for (int k = 0; k < (gone ? 1 : 3); ++k) {
    steps[k] = views[k].strides[d];
    views[k].remove_dim(d);
  }
  for_each_place({&views[0], &views[1], &views[2]}, views[0].dim, [&](char* const* at) {
    const Ranked* const chosen = choose(Lane{self.scalar_type(), at[0], length, steps[0]}, ranked);
    for (dim_t i = 0; i < count; ++i) detail::store_item<int64_t>(at[2] + i * steps[2], chosen[i].place);
    if (!values) return;
    detail::with_item(self.element_size(), [&](auto tag) {
      using Item = typename decltype(tag)::type;
      for (dim_t i = 0; i < count; ++i)
        detail::store_item(at[1] + i * steps[1], detail::load_item<Item>(at[0] + chosen[i].place * steps[0]));
    });
  });
}

static dim_t lane_length(const Tensor& self, int64_t dim) {
  return self.dim() == 0 ? 1 : self.size(static_cast<dim_t>(dim));
}

static bool check_order(KernelContext& ctx, const Tensor& self) {
  if (has_order(self.scalar_type())) return true;
  return ctx.refuse(Status::NotSupported, "elements of type {} have no order here",
                    dtype_name(self.scalar_type()));
}

static bool check_outs(KernelContext& ctx, const Tensor& self, const Tensor* values, const Tensor& indices) {
  if (values && !check_same_dtype(ctx, self, *values)) return false;
  if (indices.scalar_type() == ScalarType::Long) return check_order(ctx, self);
  return ctx.refuse("places are int64, out has dtype {}", dtype_name(indices.scalar_type()));
}

// `values` may be null.
static void sort(KernelContext& ctx, const Tensor& self, int64_t dim, bool descending, Tensor* values,
                 Tensor& indices) {
  if (!check_outs(ctx, self, values, indices) || !normalize_dim(ctx, dim, self.dim())) return;
  const dim_t length = lane_length(self, dim);
  const auto sorted = [=](const Lane& lane, Ranked* ranked) {
    lane.rank(0, length, descending, ranked);
    sort_ranked(ranked, ranked + length, length);
    return ranked;
  };
  for_each_lane(ctx, self, dim, length, true, 2 * length, values, indices, sorted);
}

void sort_values(KernelContext& ctx, const Tensor& self, int64_t dim, bool descending, Tensor& values,
                 Tensor& indices) {
  sort(ctx, self, dim, descending, &values, indices);
}

void sort_values_stable(KernelContext& ctx, const Tensor& self, Optional<bool>, int64_t dim, bool descending,
                        Tensor& values, Tensor& indices) {
  sort(ctx, self, dim, descending, &values, indices);
}

void argsort_stable_out(KernelContext& ctx, const Tensor& self, bool, int64_t dim, bool descending,
                        Tensor& out) {
  sort(ctx, self, dim, descending, nullptr, out);
}

// How many are looked at together to find the first `k` of a lane.
static dim_t room_for(dim_t k) { return k + (k < 64 ? 64 : k); }

// The first `k` of a lane in sorted order, at the start of `ranked`, which has twice as much room. What comes
// is ranked behind the best so far; of those that may be among them no more are kept than there is room for.
static void best_of_lane(const Lane& lane, dim_t k, bool descending, Ranked* ranked) {
  const dim_t room = room_for(k);
  Ranked* const spare = ranked + room;
  dim_t kept = 0;
  int64_t limit = 0;
  bool limited = false;
  for (dim_t first = 0, count = 0; k > 0 && first < lane.length; first += count) {
    count = lane.length - first < room - kept ? lane.length - first : room - kept;
    lane.rank(first, count, descending, ranked + kept);
    for (dim_t i = kept, end = kept + count; i < end; ++i) {
      const Ranked item = ranked[i];
      ranked[kept] = item;
      kept += !limited || item.key < limit;  // a later equal is not better
    }
    if (2 * (room - kept) > room - k) continue;
    select_first(ranked, spare, kept, k);
    kept = k;
    limit = ranked[k - 1].key;
    limited = true;
  }
  sort_ranked(ranked, spare, kept);
}

void topk_values(KernelContext& ctx, const Tensor& self, int64_t k, int64_t dim, bool largest, bool,
                 Tensor& values, Tensor& indices) {
  if (!check_outs(ctx, self, &values, indices) || !normalize_dim(ctx, dim, self.dim())) return;
  const dim_t length = lane_length(self, dim), count = static_cast<dim_t>(k);
  if (k < 0 || k > length) return ctx.fail("k is {}, dimension {} has size {}", k, dim, length);
  const auto best = [=](const Lane& lane, Ranked* ranked) {
    best_of_lane(lane, count, largest, ranked);
    return ranked;
  };
  for_each_lane(ctx, self, dim, count, true, 2 * room_for(count), &values, indices, best);
}

// The element that `choose(ranked, spare, length)` finds in each lane, whose elements it may reorder.
template <class Choose>
static void pick(KernelContext& ctx, const Tensor& self, int64_t dim, bool keepdim, Tensor& values,
                 Tensor& indices, Choose&& choose) {
  const dim_t length = lane_length(self, dim);
  const auto picked = [&](const Lane& lane, Ranked* ranked) {
    lane.rank(0, length, false, ranked);
    return choose(ranked, ranked + length, length);
  };
  for_each_lane(ctx, self, dim, 1, keepdim, 2 * length, &values, indices, picked);
}

static bool check_lane(KernelContext& ctx, const Tensor& self, int64_t& dim, const Tensor& values,
                       const Tensor& indices) {
  if (!check_outs(ctx, self, &values, indices) || !normalize_dim(ctx, dim, self.dim())) return false;
  if (self.dim() == 0 || self.size(dim) > 0) return true;
  return ctx.refuse("dimension {} has size 0", dim);
}

static const Ranked* select(Ranked* ranked, Ranked* spare, dim_t length, dim_t rank) {
  select_first(ranked, spare, length, rank + 1);
  return ranked + rank;
}

// The lower of two in the middle. NaN, if there is one; with `skip_nan`, of those that are numbers.
static const Ranked* middle(Ranked* ranked, Ranked* spare, dim_t length, bool floating, bool skip_nan) {
  dim_t numbers = length;
  for (dim_t i = 0; floating && i < length; ++i) numbers -= ranked[i].key == kNanKey ? 1 : 0;
  if (numbers < length && !skip_nan) return select(ranked, spare, length, numbers);
  return select(ranked, spare, length, numbers == 0 ? 0 : (numbers - 1) / 2);
}

void median_dim_values(KernelContext& ctx, bool skip_nan, const Tensor& self, int64_t dim, bool keepdim,
                       Tensor& values, Tensor& indices) {
  if (!check_lane(ctx, self, dim, values, indices)) return;
  const bool floating = is_floating(self.scalar_type());
  pick(ctx, self, dim, keepdim, values, indices, [=](Ranked* ranked, Ranked* spare, dim_t length) {
    return middle(ranked, spare, length, floating, skip_nan);
  });
}

void kthvalue_values(KernelContext& ctx, const Tensor& self, int64_t k, int64_t dim, bool keepdim,
                     Tensor& values, Tensor& indices) {
  if (!check_lane(ctx, self, dim, values, indices)) return;
  const dim_t length = lane_length(self, dim);
  if (k < 1 || k > length) return ctx.fail("k is {}, dimension {} has size {}", k, dim, length);
  pick(ctx, self, dim, keepdim, values, indices, [k](Ranked* ranked, Ranked* spare, dim_t all) {
    return select(ranked, spare, all, static_cast<dim_t>(k - 1));
  });
}

// The median of all elements: one number. `skip_nan`: of those that are numbers.
void median_out(KernelContext& ctx, bool skip_nan, const Tensor& self, Tensor& out) {
  if (!check_same_dtype(ctx, self, out) || !check_order(ctx, self) || !ctx.resize(out, SizesRef())) return;
  const dim_t length = self.numel();
  if (length == 0) {
    store_element(out.scalar_type(), out.data_ptr(), __builtin_nan(""));
    return;
  }
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * static_cast<size_t>(length));
  if (!ranked) return;
  rank_all(self, false, ranked);
  const bool floating = is_floating(self.scalar_type());
  const dim_t place = middle(ranked, ranked + length, length, floating, skip_nan)->place;
  memmove(out.data_ptr(), element_at(self, place), out.element_size());
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
    return static_cast<const Ranked*>(ranked + best);
  });
}

}  // namespace penlight::portable
