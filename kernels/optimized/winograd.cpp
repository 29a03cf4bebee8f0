#include "winograd.h"

#include "isa.h"
#include "packed.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

bool is_plain_3x3(const Product& p) {
  const Geometry& g = p.geometry;
  return g.taps_h == 3 && g.taps_w == 3 && p.span_w == 1 && g.stride_h == 1 && g.stride_w == 1 &&
         g.dilation_h == 1 && g.dilation_w == 1 && p.pixel == p.channels && p.output_pitch == p.outputs &&
         p.channels >= 16 && p.outputs >= 16;
}

// Products at the speed of a direct convolution: those of the transformed tiles are in
// smaller matrices, and each weight is transformed, written and read again. Fitted to
// layers of residual networks on AVX2; within 10 % where it decides.
bool is_faster(const Winograd& w, double tiles) {
  const double inputs = static_cast<double>(w.channels), outputs = static_cast<double>(w.outputs);
  const double pixels = static_cast<double>(w.batch * w.geometry.out_height * w.geometry.out_width);
  const double direct = 9 * inputs * outputs * pixels;
  const double here =
      1.8 * tiles * (36 * inputs * outputs + 220 * (inputs + outputs)) + 500 * inputs * outputs;
  return here < 0.9 * direct;
}

}  // namespace

bool run_winograd(KernelContext& ctx, const Product& product, dim_t batch) {
  if (!is_plain_3x3(product) || !routines().winograd) return false;
  Winograd w{};
  w.input = product.input;
  w.packed = product.packed;
  w.output = product.output;
  w.batch = batch;
  w.channels = product.channels;
  w.outputs = product.outputs;
  w.epilogue = product.epilogue;
  w.geometry = product.geometry;
  const dim_t tiles = routines().winograd_tiles(w);
  if (!is_faster(w, static_cast<double>(tiles))) return false;

  const double operations =
      72.0 * static_cast<double>(tiles) * static_cast<double>(w.channels) * static_cast<double>(w.outputs);
  const dim_t parts = parts_of(ctx, operations, (tiles + 15) / 16);
  const size_t weights = (routines().winograd_weights_size(w) + 63) / 64 * 64;
  PartMemory memory;
  if (!allocate_parts(ctx, parts, routines().winograd_scratch(w), memory, weights)) return false;
  w.weights = reinterpret_cast<float*>(memory.base - weights);
  const dim_t panels = round_to_panel(w.outputs) / kPanel;
  const auto transform = [&](size_t index) {
    Winograd mine = w;
    const Range range = range_of(index, parts, panels);
    mine.first = range.first;
    mine.last = range.last;
    routines().winograd_weights(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), transform);
  int wild = 0;
  const auto compute = [&](size_t index) {
    Winograd mine = w;
    const Range range = range_of(index, parts, tiles);
    mine.first = range.first;
    mine.last = range.last;
    mine.scratch = memory.of(index);
    if (!routines().winograd(mine)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
  };
  ctx.parallel(static_cast<size_t>(parts), compute);
  return wild == 0;
}

}  // namespace penlight::optimized
