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
  const Floats least = splat(-__builtin_inff());
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const float* image = p.input + r / p.out_height * p.height * p.width * p.channels;
    const ptrdiff_t top = r % p.out_height * p.stride_h - p.pad_h;
    const Taps rows = taps_inside(top, p.taps_h, p.dilation_h, p.height);
    for (ptrdiff_t w = 0; w < p.out_width; ++w) {
      const ptrdiff_t left = w * p.stride_w - p.pad_w;
      const Taps columns = taps_inside(left, p.taps_w, p.dilation_w, p.width);
      float* out = p.output + (r * p.out_width + w) * p.channels;
      for (ptrdiff_t c = 0; c < p.channels; c += kLanes) {
        const ptrdiff_t some = p.channels - c;
        Floats most = least;
        for (ptrdiff_t th = rows.first; th < rows.last; ++th) {
          const float* line = image + ((top + th * p.dilation_h) * p.width + left) * p.channels + c;
          for (ptrdiff_t tw = columns.first; tw < columns.last; ++tw) {
            const float* from = line + tw * p.dilation_w * p.channels;
            most = larger(most, some >= kLanes ? load(from) : load_some(from, some));
          }
        }
        if (some >= kLanes) {
          store(out + c, most);
        } else {
          store_some(out + c, most, some);
        }
      }
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
