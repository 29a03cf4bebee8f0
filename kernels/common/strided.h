// Walking several tensors of one shape, each with strides of its own.
//
//   StridedLoop loop(out.sizes());
//   loop.add(out.sizes(), out.strides());
//   loop.add(x.sizes(), x.strides());        // broadcasts to the loop's shape
//   loop.simplify();                         // by the first operand's memory order
//   loop.for_each_row([&](const dim_t* offset, dim_t count) {
//     // operand k starts at offset[k] and steps by loop.inner_stride(k)
//   });
//
// Offsets and strides are in elements. simplify() orders the dimensions by the
// first operand's strides and joins those that lie one behind the other in every
// operand, so that equal layouts of any rank (channels-last too) become one row.
#pragma once

#include <penlight/kernel.h>

#include "kernels/common/broadcast.h"

namespace penlight {

class StridedLoop {
 public:
  static constexpr int kMaxOperands = 4;

  explicit StridedLoop(SizesRef sizes = {}) : shape_(sizes), operands_(0) {}

  // The next operand; its sizes must broadcast to the loop's.
  void add(SizesRef sizes, SizesRef strides) {
    broadcast_strides(shape_, sizes, strides, strides_[operands_++]);
  }
  void add(const Tensor& tensor) { add(tensor.sizes(), tensor.strides()); }
  // Null for a number.
  void add(const TensorImpl* tensor) {
    tensor ? add({tensor->sizes, tensor->dim}, {tensor->strides, tensor->dim}) : add(SizesRef(), SizesRef());
  }

  // `sorts`: else dimensions stay in their order, and are only joined.
  void simplify(bool sorts = true);

  int dim() const { return shape_.dim; }
  dim_t size(int d) const { return shape_[d]; }
  dim_t stride(int operand, int d) const { return strides_[operand][d]; }
  dim_t inner_size() const { return shape_.dim == 0 ? 1 : shape_[shape_.dim - 1]; }
  dim_t inner_stride(int operand) const { return shape_.dim == 0 ? 0 : strides_[operand][shape_.dim - 1]; }

  // row(const dim_t* offset, dim_t count) once for each run along the last
  // dimension; never for an empty shape, once with count 1 for rank 0.
  template <class Row>
  void for_each_row(Row&& row) const {
    Position at = {};
    if (shape_.numel() == 0) return;
    do {
      row(static_cast<const dim_t*>(at.offset), inner_size());
    } while (next(at));
  }

 private:
  struct Position {
    dim_t offset[kMaxOperands], index[kMaxDim];
  };

  // The next row; false after the last.
  bool next(Position& at) const;

  Shape shape_;
  int operands_;
  dim_t strides_[kMaxOperands][kMaxDim];
};

}  // namespace penlight
