// Tensors joined in one pass over the result, which threads split: some bytes of it each.
#include <string.h>

#include "image.h"
#include "kernels/common/checks.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

enum class Order { RowMajor, ChannelsLast };

bool has_order(const Tensor& tensor, Order order) {
  return order == Order::RowMajor ? tensor.is_contiguous() : tensor.dim() == 4 && is_channels_last(tensor);
}

bool all_have_order(TensorList tensors, Order order) {
  for (const Tensor& tensor : tensors) {
    if (!is_skipped(tensor) && !has_order(tensor, order)) return false;
  }
  return true;
}

// Elements from one place of dimension `d` to the next.
dim_t inner_of(const Tensor& tensor, int d, Order order) {
  constexpr int kPlaces[] = {0, 3, 1, 2};  // of channels-last dimensions in memory
  const auto place = [&](int k) { return order == Order::RowMajor ? k : kPlaces[k]; };
  dim_t inner = 1;
  for (int k = 0; k < tensor.dim(); ++k) {
    if (place(k) > place(d)) inner *= tensor.size(k);
  }
  return inner;
}

// What is joined: runs of bytes, one of each tensor in turn.
struct Joined {
  TensorList tensors;
  size_t step;   // bytes of a run for each place of the dimension
  size_t whole;  // bytes of a run of the result
  int d;

  size_t run_of(const Tensor& tensor) const {
    return is_skipped(tensor) ? 0 : static_cast<size_t>(tensor.size(d)) * step;
  }

  // Bytes [first, last) of the result. A damaged file may have it where a tensor is.
  void copy(char* result, size_t first, size_t last) const {
    size_t turn = first / whole, at = first % whole;
    for (result += first; first < last; ++turn, at = 0) {
      for (const Tensor& tensor : tensors) {
        const size_t run = run_of(tensor);
        if (at >= run) {
          at -= run;
          continue;
        }
        const size_t count = run - at < last - first ? run - at : last - first;
        if (count == 0) return;
        memmove(result, tensor.const_data_ptr<char>() + turn * run + at, count);
        result += count;
        first += count;
        at = 0;
      }
    }
  }
};

}  // namespace

void cat_out(KernelContext& ctx, TensorList tensors, int64_t dim, Tensor& out) {
  size_t some = 0;
  while (some < tensors.size() && is_skipped(tensors[some])) ++some;
  if (some == tensors.size()) return ctx.decline();
  const Tensor& like = tensors[some];
  const int rank = like.dim();
  const Order order = all_have_order(tensors, Order::RowMajor) ? Order::RowMajor : Order::ChannelsLast;
  if (rank == 0 || !all_have_order(tensors, order)) return ctx.decline();
  int d;
  if (!wrap_dim(ctx, dim, rank, d)) return;
  dim_t sizes[kMaxDim];
  for (int k = 0; k < rank; ++k) sizes[k] = k == d ? 0 : like.size(k);
  for (const Tensor& tensor : tensors) {
    if (is_skipped(tensor)) continue;
    bool fits = tensor.dim() == rank && tensor.scalar_type() == out.scalar_type();
    for (int k = 0; fits && k < rank; ++k) fits = k == d || tensor.size(k) == sizes[k];
    if (!fits) return ctx.decline();
    sizes[d] += tensor.size(d);
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank)))) return;
  if (!has_order(out, order)) return ctx.decline();
  const size_t total = out.nbytes();
  if (total == 0) return;
  Joined joined{tensors, static_cast<size_t>(inner_of(out, d, order)) * out.element_size(), 0, d};
  joined.whole = static_cast<size_t>(sizes[d]) * joined.step;
  char* const result = out.mutable_data_ptr<char>();
  constexpr size_t line = 64;
  constexpr double operations = 4 * line;  // as long as copying one takes
  in_parts(ctx, static_cast<dim_t>((total + line - 1) / line), operations, [&](Range range) {
    const size_t last = static_cast<size_t>(range.last) * line;
    joined.copy(result, static_cast<size_t>(range.first) * line, last < total ? last : total);
  });
}

}  // namespace penlight::optimized
