#include "kernels/common/strided.h"

namespace penlight {

bool StridedLoop::next(Position& at) const {
  for (int d = shape_.dim - 1; d-- > 0; at.index[d] = 0) {
    const bool inside = ++at.index[d] < shape_[d];
    const dim_t steps = inside ? 1 : 1 - shape_[d];
    for (int k = 0; k < operands_; ++k) at.offset[k] += strides_[k][d] * steps;
    if (inside) return true;
  }
  return false;
}

void StridedLoop::simplify(bool sorts) {
  // Dimensions of size 1 go; the others are insertion-sorted, outermost first.
  int order[kMaxDim];
  int rank = 0;
  for (int d = 0; d < shape_.dim; ++d) {
    if (shape_[d] == 1) continue;
    int at = rank++;
    while (sorts && at > 0 && strides_[0][order[at - 1]] < strides_[0][d]) {
      order[at] = order[at - 1];
      --at;
    }
    order[at] = d;
  }

  const Shape old = shape_;
  dim_t old_strides[kMaxOperands][kMaxDim];
  for (int k = 0; k < operands_; ++k) {
    for (int d = 0; d < old.dim; ++d) old_strides[k][d] = strides_[k][d];
  }

  shape_.dim = 0;
  for (int i = 0; i < rank; ++i) {
    const int d = order[i];
    const int last = shape_.dim - 1;
    bool joins = last >= 0;
    for (int k = 0; k < operands_ && joins; ++k) joins = strides_[k][last] == old_strides[k][d] * old[d];
    const int to = joins ? last : shape_.dim;
    if (joins) {
      shape_[to] *= old[d];
    } else {
      shape_.append(old[d]);
    }
    for (int k = 0; k < operands_; ++k) strides_[k][to] = old_strides[k][d];
  }
}

}  // namespace penlight
