// The median of each row, for every real element type: an operator in one file.
//
// Sorting must not touch the input, so each row is first copied to scratch memory,
// which the context gives and takes back: from the heap in a hosted program, from a
// region of fixed size on a microcontroller.
#include <penlight/kernel.h>

using namespace penlight;

namespace {

// Sorts by insertion; gives the lower of two medians.
template <class T>
T median(T* values, dim_t count) {
  for (dim_t i = 1; i < count; ++i) {
    const T value = values[i];
    dim_t at = i;
    for (; at > 0 && value < values[at - 1]; --at) values[at] = values[at - 1];
    values[at] = value;
  }
  return values[(count - 1) / 2];
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
      out.mutable_data_ptr<T>()[r] = median(row, columns);
    }
  });
  return out;
}

PENLIGHT_LIBRARY(examples, "row_median(Tensor x) -> Tensor", row_median_out,
                 shapes("[rows, columns] -> [rows]"))
