// Distinct elements, where they went and how many there were.
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

static void unique(KernelContext& ctx, const Tensor& self, bool sorts, bool return_inverse,
                   bool return_counts, Tensor& values, Tensor& inverse, Tensor& counts) {
  const ScalarType type = self.scalar_type();
  const bool ordered = is_floating(type) || type == ScalarType::Bool || is_integral(type);
  const bool places = inverse.scalar_type() == ScalarType::Long && counts.scalar_type() == ScalarType::Long;
  if (!check_same_dtype(ctx, self, values) ||
      !check(ctx, ordered && places, "unique takes real numbers, gives int64")) {
    return;
  }
  const size_t count = static_cast<size_t>(self.numel());
  Ranked* ranked = ctx.allocate_scratch_array<Ranked>(2 * count + 1);
  if (!ranked) return;
  rank_all(self, false, ranked);
  if (sorts) sort_ranked(ranked, ranked + count, self.numel());
  write_groups(ctx, self, ranked, return_inverse, return_counts, values, inverse, counts);
}

void unique2_out(KernelContext& ctx, const Tensor& self, bool, bool return_inverse, bool return_counts,
                 Tensor& out0, Tensor& out1, Tensor& out2) {
  unique(ctx, self, true, return_inverse, return_counts, out0, out1, out2);
}

void unique_consecutive_out(KernelContext& ctx, const Tensor& self, bool return_inverse, bool return_counts,
                            Optional<int64_t> dim, Tensor& out0, Tensor& out1, Tensor& out2) {
  if (dim && self.dim() != 1) {
    ctx.fail(Status::NotSupported, "unique_consecutive of slices along dimension {}", dim.value());
    return;
  }
  unique(ctx, self, false, return_inverse, return_counts, out0, out1, out2);
}

}  // namespace penlight::portable
