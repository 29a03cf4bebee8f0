// Copies that lie alike, between float32 and 16-bit floats and from integers to float32; the portable
// kernel takes all others.
#include "format.h"
#include "isa.h"
#include "parallel.h"
#include "parameters.h"
#include "run.h"

namespace penlight::optimized {

Tensor& to_copy_out(KernelContext& ctx, const Tensor& self, bool, Optional<MemoryFormat>, Tensor& out) {
  const Format from = format_of(self), to = format_of(out);
  const bool widens = from != Format::Float32 && is_float(out),
             narrows = is_float(self) && to != Format::Float32;
  const ScalarType type = self.scalar_type();
  const bool counts = type >= ScalarType::Byte && type <= ScalarType::Long && is_float(out);
  if (!widens && !narrows && !counts) {
    ctx.decline();
    return out;
  }
  if (!ctx.resize(out, self.sizes()) || out.numel() == 0) return out;
  Run whole{};
  if (!read_run(self, 0, whole) || !lies_alike(self, out)) {
    ctx.decline();
    return out;
  }
  constexpr dim_t kStep = 4096;  // elements
  const dim_t count = self.numel(), steps = (count + kStep - 1) / kStep;
  in_parts(ctx, steps, kStep, [&](Range range) {
    const dim_t first = range.first * kStep, last = range.last * kStep < count ? range.last * kStep : count;
    if (counts) {
      const int bytes = static_cast<int>(self.element_size());
      routines().float_of_integer({static_cast<const char*>(self.const_data_ptr()) + first * bytes,
                                   out.mutable_data_ptr<float>() + first, last - first, bytes,
                                   type != ScalarType::Byte});
    } else if (widens) {
      routines().widen({static_cast<const uint16_t*>(self.const_data_ptr()) + first,
                        out.mutable_data_ptr<float>() + first, last - first, from});
    } else {
      routines().narrow({self.const_data_ptr<float>() + first,
                         static_cast<uint16_t*>(out.mutable_data_ptr()) + first, last - first, to});
    }
  });
  return out;
}

}  // namespace penlight::optimized
