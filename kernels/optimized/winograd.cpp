#include "winograd.h"

#include "isa.h"
#include "packed.h"
#include "parallel.h"
#include "product.h"
#include "split.h"
#include "winograd_choice.h"

#ifndef PENLIGHT_WITHOUT_WINOGRAD

namespace penlight::optimized {

namespace {

// With rows for columns.
Geometry transposed(const Geometry& g) {
  return {g.width,    g.height,   g.out_width, g.out_height, g.taps_w,     g.taps_h,
          g.stride_w, g.stride_h, g.pad_w,     g.pad_h,      g.dilation_w, g.dilation_h};
}

// Are channels and outputs so many that products, not the transforms, take most of the time? Of groups, what
// is computed otherwise is faster until there are more of them.
bool has_products(const Product& p) {
  const dim_t channels = p.channels * p.part_count, few = routines().few_outputs, least = few > 4 ? 16 : 8;
  if (channels >= 16 && p.outputs >= 16) return true;
  return p.last_group == 1 && channels >= least && p.outputs > few &&
         channels * p.outputs >= 2 * least * least;
}

// Windows of three by three taps, of one row of three and more, or of several rows of more.
bool has_tiles(const Product& p, const Geometry& g) {
  const bool flat = g.taps_h == 1, three = g.taps_w == 3, alone = g.stride_h == 1 && g.stride_w == 1;
  const bool dense = g.dilation_w == 1 && (flat || g.dilation_h == 1);
  const bool square = three && g.taps_h == 3 && g.stride_h == g.stride_w;
  const bool shaped = square || (flat && g.taps_w >= 3) || (g.taps_w > 3 && alone && dense);
  return shaped && (g.stride_w == 1 || (g.stride_w == 2 && three && dense)) && has_products(p);
}

// Is each block to have all panels? Where there are many tiles; or where the second cache keeps the weights,
// and panels are too few for several threads, or not many more.
bool is_by_tiles(const Winograd& w, const WinogradRoutines& does, dim_t tiles) {
  if (tiles <= does.few_tiles) return false;
  const bool few = w.last_panel <= tile_panels(w) || (2 * tiles >= kTiles && w.last_panel < 2 * kWidePanels);
  return tiles > kTiles || (few && does.weights_size(w, w.last_panel) <= kNear);
}

// Of the tiles: a part has blocks of `size` but for its last. It begins anywhere: tiles are rows of products,
// whose sums are alike however many rows they have.
struct TileBlocks {
  dim_t parts, size;
};

TileBlocks blocks_of(KernelContext& ctx, const Winograd& w, dim_t tiles, dim_t most, double operations) {
  // Of few tiles are some for several threads.
  constexpr dim_t kFewTiles = 8, kParts = 4;
  const dim_t fit = tiles / kFewTiles, few = tiles > kTiles ? 1 : fit < kParts ? fit : kParts;
  const dim_t needed = (tiles + most - 1) / most, blocks = needed < few ? few : needed;
  // Blocks fill tiles of a product.
  const bool all_wide = w.wide_tiles && w.last_panel % kWidePanels == 0;
  const dim_t rows = all_wide ? routines().tile_rows / 2 : routines().tile_rows;
  const dim_t parts =
      one_a_thread(ctx, parts_of(ctx, operations, tiles > kTiles ? (tiles + rows - 1) / rows : blocks));
  const dim_t part = (tiles + parts - 1) / parts, nearest = (2 * part + most) / (2 * most);
  const dim_t even = nearest > 1 ? (part + nearest - 1) / nearest : part;
  return {parts, (even + rows - 1) / rows * rows};
}

// Does each of some parts transform for itself what all of them read? That takes less time than to read what
// another processor has written, up to the bytes that their caches have room for.
bool has_own(dim_t parts, size_t size, size_t most) {
  return parts == 1 || (parts <= most_copies() && size <= most);
}

// Each part has some tiles, a block after the other, and all panels, or a group after the other.
bool run_by_tiles(KernelContext& ctx, const WinogradRoutines& does, Winograd& w, dim_t tiles,
                  double operations) {
  const dim_t panels = w.last_panel, group = panels_at_once(w, does), most = tiles_at_once(w, does);
  const TileBlocks blocks = blocks_of(ctx, w, tiles, most, operations);
  const dim_t parts = blocks.parts;
  const size_t size = does.weights_size(w, group);
  const bool own_weights = group == panels && has_own(parts, size, kNear);
  if (!own_weights) {
    w.weights = static_cast<float*>(ctx.allocate_scratch(size, 64));
    if (!w.weights) return false;
  }
  w.last = blocks.size;
  const size_t made = own_weights ? size : 0, in = does.tiles_size(w);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, made + in + does.scratch(w), memory)) return false;
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
    if (own_weights) {
      mine.weights = reinterpret_cast<float*>(own);
      does.transform_weights(mine);
    }
    mine.tiles = reinterpret_cast<float*>(own + made);
    mine.scratch = own + made + in;
    const Range range = range_of(index, parts, tiles);
    for (mine.first = range.first; mine.first < range.last; mine.first = mine.last) {
      mine.last = mine.first + blocks.size < range.last ? mine.first + blocks.size : range.last;
      does.transform_input(mine, mine.first, mine.last);
      if (!does.compute(mine)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
    }
  };
  for (w.first_made = 0; w.first_made < panels && wild == 0; w.first_made = w.last_made) {
    w.last_made = w.first_made + group < panels ? w.first_made + group : panels;
    if (!own_weights) ctx.parallel(static_cast<size_t>(parts), transform);
    ctx.parallel(static_cast<size_t>(parts), compute);
  }
  return wild == 0;
}

