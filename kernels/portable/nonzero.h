// Places of elements that are not zero, in row-major order.
#pragma once

#include "kernels/common/convert.h"

namespace penlight::portable {

constexpr int kFoundBlock = 128;

// Some in one row: they lie at `at`, but for the last dimension, where they lie `last[i]`.
struct Found {
  const dim_t* at;
  const dim_t* last;
  dim_t count;

  // The place of each in a row of `to`; strides in elements.
  void write(dim_t rank, int64_t* to, dim_t row, dim_t column) const {
    for (dim_t d = 0; d < rank; ++d) {
      for (dim_t i = 0; i < count; ++i) to[i * row + d * column] = d < rank - 1 ? at[d] : last[i];
    }
  }
};

// Calls body(Found). NaN is not zero; nor is a double too small for a float.
template <class Body>
void for_each_nonzero(const Tensor& self, Body&& body) {
  const dim_t rank = self.dim(), last = rank - 1;
  const dim_t row = rank == 0 ? 1 : self.size(last), step = rank == 0 ? 0 : self.stride(last);
  const bool floating = is_floating(self.scalar_type());
  for (dim_t done = 0; done < self.numel(); done += row) {
    dim_t at[kMaxDim], offset = 0, rest = done / row;
    for (dim_t d = last; d-- > 0; rest /= self.size(d)) {
      at[d] = rest % self.size(d);
      offset += at[d] * self.stride(d);
    }
    for (dim_t first = 0; first < row; first += kFoundBlock) {
      const dim_t count = row - first < kFoundBlock ? row - first : kFoundBlock;
      double reals[kFoundBlock];
      int64_t integers[kFoundBlock];
      if (floating) {
        load_block(reals, self, offset + first * step, step, count);
        for (dim_t i = 0; i < count; ++i) integers[i] = reals[i] != 0;
      } else {
        load_block(integers, self, offset + first * step, step, count);
      }
      // Each is written, and kept or not: nobody could predict a branch.
      dim_t places[kFoundBlock], found = 0;
      for (dim_t i = 0; i < count; ++i) {
        places[found] = first + i;
        found += integers[i] != 0;
      }
      body(Found{at, places, found});
    }
  }
}

}  // namespace penlight::portable
