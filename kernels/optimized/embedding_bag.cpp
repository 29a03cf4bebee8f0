// Sums, means and maxima over bags of dense rows of a table of floats of 16 and 32 bits; the portable kernel
// takes what this declines.
#include "format.h"
#include "isa.h"
#include "kernels/common/bags.h"
#include "kernels/common/span.h"
#include "parallel.h"
#include "vector/bags.h"

namespace penlight::optimized {

namespace {

bool is_dense_row(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Long && tensor.is_contiguous();
}

// Where each bag starts, and the last one ends; null, with the failure recorded, where an offset or an index
// is out of range.
const int64_t* starts_of(KernelContext& ctx, const Bags& bags, const int64_t* indices) {
  int64_t* const starts = ctx.allocate_scratch_array<int64_t>(static_cast<size_t>(bags.count) + 1);
  if (!starts) return nullptr;
  dim_t end = 0;
  for (dim_t bag = 0; bag < bags.count; ++bag) {
    dim_t first;
    if (!bags.range(ctx, bag, first, end)) return nullptr;
    starts[bag] = first;
  }
  starts[bags.count] = end;
  const int64_t rows = bags.weight.size(0);
  for (int64_t i = bags.count > 0 ? starts[0] : 0; i < end; ++i) {
    if (indices[i] >= 0 && indices[i] < rows) continue;
    bags.refuse_row(ctx, indices[i]);
    return nullptr;
  }
  return starts;
}

// What gradients would need: the bag of each index, and how many indices of a bag count.
void write_sizes(const Bags& bags, const int64_t* indices, const int64_t* starts, Tensor& bag_of,
                 Tensor& sizes, Tensor& maxima) {
  const bool has_bags = bag_of.numel() > 0, has_maxima = bags.mode == kMaxOfBag;
  int64_t* const numbers = bag_of.mutable_data_ptr<int64_t>();
  for (dim_t bag = 0; bag < bags.count; ++bag) {
    int64_t used = 0;
    for (int64_t i = starts[bag]; i < starts[bag + 1]; ++i) {
      if (has_bags) numbers[i] = bag;
      used += indices[i] != bags.padding;
    }
    sizes.mutable_data_ptr<int64_t>()[bag] = bags.mode == kSumOfBag ? 0 : used;
    if (!has_maxima) maxima.mutable_data_ptr<int64_t>()[bag] = bags.mode == kMeanOfBag ? used : 0;
  }
}

}  // namespace

void embedding_bag_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                       bool, int64_t mode, bool, const Optional<Tensor>& per_sample_weights,
                       bool include_last_offset, int64_t padding_idx, Tensor& out0, Tensor& out1,
                       Tensor& out2, Tensor& out3) {
  const ScalarType type = weight.scalar_type();
  if ((type != ScalarType::Float && type != ScalarType::Half && type != ScalarType::BFloat16) ||
      weight.dim() != 2 || weight.stride(1) != 1 || weight.size(0) > INT32_MAX)
    return ctx.decline();
  Bags bags = {weight, indices, offsets, per_sample_weights, mode, padding_idx, 0, include_last_offset};
  if (!bags.prepare(ctx, out0, out1, out2, out3)) return;
  if (!out0.is_contiguous() || !is_dense_row(out1) || !is_dense_row(out2) || !is_dense_row(out3))
    return ctx.decline();
  const int64_t* const named = dense_indices(ctx, indices);
  const int64_t* const starts = named ? starts_of(ctx, bags, named) : nullptr;
  if (!starts) return;
  const float* factors = nullptr;
  if (per_sample_weights.has_value()) {
    factors = dense_copy<float>(ctx, per_sample_weights.value());
    if (!factors) return;
  }
  write_sizes(bags, named, starts, out1, out2, out3);
  BagsOfRows job = {weight.const_data_ptr(),
                    format_of(weight),
                    weight.size(1),
                    weight.stride(0),
                    named,
                    starts,
                    factors,
                    padding_idx,
                    mode == kSumOfBag    ? BagReduction::Sum
                    : mode == kMeanOfBag ? BagReduction::Mean
                                         : BagReduction::Greatest,
                    out0.mutable_data_ptr(),
                    mode == kMaxOfBag ? out3.mutable_data_ptr<int64_t>() : nullptr,
                    0,
                    0,
                    bags.count};
  if (bags.count == 0) return;
  const double rows = static_cast<double>(indices.numel()) / static_cast<double>(bags.count);
  in_parts(ctx, bags.count, 2.0 * (rows + 1) * static_cast<double>(job.width), [&](Range range) {
    BagsOfRows mine = job;
    mine.first = range.first;
    mine.last = range.last;
    routines().reduce_bags(mine);
  });
}

}  // namespace penlight::optimized
