// Distinct elements or slices, where they went and how many there were.
//
// NaN is equal to nothing, so each one is distinct.
#include "kernels/common/order.h"

namespace penlight::portable {

// `ranked` holds `count` elements in the order in which equals are neighbours.
static void write_groups(KernelContext& ctx, const Tensor& self, const Ranked* ranked, bool return_inverse,
                         bool return_counts, Tensor& values, Tensor& inverse, Tensor& counts) {
  const dim_t count = self.numel();
  const bool floating = is_floating(self.scalar_type());
  const auto begins = [&](dim_t i) {
    return i == 0 || ranked[i].key != ranked[i - 1].key || (floating && ranked[i].key == kNanKey);
  };
  dim_t groups = 0;
  for (dim_t i = 0; i < count; ++i) groups += begins(i);
  const dim_t none = 0, counted = return_counts ? groups : 0;
  if (!ctx.resize(values, SizesRef(&groups, 1)) || !ctx.resize(counts, SizesRef(&counted, 1))) return;
  if (!ctx.resize(inverse, return_inverse ? self.sizes() : SizesRef(&none, 1))) return;
  const View to = view_of(values);
  dim_t group = -1;
  for (dim_t i = 0; i < count; ++i) {
    if (begins(i)) {
      ++group;
      memmove(to.data + group * to.strides[0], element_at(self, ranked[i].place), self.element_size());
      if (return_counts) counts.data_ptr<int64_t>()[group * counts.stride(0)] = 0;
    }
    if (return_counts) ++counts.data_ptr<int64_t>()[group * counts.stride(0)];
    if (return_inverse) {
      const int64_t number = group;
      memcpy(const_cast<char*>(element_at(inverse, ranked[i].place)), &number, sizeof number);
    }
  }
}

static bool check_unique(KernelContext& ctx, const Tensor& self, const Tensor& values, const Tensor& inverse,
                         const Tensor& counts) {
  const ScalarType type = self.scalar_type();
  const bool ordered = is_floating(type) || type == ScalarType::Bool || is_integral(type);
  const bool places = inverse.scalar_type() == ScalarType::Long && counts.scalar_type() == ScalarType::Long;
  return check_same_dtype(ctx, self, values) &&
         check(ctx, ordered && places, "unique takes real numbers, gives int64");
}

static void unique(KernelContext& ctx, const Tensor& self, bool sorts, bool return_inverse,
                   bool return_counts, Tensor& values, Tensor& inverse, Tensor& counts) {
  if (!check_unique(ctx, self, values, inverse, counts)) return;
  const size_t count = static_cast<size_t>(self.numel());
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * count + 1);
  if (!ranked) return;
  rank_all(self, false, ranked);
  if (sorts) sort_ranked(ranked, ranked + count, self.numel());
  write_groups(ctx, self, ranked, return_inverse, return_counts, values, inverse, counts);
}

namespace {

// Slices along one dimension. Each is known by where it begins in that dimension.
class Slices {
 public:
  Slices(const Tensor& self, int dim) : rest_(view_of(self)), type_(self.scalar_type()) {
    count_ = self.size(dim);
    stride_ = self.stride(dim) * static_cast<dim_t>(self.element_size());
    rest_.remove_dim(dim);
    length_ = rest_.numel();
  }
  dim_t count() const { return count_; }
  dim_t length() const { return length_; }  // elements in each

  View at(dim_t slice) const {
    View view = rest_;
    view.data += slice * stride_;
    return view;
  }

  // The key of one element, by its place in row-major order.
  int64_t key(dim_t slice, dim_t place) const {
    const char* data = rest_.data + slice * stride_;
    for (int d = rest_.dim; d-- > 0;) {
      data += place % rest_.sizes[d] * rest_.strides[d];
      place /= rest_.sizes[d];
    }
    Ranked ranked;
    rank_elements(type_, data, 1, 0, 1, false, &ranked);
    return ranked.key;
  }

