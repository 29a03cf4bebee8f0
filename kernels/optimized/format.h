// Which of the formats that weights and conversions know a tensor has.
#pragma once

#include <penlight/dispatch.h>
#include <penlight/kernel.h>

#include "vector/routines.h"

namespace penlight::optimized {

PENLIGHT_BY_DTYPES_BEGIN

// float32 for what has no such format, or one that was left out of the build.
inline Format format_of(const Tensor& tensor) {
  constexpr bool half = dtype_selected(ScalarType::Half), bfloat16 = dtype_selected(ScalarType::BFloat16);
  if (half && tensor.scalar_type() == ScalarType::Half) return Format::Float16;
  if (bfloat16 && tensor.scalar_type() == ScalarType::BFloat16) return Format::BFloat16;
  return Format::Float32;
}

PENLIGHT_BY_DTYPES_END

}  // namespace penlight::optimized
