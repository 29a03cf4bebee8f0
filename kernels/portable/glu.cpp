// Gated linear unit: the first half of a dimension times the sigmoid of the second.
#include "kernels/common/checks.h"
#include "kernels/common/elementwise.h"

namespace penlight::portable {

void glu_out(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !check_same_dtype(ctx, self, out)) return;
  const dim_t axis = static_cast<dim_t>(dim);
  if (self.dim() == 0 || self.size(axis) % 2 != 0)
    return ctx.fail("dimension {} of size {} has no two halves", axis, self.dim() ? self.size(axis) : 1);
  Shape shape(self.sizes());
  shape.sizes[axis] /= 2;
  TensorImpl value = *self.unsafeGetTensorImpl();
  value.sizes = shape.sizes;
  value.numel /= 2;
  TensorImpl gate = value;
  gate.data = address(self, shape.sizes[axis] * self.stride(axis));
  map<Domain::Floating>(ctx, PENLIGHT_OF_2(a * (T(1) / (T(1) + math::exp(-b)))), out, Tensor(&value),
                        Tensor(&gate));
}

}  // namespace penlight::portable
