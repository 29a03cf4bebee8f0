// The outputs of a tile, from sums of transformed products that were transformed along one axis.
#pragma once

#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Where one vector of each output goes: of a tile whose first is at `output`, as its residual is.
struct TileOutputs {
  float* output;
  const float* residual;          // or null
  ptrdiff_t line, pixel;          // elements from output to output, down and across
  ptrdiff_t rows, columns, some;  // how many exist, and of the vector's lanes
};

// All outputs of the tile exist if it is `whole`. A sum of them, before the residual, is returned: it is not
// finite where one of them is not.
template <class Filter, bool whole, int down, int across, int points>
PENLIGHT_INLINE Floats store_outputs(const Epilogue& epilogue, const TileOutputs& to, Floats bias,
                                     const Floats (&half)[down][points]) {
  Floats all{};
  repeat<down>([&](auto i) __attribute__((always_inline)) {
    if (!whole && i >= to.rows) return;
    Floats y[across];
    Filter::output(half[i], y);
    const ptrdiff_t line = i * to.line;
    repeat<across>([&](auto j) __attribute__((always_inline)) {
      y[j] += bias;
      if (whole || j < to.columns) all += y[j];
    });
    if (to.residual) {
      repeat<across>([&](auto j) __attribute__((always_inline)) {
        if (!whole && j >= to.columns) return;
        y[j] += load_part(to.residual + line + j * to.pixel, whole ? kLanes : to.some);
      });
    }
    activate<across>(epilogue, [&](auto j) __attribute__((always_inline)) -> Floats& { return y[j]; });
    repeat<across>([&](auto j) __attribute__((always_inline)) {
      if (!whole && j >= to.columns) return;
      store_part(to.output + line + j * to.pixel, y[j], whole ? kLanes : to.some);
    });
  });
  return all;
}

template <class Filter, int down, int across, int points>
PENLIGHT_INLINE Floats store_outputs(const Epilogue& epilogue, const TileOutputs& to, Floats bias,
                                     const Floats (&half)[down][points]) {
  const bool whole = to.rows == down && to.columns == across && to.some >= kLanes;
  if (whole) return store_outputs<Filter, true, down, across>(epilogue, to, bias, half);
  return store_outputs<Filter, false, down, across>(epilogue, to, bias, half);
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
