// Packed weights multiplied by what the rows of the input would be multiplied by.
#include "halves.h"
#include "routines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

template <class Weights>
void scale(const ScalePanels& p) {
  const auto* from = static_cast<const typename Weights::Element*>(p.packed);
  float* to = p.output;
  for (ptrdiff_t panel = 0; panel < p.panels; ++panel) {
    for (ptrdiff_t row = 0; row <= p.depth; ++row, from += kPanel, to += kPanel) {
      const Floats factor = splat(row == 0 ? 1.0f : p.factors[row - 1]);
      for (int v = 0; v < kPanel; v += kLanes) store(to + v, factor * Weights::load(from + v));
    }
  }
}

}  // namespace

void scale_panels(const ScalePanels& p) {
  if (p.format == Format::Float32) return scale<Singles>(p);
  (p.format == Format::BFloat16 ? scale<BFloat16s> : scale<Float16s>)(p);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