// One block of tiles, and each part has some of the panels; or all of them, and some of the tiles.
bool run_by_panels(KernelContext& ctx, const WinogradRoutines& does, Winograd& w, dim_t tiles,
                   double operations) {
  const dim_t panels = w.last_panel, tile_parts = one_a_thread(ctx, parts_of(ctx, operations, tiles));
  const bool by_tiles = has_own_weights(w, does, tiles, tile_parts);
  const PanelParts cut = panel_parts_of(ctx, panels, kPanelStep, tile_panels(w), operations);
  const dim_t parts = by_tiles ? tile_parts : one_a_thread(ctx, cut.parts);
  w.last = by_tiles ? (tiles + parts - 1) / parts : tiles;
  const size_t size = does.tiles_size(w);
  const bool own_tiles = by_tiles || has_own(parts, size, 2 * kNear);
  if (!own_tiles) {
    w.tiles = static_cast<float*>(ctx.allocate_scratch(size, 64));
    if (!w.tiles) return false;
  }
  const size_t in = own_tiles ? size : 0;
  PartMemory memory;
  if (!allocate_parts(ctx, parts, in + does.scratch(w), memory)) return false;
  if (!own_tiles) {
    const dim_t makers = parts_of(ctx, operations, tiles);
    const auto transform = [&](size_t index) {
      const Range range = range_of(index, makers, tiles);
      does.transform_input(w, range.first, range.last);
    };
    ctx.parallel(static_cast<size_t>(makers), transform);
  }
  int wild = 0;
  const auto compute = [&](size_t index) {
    Winograd mine = w;
    const Range some = by_tiles ? range_of(index, parts, tiles) : Range{0, tiles};
    const Range range = by_tiles ? Range{0, panels} : range_of(index, parts, panels, cut.step);
    mine.first = some.first;
    mine.last = some.last;
    mine.first_panel = range.first;
    mine.last_panel = range.last;
    char* const own = static_cast<char*>(memory.of(index));
    if (own_tiles) {
      mine.tiles = reinterpret_cast<float*>(own);
      does.transform_input(mine, mine.first, mine.last);
    }
    mine.scratch = own + in;
    if (!does.compute(mine)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
  };
  ctx.parallel(static_cast<size_t>(parts), compute);
  return wild == 0;
}

// What one group of a convolution has of it.
Winograd with_group(const Winograd& w, dim_t group, InputPart& input) {
  Winograd own = w;
  input = {w.parts->input + group * w.channels, w.parts->pixel};
  own.parts = &input;
  const dim_t taps = w.geometry.taps_h * w.geometry.taps_w, weights = (1 + taps * w.channels) * kPanel;
  own.packed = static_cast<const char*>(w.packed) +
               group * w.last_panel * weights * kElementSizes[static_cast<int>(w.format)];
  own.output += group * w.outputs;
  if (w.epilogue.residual) own.epilogue.residual += group * w.outputs;
  return own;
}

// Each part has some blocks of tiles of some groups, whose weights it transforms itself.
bool run_by_groups(KernelContext& ctx, const WinogradRoutines& does, Winograd& w, dim_t groups, dim_t tiles,
                   double operations) {
  const dim_t most = tiles_at_once(w, does), blocks = (tiles + most - 1) / most;
  const dim_t size = (tiles + blocks - 1) / blocks;
  const size_t made = blocks > 1 ? does.weights_size(w, w.last_panel) : 0;
  dim_t parts = parts_of(ctx, operations, groups * blocks);
  if (made) parts = one_a_thread(ctx, parts);
  w.last_made = w.last_panel;
  w.last = size;
  const size_t in = does.tiles_size(w);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, made + in + does.scratch(w), memory)) return false;
  int wild = 0;
  const auto compute = [&](size_t index) {
    char* const own = static_cast<char*>(memory.of(index));
    const Range items = range_of(index, parts, groups * blocks);
    Winograd mine{};
    InputPart input{};
    for (dim_t item = items.first; item < items.last; ++item) {
      const dim_t block = item % blocks;
      if (item == items.first || block == 0) {
        mine = with_group(w, item / blocks, input);
        mine.tiles = reinterpret_cast<float*>(own + made);
        mine.scratch = own + made + in;
        if (made) {
          mine.weights = reinterpret_cast<float*>(own);
          does.transform_weights(mine);
        }
      }
      mine.first = block * size;
      mine.last = mine.first + size < tiles ? mine.first + size : tiles;
      does.transform_input(mine, mine.first, mine.last);
      if (!does.compute(mine)) __atomic_store_n(&wild, 1, __ATOMIC_RELAXED);
    }
  };
  ctx.parallel(static_cast<size_t>(parts), compute);
  return wild == 0;
}

}  // namespace

