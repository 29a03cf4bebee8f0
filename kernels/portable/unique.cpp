// Distinct elements or slices, where they went and how many there were.
//
// NaN is equal to nothing, so each one is distinct.
#include "order.h"

namespace penlight::portable {

// What is asked for, and where it goes: the distinct ones, the number of the one that each is, how many each
// is.
struct Results {
  bool places, counted;
  Tensor &values, &inverse, &counts;
};

// `ranked` holds `count` places in the order in which equals are neighbours. The result has `sizes`, but as
// many in dimension `d` as differ(item, the one before); put(group, place) writes each of them.
template <class Differ, class Put>
static void write_groups(KernelContext& ctx, Ranked* ranked, dim_t count, View sizes, int d,
                         SizesRef inverse_sizes, const Results& to, Differ&& differ, Put&& put) {
  dim_t groups = 0;
  Ranked before = {};
  for (dim_t i = 0; i < count; ++i) {
    const Ranked item = ranked[i];
    groups += i == 0 || differ(item, before);
    ranked[i].key = groups - 1;
    before = item;
  }
  const dim_t none = 0, counted = to.counted ? groups : 0;
  sizes.sizes[d] = groups;
  if (!resize_to(ctx, to.values, sizes) || !ctx.resize(to.counts, SizesRef(&counted, 1)) ||
      !ctx.resize(to.inverse, to.places ? inverse_sizes : SizesRef(&none, 1)))
    return;
  int64_t run = 0;
  for (dim_t i = 0; i < count; ++i) {
    const int64_t group = ranked[i].key;
    const bool begins = i == 0 || ranked[i - 1].key != group;
    if (begins) put(static_cast<dim_t>(group), ranked[i].place);
    run = begins ? 1 : run + 1;
    if (to.counted) detail::store_item(element_at(to.counts, static_cast<dim_t>(group)), run);
    if (to.places) detail::store_item(element_at(to.inverse, ranked[i].place), group);
  }
}

static bool check_unique(KernelContext& ctx, const Tensor& self, const Results& to) {
  const bool places =
      to.inverse.scalar_type() == ScalarType::Long && to.counts.scalar_type() == ScalarType::Long;
  return check_same_dtype(ctx, self, to.values) &&
         check(ctx, has_order(self.scalar_type()) && places, "unique takes real numbers, gives int64");
}

static void unique(KernelContext& ctx, const Tensor& self, bool sorts, const Results& to) {
  if (!check_unique(ctx, self, to)) return;
  const dim_t count = self.numel();
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * static_cast<size_t>(count) + 1);
  if (!ranked) return;
  rank_all(self, false, ranked);
  if (sorts) sort_ranked(ranked, ranked + count, count);
  const bool floating = is_floating(self.scalar_type());
  const auto differ = [=](const Ranked& item, const Ranked& before) {
    return item.key != before.key || (floating && item.key == kNanKey);
  };
  const auto put = [&](dim_t group, dim_t place) {
    memmove(element_at(to.values, group), element_at(self, place), self.element_size());
  };
  write_groups(ctx, ranked, count, View{nullptr, 1, {}, {}}, 0, self.sizes(), to, differ, put);
}

namespace {

// Slices along one dimension. Each is known by where it begins in that dimension.
struct Slices {
  View rest;
  ScalarType type;
  dim_t count, stride, length;  // the stride in bytes; a length is that of each, in elements

  Slices(const Tensor& self, int dim) : rest(view_of(self)), type(self.scalar_type()) {
    count = self.size(dim);
    stride = self.stride(dim) * static_cast<dim_t>(self.element_size());
    rest.remove_dim(dim);
    length = rest.numel();
  }

  View at(dim_t slice) const {
    View view = rest;
    view.data += slice * stride;
    return view;
  }

  // The key of one element, by its place in row-major order.
  int64_t key(dim_t slice, dim_t place) const {
    const char* data = rest.data + slice * stride;
    for (int d = rest.dim; d-- > 0;) {
      data += place % rest.sizes[d] * rest.strides[d];
      place /= rest.sizes[d];
    }
    Ranked ranked;
    rank_elements(type, data, 1, 0, 1, false, &ranked);
    return ranked.key;
  }

  bool equal(dim_t a, dim_t b) const {
    const bool floating = is_floating(type);
    for (dim_t i = 0; i < length; ++i) {
      const int64_t first = key(a, i);
      if (first != key(b, i) || (floating && first == kNanKey)) return false;
    }
    return true;
  }
};

}  // namespace

static void unique_slices(KernelContext& ctx, const Tensor& self, int64_t dim, bool sorts, Results to) {
  int d;
  if (!check_unique(ctx, self, to) || !wrap_dim(ctx, dim, self.dim(), d)) return;
  if (!check(ctx, self.dim() > 0, "unique takes slices of a tensor with dimensions")) return;
  const Slices slices(self, d);
  const dim_t count = slices.count;
  if (!check(ctx, count == 0 || slices.length != 0, "slices without elements cannot be told apart")) return;
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * static_cast<size_t>(count) + 1);
  if (!ranked) return;
  for (dim_t i = 0; i < count; ++i) ranked[i].place = i;
  // By the last element first: sorting keeps the order of equals.
  for (dim_t place = sorts ? slices.length : 0; place-- > 0;) {
    for (dim_t i = 0; i < count; ++i) ranked[i].key = slices.key(ranked[i].place, place);
    sort_ranked(ranked, ranked + count, count);
  }
  // ATen gives both when there is a dimension, even where they are not asked for.
  to.places |= to.inverse.numel() != 0;
  to.counted |= to.counts.numel() != 0;
  const auto differ = [&](const Ranked& item, const Ranked& before) {
    return !slices.equal(item.place, before.place);
  };
  const auto put = [&](dim_t group, dim_t place) {
    move_view(self.element_size(), slices.at(place), Slices(to.values, d).at(group));
  };
  write_groups(ctx, ranked, count, view_of(self), d, SizesRef(&count, 1), to, differ, put);
}

void unique2_out(KernelContext& ctx, const Tensor& self, bool, bool return_inverse, bool return_counts,
                 Tensor& out0, Tensor& out1, Tensor& out2) {
  unique(ctx, self, true, {return_inverse, return_counts, out0, out1, out2});
}

void unique_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool, bool return_inverse,
                    bool return_counts, Tensor& out0, Tensor& out1, Tensor& out2) {
  unique_slices(ctx, self, dim, true, {return_inverse, return_counts, out0, out1, out2});
}

void unique_consecutive_out(KernelContext& ctx, const Tensor& self, bool return_inverse, bool return_counts,
                            Optional<int64_t> dim, Tensor& out0, Tensor& out1, Tensor& out2) {
  const Results to{return_inverse, return_counts, out0, out1, out2};
  if (dim && self.dim() > 0) return unique_slices(ctx, self, dim.value(), false, to);
  unique(ctx, self, false, to);
}

}  // namespace penlight::portable
