// Gated linear unit: the first half of a dimension times the sigmoid of the second.
#include <math.h>
#include <penlight/kernel.h>

#include "kernels/common/checks.h"
#include "kernels/common/convert.h"
#include "kernels/common/strided.h"

namespace penlight::portable {

Tensor& glu_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !check_same_dtype(ctx, self, out)) return out;
  const dim_t axis = static_cast<dim_t>(dim);
  if (self.dim() == 0 || self.size(axis) % 2 != 0)
    return ctx.fail(out, Status::InvalidArgument, "dimension {} of size {} has no two halves", axis,
                    self.dim() ? self.size(axis) : 1);
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < self.dim(); ++d) sizes[d] = d == axis ? self.size(d) / 2 : self.size(d);
  const SizesRef shape(sizes, static_cast<size_t>(self.dim()));
  if (!ctx.resize(out, shape)) return out;
  const dim_t half = sizes[axis] * self.stride(axis);
  StridedLoop loop(shape);
  loop.add(out);
  loop.add(shape, self.strides());
  loop.simplify();
  const dim_t to_step = loop.inner_stride(0), from_step = loop.inner_stride(1);
  dispatch<Floats>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    using T = Compute<S>;
    loop.for_each_row([&](const dim_t* offset, dim_t count) {
      S* to = out.mutable_data_ptr<S>() + offset[0];
      const S* value = self.const_data_ptr<S>() + offset[1];
      const S* gate = value + half;
      for (dim_t i = 0; i < count; ++i) {
        const T open = T(1) / (T(1) + static_cast<T>(exp(-static_cast<T>(gate[i * from_step]))));
        to[i * to_step] = static_cast<S>(static_cast<T>(value[i * from_step]) * open);
      }
    });
  });
  return out;
}

}  // namespace penlight::portable
