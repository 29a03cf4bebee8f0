// How columns that are reduced are walked: some vectors of them at a time.
#pragma once

#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Lines that are summed in float32; the sums of longer columns' pieces are added to one another.
constexpr ptrdiff_t kLines = 64;

constexpr int kVectors = 4;

// Calls columns_of() for all columns: with how many vectors, where they and their results are, and how many
// columns there are.
template <class Columns>
void each_columns(const Reduce& p, Columns&& columns_of) {
  for (ptrdiff_t o = p.first; o < p.last; ++o) {
    const float* x = p.input + o * p.count * p.inner;
    float* out = p.output + o * p.inner;
    ptrdiff_t c = p.first_column;
    for (; c + kVectors * kLanes <= p.last_column; c += kVectors * kLanes) {
      columns_of(Index<kVectors>(), x + c, out + c, kVectors * kLanes);
    }
    for (; c < p.last_column; c += kLanes) columns_of(Index<1>(), x + c, out + c, p.last_column - c);
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