bool run_winograd(KernelContext& ctx, const Product& product, dim_t batch) {
  const bool upright = product.geometry.taps_w == 1;
  const Geometry geometry = upright ? transposed(product.geometry) : product.geometry;
  if (!has_tiles(product, geometry)) return false;
  Winograd w{};
  w.upright = upright;
  w.geometry = geometry;
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
  w.output_pitch = product.output_pitch;
  w.last_panel = product.last_panel;
  w.epilogue = product.epilogue;
  // Parts of panels are of wide tiles, of which there are to be some for several threads.
  w.wide_tiles = prefers_wide_tiles() && w.last_panel >= 2 * kWidePanels;
  const WinogradRoutines* chosen = choose_tiles(w, is_split(product));
  if (!chosen) return false;
  const dim_t tiles = chosen->tiles(w), groups = product.last_group;
  const double operations = 2.0 * static_cast<double>(chosen->points * chosen->filters(w) * tiles) *
                            static_cast<double>(w.channels) * static_cast<double>(w.outputs);
  const bool by_panels = groups == 1 && !is_by_tiles(w, *chosen, tiles);
  // Others have all panels, or all of a group, in each part.
  w.wide_tiles = by_panels ? w.wide_tiles && has_rows_for_wide(tiles)
                           : prefers_wide_tiles() && w.last_panel >= kWidePanels;
  w.fetches = fetches_weights();
  w.asks = asks_for_output();
  if (by_panels) return run_by_panels(ctx, *chosen, w, tiles, operations);
  if (groups == 1) return run_by_tiles(ctx, *chosen, w, tiles, operations);
  return panels_at_once(w, *chosen) == w.last_panel &&
         run_by_groups(ctx, *chosen, w, groups, tiles, operations * static_cast<double>(groups));
}

}  // namespace penlight::optimized

#endif
