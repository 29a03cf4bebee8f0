// Copies between float32 and 16-bit floats that lie alike; the portable kernel takes all others.
#include "isa.h"
#include "parallel.h"
#include "parameters.h"
#include "run.h"

namespace penlight::optimized {

namespace {

bool is_short(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Half || tensor.scalar_type() == ScalarType::BFloat16;
}

Format format_of(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Half ? Format::Float16 : Format::BFloat16;
}

bool lies_alike(const Tensor& self, const Tensor& out) {
  Run whole{};
  bool alike = read_run(self, 0, whole) && self.dim() == out.dim();
  for (dim_t d = 0; alike && d < self.dim(); ++d) {
    alike = self.size(d) == out.size(d) && (self.size(d) == 1 || self.stride(d) == out.stride(d));
  }
  return alike;
}

}  // namespace

Tensor& to_copy_out(KernelContext& ctx, const Tensor& self, bool, Optional<MemoryFormat>, Tensor& out) {
  const bool widens = is_short(self) && is_float(out), narrows = is_float(self) && is_short(out);
  if (!widens && !narrows) {
    ctx.decline();
    return out;
  }
  if (!ctx.resize(out, self.sizes()) || out.numel() == 0) return out;
  if (!lies_alike(self, out)) {
    ctx.decline();
    return out;
  }
  constexpr dim_t kStep = 4096;  // elements
  const dim_t count = self.numel(), steps = (count + kStep - 1) / kStep;
  in_parts(ctx, steps, kStep, [&](Range range) {
    const dim_t first = range.first * kStep, last = range.last * kStep < count ? range.last * kStep : count;
    if (widens) {
      routines().widen({static_cast<const uint16_t*>(self.const_data_ptr()) + first,
                        out.mutable_data_ptr<float>() + first, last - first, format_of(self)});
    } else {
      routines().narrow({self.const_data_ptr<float>() + first,
                         static_cast<uint16_t*>(out.mutable_data_ptr()) + first, last - first,
                         format_of(out)});
    }
  });
  return out;
}

}  // namespace penlight::optimized
