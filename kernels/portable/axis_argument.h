// Arguments of convolution, pooling and patches: one value for each spatial dimension, or one for all.
#pragma once

#include <penlight/kernel.h>

namespace penlight::portable {

// Products of two of these and of a tensor's sizes do not overflow.
constexpr int64_t kLargestArgument = sizeof(dim_t) == 8 ? 1 << 30 : 1 << 14;

// The value of dimension d of `dims`; false, with the failure recorded, where there is none or it is below
// `lowest`.
inline bool axis_argument(KernelContext& ctx, const char* name, IntArrayRef list, dim_t dims, dim_t d,
                          int64_t lowest, dim_t& value) {
  if (list.size() != 1 && list.size() != static_cast<size_t>(dims))
    return ctx.refuse("{} has {} values for {} dimensions", name, list.size(), dims);
  const int64_t given = list[list.size() == 1 ? 0 : static_cast<size_t>(d)];
  value = static_cast<dim_t>(given);
  if (given >= lowest && given <= kLargestArgument) return true;
  return ctx.refuse("{} is {}, it has to be from {} to {}", name, given, lowest, kLargestArgument);
}

}  // namespace penlight::portable
