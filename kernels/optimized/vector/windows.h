// Rows of planes that windows pass over.
#pragma once

#include "pool.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

// The taps of one axis that lie inside the input.
struct Taps {
  ptrdiff_t first, last;
};

PENLIGHT_INLINE Taps taps_inside(ptrdiff_t begin, ptrdiff_t taps, ptrdiff_t dilation, ptrdiff_t size) {
  Taps inside;
  inside.first = begin >= 0 ? 0 : (-begin + dilation - 1) / dilation;
  inside.last = begin >= size ? 0 : (size - begin + dilation - 1) / dilation;
  if (inside.last > taps) inside.last = taps;
  return inside;
}

// What is around the elements that are put into a line.
PENLIGHT_INLINE void pad_line(float* line, ptrdiff_t size, ptrdiff_t before, ptrdiff_t count, float value) {
  for (ptrdiff_t i = 0; i < before; ++i) line[i] = value;
  for (ptrdiff_t i = before + count; i < size; ++i) line[i] = value;
}

struct Even {
  static constexpr int of(int lane) { return 2 * lane; }
};

// Every `stride`th element.
struct Strided {
  ptrdiff_t stride;
  Ints places;

  __attribute__((always_inline)) explicit Strided(ptrdiff_t step) : stride(step) {
    int32_t steps[kLanes];
    for (int32_t i = 0; i < kLanes; ++i) steps[i] = i * static_cast<int32_t>(step);
    places = load_ints(steps);
  }
  __attribute__((always_inline)) Floats load_from(const float* line) const {
    if (stride == 1) return load(line);
    if (stride == 2) return shuffle<Even>(load(line), load(line + kLanes));
    return gather(line, places);
  }
};

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
