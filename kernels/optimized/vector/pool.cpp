// Largest value of each window, channel by channel, over channels-last images.
#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// The taps of one axis that lie inside the input.
struct Taps {
  ptrdiff_t first, last;
};

Taps taps_inside(ptrdiff_t begin, ptrdiff_t taps, ptrdiff_t dilation, ptrdiff_t size) {
  Taps inside;
  inside.first = begin >= 0 ? 0 : (-begin + dilation - 1) / dilation;
  inside.last = begin >= size ? 0 : (size - begin + dilation - 1) / dilation;
  if (inside.last > taps) inside.last = taps;
  return inside;
}

// A NaN is larger than everything, as in PyTorch.
PENLIGHT_INLINE Floats larger(Floats most, Floats x) { return select((x > most) | (x != x), x, most); }

}  // namespace

void max_pool(const MaxPool& p) {
  const Geometry& g = p.geometry;
  const Floats least = splat(-__builtin_inff());
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const float* image = p.input + r / g.out_height * g.height * g.width * p.channels;
    const ptrdiff_t top = r % g.out_height * g.stride_h - g.pad_h;
    const Taps rows = taps_inside(top, g.taps_h, g.dilation_h, g.height);
    for (ptrdiff_t w = 0; w < g.out_width; ++w) {
      const ptrdiff_t left = w * g.stride_w - g.pad_w;
      const Taps columns = taps_inside(left, g.taps_w, g.dilation_w, g.width);
      float* out = p.output + (r * g.out_width + w) * p.channels;
      for (ptrdiff_t c = 0; c < p.channels; c += kLanes) {
        const ptrdiff_t some = p.channels - c;
        Floats most = least;
        for (ptrdiff_t th = rows.first; th < rows.last; ++th) {
          const float* line = image + ((top + th * g.dilation_h) * g.width + left) * p.channels + c;
          for (ptrdiff_t tw = columns.first; tw < columns.last; ++tw) {
            most = larger(most, load_part(line + tw * g.dilation_w * p.channels, some));
          }
        }
        store_part(out + c, most, some);
      }
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
