// As its author wrote it for ExecuTorch and PyTorch.
#include <executorch/extension/aten_util/make_aten_functor_from_et_functor.h>
#include <executorch/extension/kernel_util/make_boxed_from_unboxed_functor.h>
#include <torch/library.h>

namespace torch {
namespace executor {
namespace native {

Tensor& scaled_add_out(const Tensor& a, const Tensor& b, double scale, optional<Tensor> bias, Tensor& out) {
  resize_tensor(out, a.sizes());
  for (int i = 0; i < a.numel(); ++i) {
    out.mutable_data_ptr<float>()[i] = a.const_data_ptr<float>()[i] +
                                       static_cast<float>(scale) * b.const_data_ptr<float>()[i] +
                                       (bias.has_value() ? bias.value().const_data_ptr<float>()[i] : 0.0f);
  }
  return out;
}

at::Tensor scaled_add(const at::Tensor& a, const at::Tensor& b, double scale,
                      c10::optional<at::Tensor> bias) {
  at::Tensor out = at::empty({a.size(0), a.size(1)}, a.options());
  WRAP_TO_ATEN(scaled_add_out, 4)(a, b, scale, bias, out);
  return out;
}

}  // namespace native
}  // namespace executor
}  // namespace torch

EXECUTORCH_LIBRARY(etwrapped, "scaled_add.out", torch::executor::native::scaled_add_out);

TORCH_LIBRARY(etwrapped, m) {
  m.def("scaled_add(Tensor a, Tensor b, float scale, Tensor(?) bias) -> Tensor",
        torch::executor::native::scaled_add);
  m.def("scaled_add.out(Tensor a, Tensor b, float scale, Tensor(?) bias, *, Tensor(a!) out) -> Tensor(a!)",
        WRAP_TO_ATEN(torch::executor::native::scaled_add_out, 4));
}
