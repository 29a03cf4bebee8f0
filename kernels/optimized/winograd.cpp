#include "winograd.h"

#include "isa.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

bool is_plain_3x3(const Product& p) {
  return p.taps_h == 3 && p.taps_w == 3 && p.span_w == 1 && p.stride_h == 1 && p.stride_w == 1 &&
         p.dilation_h == 1 && p.dilation_w == 1 && p.pixel == p.channels && p.output_pitch == p.outputs &&
         p.channels >= 16 && p.outputs >= 16;
}

// Products at the speed of a direct convolution: those of the transformed tiles are in
// smaller matrices, and each weight is transformed, written and read again. Fitted to
// layers of residual networks on AVX2; within 10 % where it decides.
bool is_faster(const Winograd& w, double tiles) {
  const double inputs = static_cast<double>(w.channels), outputs = static_cast<double>(w.outputs);
  const double pixels = static_cast<double>(w.batch * w.out_height * w.out_width);
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
  w.residual = product.residual;
  w.output = product.output;
  w.batch = batch;
  w.channels = product.channels;
  w.outputs = product.outputs;
  w.height = product.height;
  w.width = product.width;
  w.out_height = product.out_height;
  w.out_width = product.out_width;
  w.pad_h = product.pad_h;
  w.pad_w = product.pad_w;
  w.activation = product.activation;
  w.low = product.low;
  w.high = product.high;
  const dim_t tiles = routines().winograd_tiles(w);
  if (!is_faster(w, static_cast<double>(tiles))) return false;

  const double operations =
      72.0 * static_cast<double>(tiles) * static_cast<double>(w.channels) * static_cast<double>(w.outputs);
  const dim_t parts = parts_of(ctx, operations, (tiles + 15) / 16);
  const size_t weights = (routines().winograd_weights_size(w) + 63) / 64 * 64;
  const size_t scratch = (routines().winograd_scratch(w) + 63) / 64 * 64;
  char* memory = static_cast<char*>(ctx.allocate_scratch(weights + scratch * static_cast<size_t>(parts), 64));
  if (!memory) return false;
  w.weights = reinterpret_cast<float*>(memory);
  const dim_t panels = (w.outputs + kPanel - 1) / kPanel;
  const auto transform = [&](size_t index) {
    Winograd mine = w;
    mine.first = part_begin(static_cast<dim_t>(index), parts, panels, 1);
    mine.last = part_begin(static_cast<dim_t>(index) + 1, parts, panels, 1);
    routines().winograd_weights(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), transform);
  int wild = 0;
  const auto compute = [&](size_t index) {
    Winograd mine = w;
    mine.first = part_begin(static_cast<dim_t>(index), parts, tiles, 1);
    mine.last = part_begin(static_cast<dim_t>(index) + 1, parts, tiles, 1);
    mine.scratch = memory + weights + index * scratch;
    if (!routines().winograd(mine)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
  };
  ctx.parallel(static_cast<size_t>(parts), compute);
  return wild == 0;
}

}  // namespace penlight::optimized
