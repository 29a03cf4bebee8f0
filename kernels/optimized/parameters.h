// Checks of arguments, most of float32; weights and biases of norms are rows, or none.
#pragma once

#include <penlight/kernel.h>

namespace penlight::optimized {

// For the portable kernel.
inline Tensor& decline(KernelContext& ctx, Tensor& out) {
  ctx.decline();
  return out;
}

inline Tensor& or_decline(KernelContext& ctx, bool taken, Tensor& out) {
  return taken ? out : decline(ctx, out);
}

inline bool is_float(const Tensor& tensor) { return tensor.scalar_type() == ScalarType::Float; }

inline bool is_dense_float(const Tensor& tensor) { return is_float(tensor) && tensor.is_contiguous(); }

inline bool is_row(const Optional<Tensor>& parameter, dim_t count) {
  return !parameter.has_value() || (is_dense_float(parameter.value()) && parameter.value().numel() == count);
}

inline const float* data_of(const Optional<Tensor>& parameter) {
  return parameter.has_value() ? parameter.value().const_data_ptr<float>() : nullptr;
}

}  // namespace penlight::optimized
