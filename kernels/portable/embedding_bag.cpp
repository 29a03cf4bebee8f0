// Sums, means and maxima over bags of rows of a table.
#include "kernels/common/bags.h"
#include "vector.h"

namespace penlight::portable {

namespace {

template <class S>
void reduce_bags(KernelContext& ctx, const Bags& bags, Tensor& out, Tensor& bag_of, Tensor& sizes,
                 Tensor& maxima) {
  using T = Compute<S>;
  const dim_t width = bags.weight.size(1);
  T* sums = ctx.allocate_scratch_array<T>(static_cast<size_t>(width + 1));
  if (!sums) return;
  for (dim_t bag = 0; bag < bags.count; ++bag) {
    dim_t first, end, used = 0;
    if (!bags.range(ctx, bag, first, end)) return;
    for (dim_t c = 0; c < width; ++c) {
      sums[c] = 0;
      if (bags.mode == kMaxOfBag)
        store_element(maxima, bag * maxima.stride(0) + c * maxima.stride(1), int64_t{0});
    }
    for (dim_t i = first; i < end; ++i) {
      const int64_t row = load_element<int64_t>(bags.indices, i * bags.indices.stride(0));
      if (row < 0 || row >= bags.weight.size(0)) return static_cast<void>(bags.refuse_row(ctx, row));
      if (bag_of.numel()) store_element<int64_t>(bag_of, i * bag_of.stride(0), bag);
      if (row == bags.padding) continue;
      const S* from = bags.weight.const_data_ptr<S>() + static_cast<dim_t>(row) * bags.weight.stride(0);
      const dim_t step = bags.weight.stride(1);
      if (bags.mode == kMaxOfBag) {
        for (dim_t c = 0; c < width; ++c) {
          const T value = static_cast<T>(from[c * step]);
          if (used == 0 || value > sums[c]) {
            sums[c] = value;
            store_element(maxima, bag * maxima.stride(0) + c * maxima.stride(1), row);
          }
        }
      } else {
        const T factor = bags.factors.has_value()
                             ? load_element<T>(bags.factors.value(), i * bags.factors.value().stride(0))
                             : T(1);
        if (step == 1) {
          add_scaled(from, factor, width, sums);
        } else {
          for (dim_t c = 0; c < width; ++c) sums[c] += factor * static_cast<T>(from[c * step]);
        }
      }
      ++used;
    }
    const T divisor = bags.mode == kMeanOfBag && used ? static_cast<T>(used) : T(1);
    S* to = out.mutable_data_ptr<S>() + bag * out.stride(0);
    for (dim_t c = 0; c < width; ++c) to[c * out.stride(1)] = static_cast<S>(sums[c] / divisor);
    store_element<int64_t>(sizes, bag * sizes.stride(0), bags.mode == kSumOfBag ? 0 : used);
    if (bags.mode != kMaxOfBag)
      store_element<int64_t>(maxima, bag * maxima.stride(0), bags.mode == kMeanOfBag ? used : 0);
  }
}

}  // namespace

void embedding_bag_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, const Tensor& offsets,
                       bool, int64_t mode, bool, const Optional<Tensor>& per_sample_weights,
                       bool include_last_offset, int64_t padding_idx, Tensor& out0, Tensor& out1,
                       Tensor& out2, Tensor& out3) {
  Bags bags = {weight, indices, offsets, per_sample_weights, mode, padding_idx, 0, include_last_offset};
  if (!bags.prepare(ctx, out0, out1, out2, out3)) return;
  dispatch<Floats>(ctx, weight.dtype(), [&](auto tag) {
    reduce_bags<typename decltype(tag)::type>(ctx, bags, out0, out1, out2, out3);
  });
}

}  // namespace penlight::portable