  bool equal(dim_t a, dim_t b) const {
    const bool floating = is_floating(type_);
    for (dim_t i = 0; i < length_; ++i) {
      const int64_t first = key(a, i);
      if (first != key(b, i) || (floating && first == kNanKey)) return false;
    }
    return true;
  }

 private:
  View rest_;
  ScalarType type_;
  dim_t count_, stride_, length_;
};

}  // namespace

static void unique_slices(KernelContext& ctx, const Tensor& self, int64_t dim, bool sorts,
                          bool return_inverse, bool return_counts, Tensor& values, Tensor& inverse,
                          Tensor& counts) {
  int d;
  if (!check_unique(ctx, self, values, inverse, counts) || !wrap_dim(ctx, dim, self.dim(), d)) return;
  if (!check(ctx, self.dim() > 0, "unique takes slices of a tensor with dimensions")) return;
  const Slices slices(self, d);
  const dim_t count = slices.count();
  if (!check(ctx, count == 0 || slices.length() != 0, "slices without elements cannot be told apart")) return;
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * static_cast<size_t>(count) + 1);
  if (!ranked) return;
  for (dim_t i = 0; i < count; ++i) ranked[i].place = i;
  // By the last element first: sorting keeps the order of equals.
  for (dim_t place = sorts ? slices.length() : 0; place-- > 0;) {
    for (dim_t i = 0; i < count; ++i) ranked[i].key = slices.key(ranked[i].place, place);
    sort_ranked(ranked, ranked + count, count);
  }
  View sizes = view_of(self);
  dim_t groups = 0;
  for (dim_t i = 0; i < count; ++i) {
    groups += i == 0 || !slices.equal(ranked[i].place, ranked[i - 1].place);
    ranked[i].key = groups - 1;
  }
  sizes.sizes[d] = groups;
  // ATen gives both when there is a dimension, even where they are not asked for.
  const bool places = return_inverse || inverse.numel() != 0, counted = return_counts || counts.numel() != 0;
  const dim_t found = counted ? groups : 0, placed = places ? count : 0;
  if (!resize_to(ctx, values, sizes) || !ctx.resize(counts, SizesRef(&found, 1)) ||
      !ctx.resize(inverse, SizesRef(&placed, 1))) {
    return;
  }
  const Slices to(values, d);
  int64_t run = 0;
  for (dim_t i = 0; i < count; ++i) {
    const dim_t group = static_cast<dim_t>(ranked[i].key);
    if (i == 0 || ranked[i - 1].key != ranked[i].key) {
      move_view(self.element_size(), slices.at(ranked[i].place), to.at(group));
      run = 0;
    }
    ++run;
    if (counted) counts.data_ptr<int64_t>()[group * counts.stride(0)] = run;
    if (places) inverse.data_ptr<int64_t>()[ranked[i].place * inverse.stride(0)] = group;
  }
}

void unique2_out(KernelContext& ctx, const Tensor& self, bool, bool return_inverse, bool return_counts,
                 Tensor& out0, Tensor& out1, Tensor& out2) {
  unique(ctx, self, true, return_inverse, return_counts, out0, out1, out2);
}

void unique_dim_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool, bool return_inverse,
                    bool return_counts, Tensor& out0, Tensor& out1, Tensor& out2) {
  unique_slices(ctx, self, dim, true, return_inverse, return_counts, out0, out1, out2);
}

void unique_consecutive_out(KernelContext& ctx, const Tensor& self, bool return_inverse, bool return_counts,
                            Optional<int64_t> dim, Tensor& out0, Tensor& out1, Tensor& out2) {
  if (dim && self.dim() > 0) {
    return unique_slices(ctx, self, dim.value(), false, return_inverse, return_counts, out0, out1, out2);
  }
  unique(ctx, self, false, return_inverse, return_counts, out0, out1, out2);
}

}  // namespace penlight::portable
