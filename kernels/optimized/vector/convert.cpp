// Dense runs of 16-bit floats as float32, and of those as the former.
#include "halves.h"
#include "routines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

template <class Short>
void widen(const uint16_t* from, float* to, ptrdiff_t count) {
  ptrdiff_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, Short::load(from + i));
  if (i == count) return;
  uint16_t rest[kLanes] = {};
  memcpy(rest, from + i, static_cast<size_t>(count - i) * sizeof *rest);
  store_some(to + i, Short::load(rest), count - i);
}

template <class Short>
void narrow(const float* from, uint16_t* to, ptrdiff_t count) {
  ptrdiff_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Short::store(to + i, load(from + i));
  if (i == count) return;
  uint16_t rest[kLanes];
  Short::store(rest, load_some(from + i, count - i));
  memcpy(to + i, rest, static_cast<size_t>(count - i) * sizeof *rest);
}

}  // namespace

void widen(const Widen& run) {
  (run.format == Format::BFloat16 ? widen<BFloat16s> : widen<Float16s>)(run.input, run.output, run.count);
}

void narrow(const Narrow& run) {
  (run.format == Format::BFloat16 ? narrow<BFloat16s> : narrow<Float16s>)(run.input, run.output, run.count);
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
