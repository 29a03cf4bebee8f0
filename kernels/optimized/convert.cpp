// Conversions between numbers of any two types; the portable kernel takes complex ones, and copies.
#include "numbers.h"
#include "parameters.h"

namespace penlight::optimized {

Tensor& to_copy_out(KernelContext& ctx, const Tensor& self, bool, Optional<MemoryFormat>, Tensor& out) {
  if (self.scalar_type() == out.scalar_type()) return decline(ctx, out);
  NumberChain chain;
  chain.add(self, out.scalar_type());
  return or_decline(ctx, run_numbers(ctx, chain, out), out);
}

}  // namespace penlight::optimized
