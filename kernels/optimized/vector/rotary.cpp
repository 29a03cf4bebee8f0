// Rotary position embeddings: the two halves of a head as coordinates, turned by angles.
#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void rotary(const Rotary& r) {
  const ptrdiff_t half = r.width / 2;
  for (ptrdiff_t head = 0; head < r.heads; ++head) {
    const float* x = r.input + head * r.input_step;
    float* out = r.output + head * r.output_step;
    for (ptrdiff_t c = 0; c < half; c += kLanes) {
      const ptrdiff_t left = half - c;
      const Floats low = load_part(x + c, left), high = load_part(x + half + c, left);
      const Floats first = low * load_part(r.cosine + c, left) - high * load_part(r.sine + c, left);
      const Floats second =
          high * load_part(r.cosine + half + c, left) + low * load_part(r.sine + half + c, left);
      store_part(out + c, first, left);
      store_part(out + half + c, second, left);
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
