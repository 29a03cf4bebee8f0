// WRAP_TO_ATEN: an ExecuTorch kernel for torch::Library (torch/library.h). `index` is that
// of the out argument, which the function's own type tells.
#pragma once

#include <executorch/kernel.h>

namespace penlight::executorch_kernel {

// The kernel and its place in a record, made when TORCH_LIBRARY's body runs.
template <auto function>
struct Wrapped {
  // Calls of it compile, in functions that make a functional operator of the kernel; those
  // are not needed and never run, as the functional operator follows from the out variant.
  template <class First, class... Rest>
  constexpr decltype(auto) operator()(First&& first, Rest&&... rest) const {
    if constexpr (sizeof...(Rest) == 0) {
      return static_cast<First&&>(first);
    } else {
      return (*this)(static_cast<Rest&&>(rest)...);
    }
  }

  static inline OperatorRecord record = {
      {nullptr, nullptr, 1, true, nullptr},
      {nullptr, boxed<adapted<function>>, signature<adapted<function>>, nullptr, nullptr},
      nullptr,
      nullptr,
      nullptr,
      nullptr,
      0,
      nullptr};
  static inline char name[256] = {};
};

}  // namespace penlight::executorch_kernel

#define WRAP_TO_ATEN(func, index) (::penlight::executorch_kernel::Wrapped<&func>{})
