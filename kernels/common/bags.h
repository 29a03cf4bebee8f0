// Bags of rows of a table, as _embedding_bag is given them: a row of indices, cut at offsets.
#pragma once

#include "kernels/common/checks.h"
#include "kernels/common/convert.h"

namespace penlight {

enum BagMode : int64_t { kSumOfBag = 0, kMeanOfBag = 1, kMaxOfBag = 2 };

struct Bags {
  const Tensor& weight;
  const Tensor& indices;
  const Tensor& offsets;
  const Optional<Tensor>& factors;
  int64_t mode, padding;
  dim_t count;  // of bags
  bool last_given;

  // The first and the end of a bag's indices; false when offsets are not in order.
  bool range(KernelContext& ctx, dim_t bag, dim_t& first, dim_t& end) const {
    const dim_t total = indices.numel(), step = offsets.stride(0);
    const bool open = bag + 1 == count && !last_given;
    first = static_cast<dim_t>(load_element<int64_t>(offsets, bag * step));
    end = open ? total : static_cast<dim_t>(load_element<int64_t>(offsets, (bag + 1) * step));
    if (first >= 0 && first <= end && end <= total) return true;
    return ctx.refuse(Status::KernelFailed, "bag {} holds indices {} to {} of {}", bag, first, end, total);
  }

  bool refuse_row(KernelContext& ctx, int64_t row) const {
    return ctx.refuse(Status::KernelFailed, "index {} is out of range for a table of {} rows", row,
                      weight.size(0));
  }

  // False, with the failure recorded, where the arguments do not go together. out0 is the result. The others
  // are what ATen keeps for gradients: the bag of each index (empty when a plain sum needs none), the sizes
  // of bags, the rows of maxima.
  bool prepare(KernelContext& ctx, Tensor& out0, Tensor& out1, Tensor& out2, Tensor& out3) {
    if (!check_rank(ctx, weight, 2, "weight") || !check_same_dtype(ctx, weight, out0)) return false;
    if (!is_row(indices) || !is_row(offsets) || mode < kSumOfBag || mode > kMaxOfBag ||
        (last_given && offsets.numel() < 1))
      return ctx.refuse("indices and offsets are int32 or int64 of 1 dimension, and mode {} 0, 1 or 2", mode);
    if (factors.has_value()) {
      const Tensor& given = factors.value();
      if (!check_same_dtype(ctx, weight, given) || !check_rank(ctx, given, 1, "per_sample_weights"))
        return false;
      if (mode != kSumOfBag || given.numel() != indices.numel())
        return ctx.refuse("{} per_sample_weights for {} indices in mode {}; they go with sums", given.numel(),
                          indices.numel(), mode);
    }
    count = offsets.numel() - (last_given ? 1 : 0);
    const bool plain = mode == kSumOfBag && padding < 0 && weight.stride(1) == 1 &&
                       (weight.dtype() == ScalarType::Float || weight.dtype() == ScalarType::Half ||
                        // ATen's kernel and its shape function do not agree here: either will do.
                        (weight.dtype() == ScalarType::BFloat16 && out1.numel() == 0));
    const dim_t table[] = {count, weight.size(1)}, each[] = {plain ? 0 : indices.numel()};
    return ctx.resize(out0, table) && ctx.resize(out1, each) && ctx.resize(out2, SizesRef(table, 1)) &&
           ctx.resize(out3, SizesRef(table, mode == kMaxOfBag ? 2 : 1));
  }

 private:
  static bool is_row(const Tensor& tensor) {
    return tensor.dim() == 1 && (tensor.dtype() == ScalarType::Long || tensor.dtype() == ScalarType::Int);
  }
};

}  // namespace penlight
