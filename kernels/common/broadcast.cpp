#include "kernels/common/broadcast.h"

namespace penlight {

bool resize_to(KernelContext& ctx, Tensor& out, IntArrayRef size) {
  Shape shape;
  if (size.size() > static_cast<size_t>(kMaxDim))
    return ctx.refuse("{} dimensions, the limit is {}", size.size(), kMaxDim);
  for (const int64_t s : size) {
    if (s < 0) return ctx.refuse("size {} is below 0", s);
    shape.append(static_cast<dim_t>(s));
  }
  return ctx.resize(out, shape);
}

bool broadcast_into(KernelContext& ctx, Shape& shape, SizesRef other) {
  const int rank = static_cast<int>(other.size());
  if (rank > shape.dim) {
    const int added = rank - shape.dim;
    for (int d = shape.dim; d-- > 0;) shape[d + added] = shape[d];
    for (int d = 0; d < added; ++d) shape[d] = 1;
    shape.dim = rank;
  }
  for (int d = 0; d < rank; ++d) {
    dim_t& size = shape[shape.dim - rank + d];
    const dim_t wanted = other[static_cast<size_t>(d)];
    if (size == wanted || wanted == 1) continue;
    if (size != 1)
      return ctx.refuse("sizes {} and {} do not broadcast (dimension {} from the end)", size, wanted,
                        rank - d);
    size = wanted;
  }
  return true;
}

bool resize_to_both(KernelContext& ctx, Tensor& out, const Tensor& a, const Tensor& b) {
  Shape shape(a.sizes());
  return broadcast_into(ctx, shape, b.sizes()) && ctx.resize(out, shape);
}

void broadcast_strides(SizesRef shape, SizesRef sizes, SizesRef strides, dim_t* result) {
  const size_t added = shape.size() - sizes.size();
  for (size_t d = 0; d < shape.size(); ++d)
    result[d] = d < added || sizes[d - added] == 1 ? 0 : strides[d - added];
}

}  // namespace penlight
