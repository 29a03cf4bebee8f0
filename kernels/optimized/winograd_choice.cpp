#include "winograd_choice.h"

#include "isa.h"
#include "product.h"

#ifndef PENLIGHT_WITHOUT_WINOGRAD

namespace penlight::optimized {

namespace {

constexpr size_t kMostWeights = 24 << 20;  // bytes of transformed weights at once

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
  dim_t copies;          // most parts that each transform what all of them read
  // How many times the transforms of tiles it is worth that parts read and write the same pixels as in the
  // layers around: what two processors have read is slow to write.
  double own_tiles;
  bool fetches;  // are weights that are transformed next to be fetched?
};
Tuning tuning() {
  constexpr size_t kUsual = 2 << 20;
  switch (cores()) {
    case Cores::Intel:
      // Large blocks would crowd what the layers before and after have out of the second cache. Lines that
      // follow each other are fetched by these cores themselves, more at once than they can be told to fetch.
      return {1.25, 1.0, 3.5, 3.2, kUsual, 1 << 17, 0, 2, 0.0, false};
    // Its second cache has 1 MB. Sums of 64 columns take as much of it as 64 channels of a block, and some
    // weights are to stay there, too. What is made of the weights of a wide tile of panels crowds it, and of
    // few tiles that is most of what there is. Two parts that read what the other has transformed take a
    // tenth of the time more where their cores share no cache, and save less than that where they do.
    case Cores::Zen5:
      return {1.0, 1.2, 2.0, 0.0, 7 << 16, 7 << 16, 24, 2, 2.0, true};
    case Cores::Other:
      break;
  }
  return {1.0, 1.0, 1.0, 0.0, kUsual, kUsual, 0, 1, 0.0, true};
}
// What a direct product by the matrix unit takes of the time.
constexpr double kSplitProducts = 0.85;

// Bytes that are read from beyond the second cache: all weights for each block, or all tiles for the panels
// of each tile of a product.
double far_bytes(Winograd w, const WinogradRoutines& does, dim_t tiles) {
  const bool by_tiles = tiles > kTiles;
  w.last = tiles;
  const size_t size = by_tiles ? does.weights_size(w, w.last_panel) : does.tiles_size(w);
  if (size <= kNear) return 0;
  const dim_t most = tiles_at_once(w, does);
  const dim_t times =
      by_tiles ? (tiles + most - 1) / most : (w.last_panel + tile_panels(w) - 1) / tile_panels(w);
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
  if (tiles <= does.few_tiles) {
    // Input is put in order once more, which takes about as long, and two parts of the panels both do that.
    const double each = of.transforms * does.pixel * (4 * inputs + outputs);
    const double turns = static_cast<double>((tiles + kTilesTogether - 1) / kTilesTogether);
    return turns * of.products * does.few * pairs + count * each;
  }
  const double far = of.far_byte > 0.0 ? of.far_byte * far_bytes(w, does, tiles) : 0.0;
  return count * (of.products * products + of.transforms * transforms) + of.weights * weights + far;
}

}  // namespace

dim_t tile_panels(const Winograd& w) { return w.wide_tiles ? kWidePanels : kPanelStep; }

dim_t panels_at_once(const Winograd& w, const WinogradRoutines& does) {
  const dim_t most = static_cast<dim_t>(kMostWeights / does.weights_size(w, 1));
  const dim_t panels = w.last_panel, groups = most > 1 ? (panels + most - 1) / most : panels;
  const dim_t step = tile_panels(w);
  const dim_t some = (panels + step * groups - 1) / (step * groups) * step;
  return some < panels ? some : panels;
}

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

bool has_rows_for_wide(dim_t tiles) { return tiles >= tuning().tiles_for_wide; }

dim_t most_copies() { return tuning().copies; }

bool has_own_weights(const Winograd& w, const WinogradRoutines& does, dim_t tiles, dim_t parts) {
  if (parts < 2 || parts > most_copies()) return false;
  const Tuning of = tuning();  // for each input channel
  const double weights = does.weight * static_cast<double>(does.filters(w) * w.outputs);
  const double transforms = does.pixel * static_cast<double>(tiles);
  return of.weights * weights < of.own_tiles * of.transforms * transforms;
}

bool fetches_weights() { return tuning().fetches; }

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
    if (by_unit && one->tiles(w) <= one->few_tiles) continue;  // not measured beside the matrix unit
    const double cost = cost_of(w, *one);
    if (cost >= least) continue;
    least = cost;
    best = one;
  }
  return best;
}

}  // namespace penlight::optimized

#endif
