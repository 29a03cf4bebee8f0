// Soft clipping of a signal around each row's median: an operator in one file.
//
// The median must not reorder the input, so each row is first copied to scratch
// memory, which the context gives and takes back: from the heap in a hosted
// program, from a region of fixed size on a microcontroller.
#include <penlight/kernel.h>

using namespace penlight;

namespace {

// The element that `rank` others of `count` are not greater than; reorders `values`.
template <class T>
T select(T* values, dim_t count, dim_t rank) {
  dim_t low = 0, high = count - 1;
  while (low < high) {
    const T pivot = values[low + (high - low) / 2];
    dim_t left = low, right = high;
    while (left <= right) {
      while (values[left] < pivot) ++left;
      while (pivot < values[right]) --right;
      if (left > right) break;
      const T swapped = values[left];
      values[left++] = values[right];
      values[right--] = swapped;
    }
    if (rank <= right) {
      high = right;
    } else if (rank >= left) {
      low = left;
    } else {
      break;
    }
  }
  return values[rank];
}

}  // namespace

// out = median + limit * u / (1 + |u|), with u = (x - median) / limit
Tensor& soft_clip_out(KernelContext& ctx, const Tensor& x, double limit, Tensor& out) {
  if (x.dim() < 1 || limit <= 0) {
    ctx.fail(Status::InvalidArgument, "soft_clip takes rows and a limit above 0");
    return out;
  }
  if (!ctx.resize(out, x.sizes())) return out;
  const dim_t columns = x.size(-1);
  const dim_t rows = columns ? x.numel() / columns : 0;
  dispatch<Floats>(ctx, x.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* row = ctx.allocate_scratch_array<T>(columns);
    if (!row) return;
    for (dim_t r = 0; r < rows; ++r) {
      const T* from = x.const_data_ptr<T>() + r * columns;
      T* to = out.mutable_data_ptr<T>() + r * columns;
      memcpy(row, from, columns * sizeof(T));
      const double median = static_cast<double>(select(row, columns, (columns - 1) / 2));
      for (dim_t i = 0; i < columns; ++i) {
        const double u = (static_cast<double>(from[i]) - median) / limit;
        to[i] = static_cast<T>(median + limit * u / (1 + (u < 0 ? -u : u)));
      }
    }
  });
  return out;
}

PENLIGHT_LIBRARY(examples, "soft_clip(Tensor x, float limit=1.0) -> Tensor", soft_clip_out,
                 shapes("[..., n] -> [..., n]"))
