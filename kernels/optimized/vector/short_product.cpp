// Matrix products over packed weights of 16 bits.
#include "halves.h"
#include "product_of.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void short_product(const Product& p) {
  (p.format == Format::BFloat16 ? multiply_all<BFloat16s> : multiply_all<Float16s>)(p);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
