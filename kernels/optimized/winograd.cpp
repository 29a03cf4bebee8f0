#include "winograd.h"

#include "isa.h"
#include "packed.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kTiles = 64;  // most of one block alone

// Of windows dilated so far that many taps lie beyond the image, the direct way leaves these out.
bool is_plain_3x3(const Product& p) {
  const Geometry& g = p.geometry;
  const bool dense = g.dilation_h == 1 && g.dilation_w == 1;
  const bool near = 6 * g.dilation_h <= g.out_height && 6 * g.dilation_w <= g.out_width;
  const bool fits = g.stride_h == 1 ? dense || near : g.stride_h == 2 && dense;
  return g.taps_h == 3 && g.taps_w == 3 && g.stride_h == g.stride_w && fits &&
         (p.parts || p.pixel == p.channels) && p.output_pitch == p.outputs &&
         p.channels * p.part_count >= 16 && p.outputs >= 16;
}

// In products at the speed of a direct convolution. Those of transformed tiles are in smaller
// matrices, and each weight is transformed, written and read again.
double cost_of(const Winograd& w, const WinogradRoutines& does) {
  const double inputs = static_cast<double>(w.channels), outputs = static_cast<double>(w.outputs);
  const double products = 1.06 * static_cast<double>(does.points);
  return static_cast<double>(does.tiles(w)) *
             (products * inputs * outputs + does.pixel * (inputs + outputs)) +
         does.weight * inputs * outputs;
}

// The fastest tiles; null if a direct convolution is about as fast.
const WinogradRoutines* choose_tiles(const Winograd& w) {
  const Routines& all = routines();
  const bool strided = w.geometry.stride_h == 2;
  const WinogradRoutines* const large = strided ? all.strided_winograd_4x4 : all.winograd_4x4;
  const WinogradRoutines* const small = strided ? all.strided_winograd_2x2 : all.winograd_2x2;
  if (!large) return nullptr;
  const double pixels = static_cast<double>(w.batch * w.geometry.out_height * w.geometry.out_width);
  const double direct = 9 * static_cast<double>(w.channels) * static_cast<double>(w.outputs) * pixels;
  const double of_large = cost_of(w, *large), of_small = cost_of(w, *small);
  if ((of_large < of_small ? of_large : of_small) >= 0.97 * direct) return nullptr;
  return of_large < of_small ? large : small;
}

// Many tiles: each part has some, a block after the other, and all panels.
bool run_by_tiles(KernelContext& ctx, const WinogradRoutines& does, Winograd& w, dim_t tiles,
                  double operations) {
  const dim_t panels = round_to_panel(w.outputs) / kPanel, most = does.most_tiles;
  const dim_t blocks = (tiles + most - 1) / most;
  const dim_t parts = parts_of(ctx, operations, blocks), block = (tiles + blocks - 1) / blocks;
  const size_t weights = does.weights_size(w, panels);
  char* made = static_cast<char*>(ctx.allocate_scratch(weights, 64));
  if (!made) return false;
  w.weights = reinterpret_cast<float*>(made);
  w.last = block;
  const size_t in = does.tiles_size(w);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, in + does.scratch(w), memory)) return false;
  const dim_t makers = parts_of(ctx, operations, panels);
  const auto transform = [&](size_t index) {
    Winograd mine = w;
    const Range range = range_of(index, makers, panels);
    mine.first_panel = range.first;
    mine.last_panel = range.last;
    does.transform_weights(mine);
  };
  ctx.parallel(static_cast<size_t>(makers), transform);
  int wild = 0;
  const auto compute = [&](size_t index) {
    Winograd mine = w;
    char* own = static_cast<char*>(memory.of(index));
    mine.tiles = reinterpret_cast<float*>(own);
    mine.scratch = own + in;
    const Range range = range_of(index, parts, tiles, block);
    for (mine.first = range.first; mine.first < range.last; mine.first = mine.last) {
      mine.last = mine.first + block < range.last ? mine.first + block : range.last;
      does.transform_input(mine, mine.first, mine.last);
      if (!does.compute(mine)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
    }
  };
  ctx.parallel(static_cast<size_t>(parts), compute);
  return wild == 0;
}

// Few tiles: one block, and each part has some of the panels.
bool run_by_panels(KernelContext& ctx, const WinogradRoutines& does, Winograd& w, dim_t tiles,
                   double operations) {
  const dim_t panels = w.last_panel, parts = parts_of(ctx, operations, (panels + 1) / 2);
  w.last = tiles;
  char* made = static_cast<char*>(ctx.allocate_scratch(does.tiles_size(w), 64));
  PartMemory memory;
  if (!made || !allocate_parts(ctx, parts, does.scratch(w), memory)) return false;
  w.tiles = reinterpret_cast<float*>(made);
  const dim_t makers = parts_of(ctx, operations, tiles);
  const auto transform = [&](size_t index) {
    const Range range = range_of(index, makers, tiles);
    does.transform_input(w, range.first, range.last);
  };
  ctx.parallel(static_cast<size_t>(makers), transform);
  int wild = 0;
  const auto compute = [&](size_t index) {
    Winograd mine = w;
    const Range range = range_of(index, parts, panels, 2);
    mine.first_panel = range.first;
    mine.last_panel = range.last;
    mine.scratch = memory.of(index);
    if (!does.compute(mine)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
  };
  ctx.parallel(static_cast<size_t>(parts), compute);
  return wild == 0;
}

}  // namespace

bool run_winograd(KernelContext& ctx, const Product& product, dim_t batch) {
  if (!is_plain_3x3(product)) return false;
  Winograd w{};
  const InputPart whole = {product.input, product.pixel};
  w.parts = product.parts ? product.parts : &whole;
  w.part_channels = product.channels;
  w.part_count = product.part_count;
  w.packed = product.packed;
  w.format = product.format;
  w.output = product.output;
  w.batch = batch;
  w.channels = product.channels * product.part_count;
  w.outputs = product.outputs;
  w.last_panel = product.last_panel;
  w.epilogue = product.epilogue;
  w.geometry = product.geometry;
  const WinogradRoutines* chosen = choose_tiles(w);
  if (!chosen) return false;
  const dim_t tiles = chosen->tiles(w);
  const double operations = 2.0 * static_cast<double>(chosen->points * tiles) *
                            static_cast<double>(w.channels) * static_cast<double>(w.outputs);
  if (tiles <= kTiles) return run_by_panels(ctx, *chosen, w, tiles, operations);
  return run_by_tiles(ctx, *chosen, w, tiles, operations);
}

}  // namespace penlight::optimized
