#include "winograd.h"

#include "isa.h"
#include "packed.h"
#include "parallel.h"
#include "split.h"

#ifndef PENLIGHT_WITHOUT_WINOGRAD

namespace penlight::optimized {

namespace {

constexpr dim_t kTiles = 64;               // most of one block alone
constexpr size_t kNear = 3 << 19;          // bytes that stay in the second cache
constexpr size_t kMostWeights = 24 << 20;  // bytes of transformed weights at once

// Panels that are one tile of a product, which no part splits.
dim_t panel_step(const Winograd& w) { return w.wide_tiles ? kWidePanels : 2; }

// Panels whose weights are transformed at once: all, or as many as there is to be memory for.
dim_t panels_at_once(const Winograd& w, const WinogradRoutines& does) {
  const dim_t most = static_cast<dim_t>(kMostWeights / does.weights_size(w, 1));
  const dim_t panels = w.last_panel, groups = most > 1 ? (panels + most - 1) / most : panels;
  const dim_t step = panel_step(w);
  const dim_t some = (panels + step * groups - 1) / (step * groups) * step;
  return some < panels ? some : panels;
}

// With rows for columns.
Geometry transposed(const Geometry& g) {
  return {g.width,    g.height,   g.out_width, g.out_height, g.taps_w,     g.taps_h,
          g.stride_w, g.stride_h, g.pad_w,     g.pad_h,      g.dilation_w, g.dilation_h};
}

// Windows of three by three taps, of one row of three and more, or of several rows of more.
bool has_tiles(const Product& p, const Geometry& g) {
  const bool flat = g.taps_h == 1, three = g.taps_w == 3, alone = g.stride_h == 1 && g.stride_w == 1;
  const bool dense = g.dilation_w == 1 && (flat || g.dilation_h == 1);
  const bool square = three && g.taps_h == 3 && g.stride_h == g.stride_w;
  const bool shaped = square || (flat && g.taps_w >= 3) || (g.taps_w > 3 && alone && dense);
  return shaped && (g.stride_w == 1 || (g.stride_w == 2 && three && dense)) &&
         (p.parts || p.pixel == p.channels) && p.output_pitch == p.outputs &&
         p.channels * p.part_count >= 16 && p.outputs >= 16;
}

// How many taps of the windows along an axis lie within an image of `size`.
double taps_within(dim_t taps, dim_t size, dim_t outputs, dim_t stride, dim_t pad, dim_t dilation) {
  dim_t count = 0;
  for (dim_t tap = 0; tap < taps; ++tap) {
    const dim_t first = tap * dilation - pad;  // of the first window
    const dim_t before = first < 0 ? (stride - 1 - first) / stride : 0;
    const dim_t until = first < size ? (size - first + stride - 1) / stride : 0;
    const dim_t last = until < outputs ? until : outputs;
    if (last > before) count += last - before;
  }
  return static_cast<double>(count);
}

// What was measured of each kind of cores.
struct Tuning {
  // How much longer than by the table, which is of Zen 4, they take beside a direct product; and how many
  // products they could do for each byte that the second cache has no room for, each time.
  double products, transforms, weights, far_byte;
  size_t most_input;     // of a block's transformed input, in bytes, if it is more than a few tiles
  size_t near_input;     // the same where all weights stay near
  dim_t tiles_for_wide;  // from which on parts of the panels are of wide tiles
  bool fetches;          // are weights that are transformed next to be fetched?
};
Tuning tuning() {
  constexpr size_t kUsual = 2 << 20;
  switch (cores()) {
    case Cores::Intel:
      // Large blocks would crowd what the layers before and after have out of the second cache. Lines that
      // follow each other are fetched by these cores themselves, more at once than they can be told to fetch.
      return {1.25, 1.0, 3.5, 3.2, kUsual, 1 << 17, 0, false};
    // Its second cache has 1 MB. Sums of 64 columns take as much of it as 64 channels of a block, and some
    // weights are to stay there, too. What is made of the weights of a wide tile of panels crowds it, and of
    // few tiles that is most of what there is.
    case Cores::Zen5:
      return {1.0, 1.2, 2.0, 0.0, 7 << 16, 7 << 16, 24, true};
    case Cores::Other:
      break;
  }
  return {1.0, 1.0, 1.0, 0.0, kUsual, kUsual, 0, true};
}
// What a direct product by the matrix unit takes of the time.
constexpr double kSplitProducts = 0.85;

// Tiles of a block: their input is to stay in a near cache, but weights are read for each block.
dim_t tiles_at_once(Winograd w, const WinogradRoutines& does) {
  w.last = 1;
  const Tuning of = tuning();
  const bool near = of.near_input < of.most_input && does.weights_size(w, w.last_panel) <= kNear;
  const size_t most = near ? of.near_input : of.most_input;
  const dim_t few = near ? 12 : 24;
  dim_t fit = static_cast<dim_t>(most / does.tiles_size(w));
  if (does.filters(w) > 1) {  // each of whose tiles are those of the next one, too
    for (fit = w.last = does.most_tiles; fit > few && does.tiles_size(w) > most; w.last = fit) --fit;
  }
  return fit < few ? few : fit < does.most_tiles ? fit : does.most_tiles;
}

// Bytes that are read from beyond the second cache: all weights for each block, or all tiles for the panels
// of each tile of a product.
double far_bytes(Winograd w, const WinogradRoutines& does, dim_t tiles) {
  const bool by_tiles = tiles > kTiles;
  w.last = tiles;
  const size_t size = by_tiles ? does.weights_size(w, w.last_panel) : does.tiles_size(w);
  if (size <= kNear) return 0;
  const dim_t most = tiles_at_once(w, does);
  const dim_t times =
      by_tiles ? (tiles + most - 1) / most : (w.last_panel + panel_step(w) - 1) / panel_step(w);
  return static_cast<double>(size) * static_cast<double>(times);
}

// In products at the speed of a direct convolution. Those of transformed tiles are in smaller
// matrices, 6 % slower, and each weight is transformed, written and read again.
double cost_of(const Winograd& w, const WinogradRoutines& does) {
  const double inputs = static_cast<double>(w.channels), outputs = static_cast<double>(w.outputs);
  const double pairs = static_cast<double>(does.filters(w)) * inputs * outputs;
  const double products = 1.06 * static_cast<double>(does.points) * pairs;
  const dim_t tiles = does.tiles(w), at_once = panels_at_once(w, does);
  const double times = tiles > kTiles ? static_cast<double>((w.last_panel + at_once - 1) / at_once) : 1;
  // Of several rows a block has the lines behind it, too.
  const double lines = w.geometry.taps_h > 1 && w.geometry.taps_w > 3 ? 2.0 : 1.0;
  const double transforms = does.pixel * (inputs * times * lines + outputs), weights = does.weight * pairs;
  const double count = static_cast<double>(tiles);
  const Tuning of = tuning();
  const double far = of.far_byte > 0.0 ? of.far_byte * far_bytes(w, does, tiles) : 0.0;
  return count * (of.products * products + of.transforms * transforms) + of.weights * weights + far;
}

// The fastest tiles; null if a direct convolution is about as fast.
const WinogradRoutines* choose_tiles(const Winograd& w, bool by_unit) {
  const Routines& all = routines();
  const Geometry& g = w.geometry;
  const bool strided = g.stride_w == 2;
  const WinogradRoutines* const images[] = {strided ? all.strided_winograd_4x4 : all.winograd_4x4,
                                            strided ? all.strided_winograd_2x2 : all.winograd_2x2};
  const WinogradRoutines* const rows[] = {strided ? all.strided_winograd_4 : all.winograd_4};
  const WinogradRoutines* const longer[] = {all.winograd_4_of_5, all.winograd_4_of_7};
  const ArrayRef<const WinogradRoutines*> candidates =
      g.taps_w > 3   ? ArrayRef<const WinogradRoutines*>(longer)
      : g.taps_h > 1 ? ArrayRef<const WinogradRoutines*>(images)
                     : ArrayRef<const WinogradRoutines*>(rows);
  if (!candidates[0]) return nullptr;
  // The direct way leaves out taps beyond the image.
  const double taps = taps_within(g.taps_h, g.height, g.out_height, g.stride_h, g.pad_h, g.dilation_h) *
                      taps_within(g.taps_w, g.width, g.out_width, g.stride_w, g.pad_w, g.dilation_w);
  const double direct =
      static_cast<double>(w.batch * w.channels * w.outputs) * taps * (by_unit ? kSplitProducts : 1.0);
  const WinogradRoutines* best = nullptr;
  double least = 0.97 * direct;
  for (const WinogradRoutines* one : candidates) {
    const double cost = cost_of(w, *one);
    if (cost >= least) continue;
    least = cost;
    best = one;
  }
  return best;
}

// Is each block to have all panels? Where there are many tiles; or where the second cache keeps the weights,
// and panels are too few for several threads, or not many more.
bool is_by_tiles(const Winograd& w, const WinogradRoutines& does, dim_t tiles) {
  const bool few = w.last_panel <= panel_step(w) || (2 * tiles >= kTiles && w.last_panel < 2 * kWidePanels);
  return tiles > kTiles || (few && does.weights_size(w, w.last_panel) <= kNear);
}

// Of the tiles: a part has blocks of `size` but for its last.
struct TileBlocks {
  dim_t parts, size, step;  // no part splits a step
};

TileBlocks blocks_of(KernelContext& ctx, const Winograd& w, dim_t tiles, dim_t most, double operations) {
  // Of few tiles are some for several threads.
  constexpr dim_t kFewTiles = 8, kParts = 4;
  const dim_t fit = tiles / kFewTiles, few = tiles > kTiles ? 1 : fit < kParts ? fit : kParts;
  const dim_t needed = (tiles + most - 1) / most, blocks = needed < few ? few : needed;
  const dim_t block = (tiles + blocks - 1) / blocks;
  // A block of narrow tiles of a product sums as its size has it, whoever computes it.
  const bool all_wide = w.wide_tiles && w.last_panel % kWidePanels == 0;
  if (!all_wide) return {parts_of(ctx, operations, blocks), block, block};
  // Wide ones sum alike however many rows they have: blocks fill them, and parts begin anywhere.
  const dim_t rows = routines().tile_rows / 2;
  const dim_t parts = parts_of(ctx, operations, tiles > kTiles ? (tiles + rows - 1) / rows : blocks);
  const dim_t part = (tiles + parts - 1) / parts, nearest = (2 * part + most) / (2 * most);
  const dim_t even = nearest > 1 ? (part + nearest - 1) / nearest : part;
  return {parts, (even + rows - 1) / rows * rows, 1};
}

// Each part has some tiles, a block after the other, and all panels, or a group after the other.
bool run_by_tiles(KernelContext& ctx, const WinogradRoutines& does, Winograd& w, dim_t tiles,
                  double operations) {
  const dim_t panels = w.last_panel, group = panels_at_once(w, does), most = tiles_at_once(w, does);
  const TileBlocks blocks = blocks_of(ctx, w, tiles, most, operations);
  const dim_t parts = blocks.parts;
  char* made = static_cast<char*>(ctx.allocate_scratch(does.weights_size(w, group), 64));
  if (!made) return false;
  w.weights = reinterpret_cast<float*>(made);
  w.last = blocks.size;
  const size_t in = does.tiles_size(w);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, in + does.scratch(w), memory)) return false;
  const auto transform = [&](size_t index) {
    Winograd mine = w;
    const Range range = range_of(index, parts, w.last_made - w.first_made);
    mine.first_panel = w.first_made + range.first;
    mine.last_panel = w.first_made + range.last;
    does.transform_weights(mine);
  };
  int wild = 0;
  const auto compute = [&](size_t index) {
    Winograd mine = w;
    char* own = static_cast<char*>(memory.of(index));
    mine.first_panel = w.first_made;
    mine.last_panel = w.last_made;
    mine.tiles = reinterpret_cast<float*>(own);
    mine.scratch = own + in;
    const Range range = range_of(index, parts, tiles, blocks.step);
    for (mine.first = range.first; mine.first < range.last; mine.first = mine.last) {
      mine.last = mine.first + blocks.size < range.last ? mine.first + blocks.size : range.last;
      does.transform_input(mine, mine.first, mine.last);
      if (!does.compute(mine)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
    }
  };
  for (w.first_made = 0; w.first_made < panels && wild == 0; w.first_made = w.last_made) {
    w.last_made = w.first_made + group < panels ? w.first_made + group : panels;
    ctx.parallel(static_cast<size_t>(parts), transform);
    ctx.parallel(static_cast<size_t>(parts), compute);
  }
  return wild == 0;
}

// One block of tiles, and each part has some of the panels.
bool run_by_panels(KernelContext& ctx, const WinogradRoutines& does, Winograd& w, dim_t tiles,
                   double operations) {
  const dim_t panels = w.last_panel, step = panel_step(w);
  const dim_t parts = parts_of(ctx, operations, (panels + step - 1) / step);
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
    const Range range = range_of(index, parts, panels, step);
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
  Winograd w{};
  w.upright = product.geometry.taps_w == 1;
  w.geometry = w.upright ? transposed(product.geometry) : product.geometry;
  if (!has_tiles(product, w.geometry)) return false;
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
  // Parts of panels are of wide tiles, of which there are to be some for several threads.
  w.wide_tiles = prefers_wide_tiles() && w.last_panel >= 2 * kWidePanels;
  const WinogradRoutines* chosen = choose_tiles(w, is_split(product));
  if (!chosen) return false;
  const dim_t tiles = chosen->tiles(w);
  const double operations = 2.0 * static_cast<double>(chosen->points * chosen->filters(w) * tiles) *
                            static_cast<double>(w.channels) * static_cast<double>(w.outputs);
  if (!is_by_tiles(w, *chosen, tiles)) {
    w.wide_tiles = w.wide_tiles && tiles >= tuning().tiles_for_wide;
    w.fetches = tuning().fetches;
    return run_by_panels(ctx, *chosen, w, tiles, operations);
  }
  w.wide_tiles = prefers_wide_tiles() && w.last_panel >= kWidePanels;  // parts have all panels
  return run_by_tiles(ctx, *chosen, w, tiles, operations);
}

}  // namespace penlight::optimized

#endif
