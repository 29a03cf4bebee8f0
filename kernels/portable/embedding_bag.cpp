// Sums, means and maxima over bags of rows of a table.
#include "kernels/common/checks.h"
#include "vector.h"

namespace penlight::portable {

namespace {

enum BagMode : int64_t { kSum = 0, kMean = 1, kMax = 2 };

struct Bags {
  const Tensor& weight;
  const Tensor& indices;
  const Tensor& offsets;
  Optional<Tensor> factors;
  int64_t mode, padding;
  dim_t count;  // of bags
  bool last_given;
};

// The first and the end of a bag's indices; false when offsets are not in order.
bool bag_range(KernelContext& ctx, const Bags& bags, dim_t bag, dim_t& first, dim_t& end) {
  const dim_t total = bags.indices.numel(), step = bags.offsets.stride(0);
  const bool open = bag + 1 == bags.count && !bags.last_given;
  first = static_cast<dim_t>(load_element<int64_t>(bags.offsets, bag * step));
  end = open ? total : static_cast<dim_t>(load_element<int64_t>(bags.offsets, (bag + 1) * step));
  if (first >= 0 && first <= end && end <= total) return true;
  return ctx.refuse(Status::KernelFailed, "bag {} holds indices {} to {} of {}", bag, first, end, total);
}

template <class S>
void reduce_bags(KernelContext& ctx, const Bags& bags, Tensor& out, Tensor& bag_of, Tensor& sizes,
                 Tensor& maxima) {
  using T = Compute<S>;
  const dim_t width = bags.weight.size(1);
  T* sums = ctx.allocate_scratch_array<T>(static_cast<size_t>(width + 1));
  if (!sums) return;
  for (dim_t bag = 0; bag < bags.count; ++bag) {
    dim_t first, end, used = 0;
    if (!bag_range(ctx, bags, bag, first, end)) return;
    for (dim_t c = 0; c < width; ++c) {
      sums[c] = 0;
      if (bags.mode == kMax) store_element(maxima, bag * maxima.stride(0) + c * maxima.stride(1), int64_t{0});
    }
    for (dim_t i = first; i < end; ++i) {
      const int64_t row = load_element<int64_t>(bags.indices, i * bags.indices.stride(0));
      if (row < 0 || row >= bags.weight.size(0))
        return ctx.fail(Status::KernelFailed, "index {} is out of range for a table of {} rows", row,
                        bags.weight.size(0));
      if (bag_of.numel()) store_element<int64_t>(bag_of, i * bag_of.stride(0), bag);
      if (row == bags.padding) continue;
      const S* from = bags.weight.const_data_ptr<S>() + static_cast<dim_t>(row) * bags.weight.stride(0);
      const dim_t step = bags.weight.stride(1);
      if (bags.mode == kMax) {
        for (dim_t c = 0; c < width; ++c) {
          const T value = static_cast<T>(from[c * step]);
          if (used == 0 || value > sums[c]) {
            sums[c] = value;
            store_element(maxima, bag * maxima.stride(0) + c * maxima.stride(1), row);
          }
        }
      } else {
        const T factor = bags.factors ? load_element<T>(*bags.factors, i * bags.factors->stride(0)) : T(1);
        if (step == 1) {
          add_scaled(from, factor, width, sums);
        } else {
          for (dim_t c = 0; c < width; ++c) sums[c] += factor * static_cast<T>(from[c * step]);
        }
      }
      ++used;
    }
    const T divisor = bags.mode == kMean && used ? static_cast<T>(used) : T(1);
    S* to = out.mutable_data_ptr<S>() + bag * out.stride(0);
    for (dim_t c = 0; c < width; ++c) to[c * out.stride(1)] = static_cast<S>(sums[c] / divisor);
    store_element<int64_t>(sizes, bag * sizes.stride(0), bags.mode == kSum ? 0 : used);
    if (bags.mode != kMax)
      store_element<int64_t>(maxima, bag * maxima.stride(0), bags.mode == kMean ? used : 0);
  }
}

bool is_index(const Tensor& tensor) {
  return tensor.dim() == 1 && (tensor.dtype() == ScalarType::Long || tensor.dtype() == ScalarType::Int);
}

}  // namespace

// out0 is the result. The others are what ATen keeps for gradients: the bag of each
// index (empty when a plain sum needs none), the sizes of bags, the rows of maxima.
void embedding_bag_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                       bool, int64_t mode, bool, Optional<Tensor> per_sample_weights,
                       bool include_last_offset, int64_t padding_idx, Tensor& out0, Tensor& out1,
                       Tensor& out2, Tensor& out3) {
  if (!check_rank(ctx, weight, 2, "weight") || !check_same_dtype(ctx, weight, out0)) return;
  if (!is_index(indices) || !is_index(offsets) || mode < kSum || mode > kMax ||
      (include_last_offset && offsets.numel() < 1))
    return ctx.fail("indices and offsets are int32 or int64 of 1 dimension, and mode {} 0, 1 or 2", mode);
  if (per_sample_weights) {
    const Tensor& factors = per_sample_weights.value();
    if (!check_same_dtype(ctx, weight, factors) || !check_rank(ctx, factors, 1, "per_sample_weights")) return;
    if (mode != kSum || factors.numel() != indices.numel())
      return ctx.fail("{} per_sample_weights for {} indices in mode {}; they go with sums", factors.numel(),
                      indices.numel(), mode);
  }
  const dim_t count = offsets.numel() - (include_last_offset ? 1 : 0);
  const Bags bags = {weight, indices,     offsets, per_sample_weights,
                     mode,   padding_idx, count,   include_last_offset};
  const bool plain = mode == kSum && padding_idx < 0 && weight.stride(1) == 1 &&
                     (weight.dtype() == ScalarType::Float || weight.dtype() == ScalarType::Half ||
                      // ATen's kernel and its shape function do not agree here: either will do.
                      (weight.dtype() == ScalarType::BFloat16 && out1.numel() == 0));
  const dim_t table[] = {count, weight.size(1)}, each[] = {plain ? 0 : indices.numel()};
  if (!ctx.resize(out0, table) || !ctx.resize(out1, each) || !ctx.resize(out2, SizesRef(table, 1)) ||
      !ctx.resize(out3, SizesRef(table, mode == kMax ? 2 : 1)))
    return;
  dispatch<Floats>(ctx, weight.dtype(), [&](auto tag) {
    reduce_bags<typename decltype(tag)::type>(ctx, bags, out0, out1, out2, out3);
  });
}

}  // namespace penlight::portable
