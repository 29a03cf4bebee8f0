// The median of each row, for every real element type: an operator in one file.
//
// Sorting must not touch the input, so each row is first copied to scratch memory,
// which the context gives and takes back: from the heap in a hosted program, from a
// region of fixed size on a microcontroller.
#include <penlight/kernel.h>

using namespace penlight;

namespace {

// The element that `count - 1 - rank` others are not less than; reorders `values`.
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

Tensor& row_median_out(KernelContext& ctx, const Tensor& x, Tensor& out) {
  if (x.dim() != 2 || x.size(1) == 0) {
    ctx.fail(Status::InvalidArgument, "row_median takes [rows, columns] with a column at least");
    return out;
  }
  const dim_t rows = x.size(0), columns = x.size(1);
  if (!ctx.resize(out, {&rows, 1})) return out;
  dispatch<Real>(ctx, x.scalar_type(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* row = ctx.allocate_scratch_array<T>(columns);
    if (!row) return;
    for (dim_t r = 0; r < rows; ++r) {
      memcpy(row, x.const_data_ptr<T>() + r * columns, columns * sizeof(T));
      out.mutable_data_ptr<T>()[r] = select(row, columns, (columns - 1) / 2);
    }
  });
  return out;
}

PENLIGHT_LIBRARY(examples, "row_median(Tensor x) -> Tensor", row_median_out,
                 shapes("[rows, columns] -> [rows]"))
