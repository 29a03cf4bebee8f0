// Rows that are sorted by group: where each group ends is data, so it is checked before a row is touched.
#pragma once

#include "checks.h"
#include "convert.h"

namespace penlight {

// Group g has the rows from where the group before it ends to ends[g]; those behind the last are of none.
class Groups {
 public:
  explicit Groups(const Tensor& ends) : ends_(ends) {}

  dim_t count() const { return ends_.size(0); }
  dim_t first(dim_t g) const { return g == 0 ? 0 : last(g - 1); }
  dim_t last(dim_t g) const { return static_cast<dim_t>(end(g)); }
  // Rows that are of a group.
  dim_t rows() const { return count() == 0 ? 0 : last(count() - 1); }

  // No group ends before it begins, and none behind `rows`.
  bool check(KernelContext& ctx, dim_t rows) const {
    const ScalarType type = ends_.scalar_type();
    if (ends_.dim() != 1 || (type != ScalarType::Int && type != ScalarType::Long))
      return ctx.refuse("ends of groups are a row of int32 or int64, not {} of rank {}", dtype_name(type),
                        ends_.dim());
    int64_t before = 0;
    for (dim_t g = 0; g < count(); ++g) {
      if (end(g) < before || end(g) > rows)
        return ctx.refuse(Status::KernelFailed, "group {} ends at row {}, which is not in [{}, {}]", g,
                          end(g), before, rows);
      before = end(g);
    }
    return true;
  }

 private:
  int64_t end(dim_t g) const { return load_element<int64_t>(ends_, g * ends_.stride(0)); }

  const Tensor& ends_;
};

}  // namespace penlight
