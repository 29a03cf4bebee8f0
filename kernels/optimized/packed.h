// What the kernels over packed weights share: checks of packed constants.
#pragma once

#include <penlight/kernel.h>

#include "format.h"
#include "vector/routines.h"

namespace penlight::optimized {

inline dim_t round_to_panel(dim_t count) { return (count + kPanel - 1) / kPanel * kPanel; }

// a * b for sizes of a program, which may be anything; false when it overflows.
inline bool multiply_sizes(dim_t a, dim_t b, dim_t& product) {
  return !__builtin_mul_overflow(a, b, &product);
}

// Elements of panels for `outputs` columns, each with its bias and `depth` weights.
inline bool packed_size(dim_t outputs, dim_t depth, dim_t& size) {
  return outputs >= 0 && outputs <= INTPTR_MAX - kPanel && depth >= 0 && depth < INTPTR_MAX &&
         multiply_sizes(round_to_panel(outputs), depth + 1, size);
}

// Packed weights are a dense run of a format, of the size that the other arguments say.
inline bool check_packed(KernelContext& ctx, const Tensor& packed, dim_t size,
                         Format format = Format::Float32) {
  constexpr ScalarType types[] = {ScalarType::Float, ScalarType::Half, ScalarType::BFloat16};
  if (packed.scalar_type() != types[static_cast<int>(format)]) {
    ctx.fail("packed weights are {}, not float32", dtype_name(packed.scalar_type()));
  } else if (packed.numel() != size) {
    ctx.fail("packed weights have {} elements, the other arguments need {}", packed.numel(), size);
  }
  return ctx.ok();
}

// Is a product of so many rows, or pixels, quicker where a vector is of channels, not of outputs?
inline bool is_by_channels(dim_t rows, dim_t channels, dim_t outputs) {
#ifdef __OPTIMIZE_SIZE__  // there are no such products
  static_cast<void>(rows), static_cast<void>(channels), static_cast<void>(outputs);
  return false;
#else
  constexpr dim_t kFewest = 64, kFewestChannels = 16, kFewOutputs = 8;
  constexpr dim_t kFewestOfTwo = 8;  // channels, for one or two outputs
  const dim_t fewest = outputs <= 2 ? kFewestOfTwo : kFewestChannels;
  return rows >= kFewest && channels >= fewest && outputs <= kFewOutputs;
#endif
}

inline bool check_activation(KernelContext& ctx, int64_t activation) {
  if (activation >= 0 && activation < kActivations && is_compiled(static_cast<Activation>(activation)))
    return true;
  return ctx.refuse("there is no activation {} here", activation);
}

// The residual is added element by element: float32, with the result's sizes and layout.
inline bool check_residual(KernelContext& ctx, const Optional<Tensor>& residual, const Tensor& out) {
  if (!residual.has_value()) return true;
  const Tensor& added = residual.value();
  bool same = added.scalar_type() == ScalarType::Float && added.dim() == out.dim();
  for (dim_t d = 0; same && d < out.dim(); ++d) {
    same = added.size(d) == out.size(d) && (out.size(d) <= 1 || added.stride(d) == out.stride(d));
  }
  if (!same) ctx.fail("the residual has not the sizes and layout of the result");
  return same;
}

inline Epilogue epilogue_of(const Optional<Tensor>& residual, int64_t activation, double low, double high) {
  return {residual.has_value() ? residual.value().const_data_ptr<float>() : nullptr,
          static_cast<Activation>(activation), static_cast<float>(low), static_cast<float>(high)};
}

}  // namespace penlight::optimized
