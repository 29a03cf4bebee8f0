// Convolution by 3x3 windows, or by rows or columns of taps, in the domain of Winograd's minimal
// filtering (Lavin & Gray 2015, arXiv:1509.09308), for tiles of 4x4 and of 2x2 outputs, or 4 in a row.
//
// With stride 1, an input tile of 6x6 pixels (4x4), transformed, is 36 (16) numbers for each
// channel, and so are the weights. Where a direct sum needs 144 (36) products for the 16 (4)
// outputs of a tile, 36 (16) do; with stride 2, whose tiles have 9x9 pixels (5x5), 81 (25) do.
// Where the window is dilated, so are the tiles: they are of every second output, say.
// A row of many taps is several filters, four taps apart: so far apart are tiles, and the input of one filter
// is that of the next one for the tile before. So are several rows, one a line behind the other.
// The products of many tiles are matrix products, one for each number of the weights, which
// product.cpp computes. A block of tiles meets the weights a panel or two at a time, so
// that what is between the transforms stays in the second cache. With one block each
// weight is used once, and transformed just before, for some channels at a time, so that
// it never leaves that cache; with several blocks all are transformed first. Small tiles
// are for small images: they fit more closely, and their weights are made in about half
// the time.
//
// Outputs of F(4x4) differ from a direct sum by about 1e-5 of their range. A NaN, an
// infinity or a sum near the largest float would reach all outputs of its tile: the caller
// is told, and computes directly.
#include "halves.h"
#include "spread_rows.h"
#include "strip.h"
#include "winograd_few_tiles.h"
#include "winograd_filters.h"
#include "winograd_outputs.h"
#include "winograd_pairs.h"
#include "winograd_places.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Panels of outputs that are computed at once: those of a tile's columns.
constexpr ptrdiff_t kGroup = kStripColumns / kPanel > 1 ? kStripColumns / kPanel : 1;
bool has_wide_tiles(const Winograd& w) { return kHasWideTiles && w.wide_tiles; }
ptrdiff_t group_of(const Winograd& w) { return has_wide_tiles(w) ? kWidePanels : kGroup; }

// Elements between the ends of planes: a multiple of 4 KB from plane to plane would put
// what is written for one tile into one set of the first cache.
constexpr ptrdiff_t kGap = 16;

// Goes on by `distance`. Else compilers keep a register, or a place on the stack, for each of
// the many addresses.
template <class Pointer>
PENLIGHT_INLINE void step(Pointer& pointer, ptrdiff_t distance) {
  pointer += distance;
  __asm__("" : "+r"(pointer));
}

struct Span {
  ptrdiff_t first, last;
};

// Calls body(Weights()) with how weights of a format are read.
template <class Body>
PENLIGHT_INLINE void with_format(Format format, Body&& body) {
#ifndef PENLIGHT_WITHOUT_SHORT_PRODUCT
  if (format == Format::BFloat16) return body(BFloat16s());
  if (format == Format::Float16) return body(Float16s());
#endif
  body(Singles());
}

ptrdiff_t size_of(Format format) { return kElementSizes[static_cast<int>(format)]; }

template <int kStride, int kOut, int taps>
struct FilterOf {
  using Filter = PairFilter<kOut, taps>;
};
template <int kStride, int kOut>
struct FilterOf<kStride, kOut, 3> {
  using Filter = PENLIGHT_ISA::Filter<kStride, kOut>;
};

// Tiles of kOut x kOut outputs; with `flat` of kOut in a row, for windows of rows. Windows have
// kTapsAcross taps along an axis.
template <int kStride, int kOut, bool flat = false, int kTapsAcross = 3>
struct Tiles : TilePlaces<kOut, flat, kTapsAcross> {
  using Places = TilePlaces<kOut, flat, kTapsAcross>;
  using Places::apart_down, Places::behind, Places::filters, Places::filters_across, Places::has_filters;
  using Places::input_of, Places::inputs_across, Places::kOutDown, Places::most_inputs;
  using Places::outputs_from, Places::place_of, Places::taps_of, Places::tiles_across, Places::tiles_down;
  using Filter = typename FilterOf<kStride, kOut, kTapsAcross>::Filter;
  // Along an axis: inputs, which are as many when transformed, and transformed weights. The last weight
  // is that of kShared points, the others are of one each.
  static constexpr int kIn = kStride * (kOut - 1) + kTapsAcross, kWeights = kOut + kTapsAcross - 1;
  static constexpr int kShared = kIn - kWeights + 1, kAlone = kWeights - 1;
  // The same along the other axis.
  static constexpr int kInDown = flat ? 1 : kIn, kTapsDown = flat ? 1 : kTapsAcross;
  static constexpr int kWeightsDown = flat ? 1 : kWeights, kMostShared = flat ? kShared : kShared * kShared;
  static constexpr int kPoints = kInDown * kIn, kMatrices = kWeightsDown * kWeights;
  // Channels whose weights are transformed at once: the planes of them are 256 to 288 KB.
  static constexpr ptrdiff_t kChannels = 4608 / kMatrices / 64 * 64 / kGroup;

  // Points in the order of their planes, so that those of one weight lie together.
  static constexpr int plane_of(int i, int j) {
    const int down = i - kAlone, across = j - kAlone;
    if (down < 0) return i * kIn + j;
    if (across < 0) return kAlone * kIn + j * kShared + down;
    return kAlone * kIn + kAlone * kShared + down * kShared + across;
  }
  static constexpr int weight_of(int i, int j) {
    return (i < kAlone ? i : kAlone) * kWeights + (j < kAlone ? j : kAlone);
  }

  // Elements from tile to tile of one point.
  static ptrdiff_t input_pitch(const Winograd& w) { return w.channels + (crowds(w.channels) ? kLine : 0); }
  static ptrdiff_t input_plane(const Winograd& w) { return most_inputs(w) * input_pitch(w) + kGap; }
  // The rows of one weight's points follow each other.
  static ptrdiff_t output_plane(const Winograd& w) { return (w.last - w.first) * group_of(w) * kPanel; }
  static ptrdiff_t sums_of(const Winograd& w, int i, int j) {
    return plane_of(i, j) * output_plane(w) + weight_of(i, j) * kGap;
  }
  static ptrdiff_t all_sums(const Winograd& w) { return kPoints * output_plane(w) + kMatrices * kGap; }
  // Weights of one product: for each panel a row of zeros to start from, and its channels.
  static ptrdiff_t weights_plane(ptrdiff_t panels, ptrdiff_t channels) {
    return panels * (1 + channels) * kPanel;
  }
  static ptrdiff_t all_channels(const Winograd& w) { return filters(w) * w.channels; }

  // A row of a tile's pixels of some channels, `some` of them left; zeros beyond the image.
  PENLIGHT_INLINE void load_row(const Winograd& w, const float* image, ptrdiff_t pixel, ptrdiff_t row,
                                ptrdiff_t left, ptrdiff_t some, Floats (&d)[kIn]) {
    const Geometry& g = w.geometry;
    const bool exists = row >= 0 && row < g.height, upright = flat && w.upright;
    const ptrdiff_t step = (upright ? g.height : 1) * pixel, apart = g.dilation_w;
    const float* const line = image + row * (upright ? pixel : g.width * pixel);
    if (exists && some >= kLanes && left >= 0 && left + (kIn - 1) * apart < g.width) {
      for (int j = 0; j < kIn; ++j) d[j] = load(line + (left + j * apart) * step);
      return;
    }
    for (int j = 0; j < kIn; ++j) {
      const bool inside = exists && left + j * apart >= 0 && left + j * apart < g.width;
      d[j] = inside ? load_part(line + (left + j * apart) * step, some) : Floats{};
    }
  }

  // Weights of some panels and channels, transformed, of a filter of the window; panels are so far apart.
  static void transform_panels(const Winograd& w, Span panels, Span channels, ptrdiff_t filter, float* to,
                               ptrdiff_t plane, ptrdiff_t panel) {
    with_format(w.format, [&](auto weights) {
      transform_panels<decltype(weights)>(w, panels, channels, filter, to, plane, panel);
    });
  }

  template <class Weights>
  static void transform_panels(const Winograd& w, Span panels, Span channels, ptrdiff_t filter, float* to,
                               ptrdiff_t plane, ptrdiff_t panel) {
    using Element = typename Weights::Element;
    const ptrdiff_t tap = w.channels * kPanel, count = (channels.last - channels.first) * kPanel;
    const ptrdiff_t across = filters_across(w), row = filter / across, first = filter % across * kOut;
    const ptrdiff_t taps = filter % across + 1 < across ? kOut : w.geometry.taps_w - first;
    for (ptrdiff_t p = panels.first; p < panels.last; ++p, to += panel) {
      const Element* from = static_cast<const Element*>(w.packed) +
                            (p * (1 + taps_of(w) * w.channels) + 1 + channels.first) * kPanel +
                            (row * w.geometry.taps_w + first) * tap;
      for (ptrdiff_t at = 0; at < count; at += kLanes) {
        const Element* taken = from + at;
        Floats g[kTapsAcross][kTapsDown], columns[kTapsAcross][kWeightsDown];
        for (int i = 0; i < kTapsDown; ++i) {
          for (int j = 0; j < kTapsAcross; ++j, step(taken, tap)) {
            g[j][i] = !has_filters || j < taps ? Weights::load(taken) : Floats{};
          }
        }
        for (int j = 0; j < kTapsAcross; ++j) {
          if constexpr (flat) {
            columns[j][0] = g[j][0];
          } else {
            Filter::weights(g[j], columns[j]);
          }
        }
        float* made = to + at;
        for (int i = 0; i < kWeightsDown; ++i) {
          Floats row[kTapsAcross], u[kWeights];
          for (int j = 0; j < kTapsAcross; ++j) row[j] = columns[j][i];
          Filter::weights(row, u);
          for (int j = 0; j < kWeights; ++j, step(made, plane)) store(made, u[j]);
        }
      }
    }
  }

  // What the sums of some panels start from, which are so far apart.
  static void clear_starts(ptrdiff_t panels, float* to, ptrdiff_t plane, ptrdiff_t panel) {
    for (ptrdiff_t p = 0; p < panels; ++p, to += panel) {
      for (int matrix = 0; matrix < kMatrices; ++matrix)
        memset(to + matrix * plane, 0, kPanel * sizeof(float));
    }
  }

  // Where element `at` of the file's weights lies: to fetch, not to read.
  static const float* packed_at(const Winograd& w, ptrdiff_t at) {
    return reinterpret_cast<const float*>(static_cast<const char*>(w.packed) + at * size_of(w.format));
  }

  static Floats load_packed(const Winograd& w, ptrdiff_t at) {
    Floats value;
    with_format(w.format, [&](auto weights) {
      using Weights = decltype(weights);
      value = Weights::load(static_cast<const typename Weights::Element*>(w.packed) + at);
    });
    return value;
  }

  // How far into the results the first output of a tile is; and where others of it are.
  static ptrdiff_t outputs_of(const Winograd& w, ptrdiff_t tile, TileOutputs& to) {
    const Geometry& g = w.geometry;
    const Place place = place_of(w, tile, tiles_across(g), tiles_down(g));
    to.rows = outputs_from(place.top, g.out_height, apart_down(g), kOutDown);
    to.columns = outputs_from(place.left, g.out_width, g.dilation_w, kOut);
    const bool upright = flat && w.upright;
    const ptrdiff_t line = (upright ? 1 : g.out_width) * w.output_pitch;
    const ptrdiff_t pixel = (upright ? g.out_height : 1) * w.output_pitch;
    to.line = apart_down(g) * line;
    to.pixel = g.dilation_w * pixel;
    return place.image * g.out_height * g.out_width * w.output_pitch + place.top * line + place.left * pixel;
  }

  // Asks for the lines to which outputs [first, last) of one of `parts` of the block are written: what
  // another processor has read is slow to write, and few lines are on their way at once. Inline, or compilers
  // leave calls that only fetch away.
  PENLIGHT_INLINE void fetch_outputs(const Winograd& w, ptrdiff_t first, ptrdiff_t last, ptrdiff_t part,
                                     ptrdiff_t parts) {
    const ptrdiff_t lines = kOutDown * (w.last - w.first);
    const ptrdiff_t end = lines * (part + 1) / parts;
    TileOutputs to{};
    ptrdiff_t corner = 0, tile = -1;
    for (ptrdiff_t i = lines * part / parts; i < end; ++i) {
      if (i / kOutDown != tile) {
        tile = i / kOutDown;
        corner = outputs_of(w, w.first + tile, to);
      }
      if (i % kOutDown >= to.rows) continue;
      const float* pixel = w.output + corner + i % kOutDown * to.line;
      for (ptrdiff_t j = 0; j < to.columns; ++j, pixel += to.pixel) {
        for (ptrdiff_t n = first; n < last; n += kPanel) __builtin_prefetch(pixel + n, 1, 3);
      }
    }
  }

  // Outputs [first, last) of the block's tiles, from their transformed sums. False if one is
  // not finite.
  static bool finish(const Winograd& w, ptrdiff_t first, ptrdiff_t last, const float* from) {
    const ptrdiff_t pitch = group_of(w) * kPanel;
    const ptrdiff_t panel_size = (1 + taps_of(w) * w.channels) * kPanel;
    Ints wild{};
    for (ptrdiff_t t = w.first; t < w.last; ++t) {
      TileOutputs to{};
      const ptrdiff_t corner = outputs_of(w, t, to);
      for (ptrdiff_t n = first; n < last; n += kLanes) {
        to.some = w.outputs - n;
        to.output = w.output + corner + n;
        to.residual = w.epilogue.residual ? w.epilogue.residual + corner + n : nullptr;
        const Floats bias = load_packed(w, n / kPanel * panel_size + n % kPanel);
        const float* sums = from + (t - w.first) * pitch + n - first;
        Floats half[kOutDown][kIn];
        for (int j = 0; j < kIn; ++j) {
          Floats m[kInDown], y[kOutDown];
          for (int i = 0; i < kInDown; ++i) m[i] = load(sums + sums_of(w, i, j));
          if constexpr (flat) {
            y[0] = m[0];
          } else {
            Filter::output(m, y);
          }
          for (int i = 0; i < kOutDown; ++i) half[i][j] = y[i];
        }
        const Floats all = store_outputs<Filter, kOutDown, kOut>(w.epilogue, to, bias, half);
        wild |= all - all != Floats{};
      }
    }
    return !has_any(wild);
  }

  static size_t weights_size(const Winograd& w, ptrdiff_t panels) {
    return static_cast<size_t>(kMatrices * weights_plane(panels, all_channels(w))) * sizeof(float);
  }

  static size_t tiles_size(const Winograd& w) {
    return static_cast<size_t>(kPoints * input_plane(w)) * sizeof(float);
  }

  static void weights(const Winograd& w) {
    const ptrdiff_t plane = weights_plane(w.last_made - w.first_made, all_channels(w));
    const ptrdiff_t panel = weights_plane(1, all_channels(w));
    float* to = w.weights + (w.first_panel - w.first_made) * panel;
    clear_starts(w.last_panel - w.first_panel, to, plane, panel);
    for (ptrdiff_t filter = 0; filter < filters(w); ++filter) {
      transform_panels(w, {w.first_panel, w.last_panel}, {0, w.channels}, filter,
                       to + (1 + filter * w.channels) * kPanel, plane, panel);
    }
  }

  // Pixels that a tile reads and the one before it did not: so many, from one on.
  struct Pixels {
    const float* first;
    ptrdiff_t rows, columns;
  };
  static Pixels new_pixels(const Winograd& w, const InputPart& part, const Place& place) {
    const Geometry& g = w.geometry;
    const ptrdiff_t top = place.top * g.stride_h - g.pad_h, left = place.left * kStride - g.pad_w;
    const ptrdiff_t row = max_of(top + kInDown - kOutDown, 0), column = max_of(left + kIn - kOut, 0);
    const ptrdiff_t rows = min_of(top + kInDown, g.height) - row;
    const ptrdiff_t columns = min_of(left + kIn, g.width) - column;
    // Those of signals follow each other, and those of dilated windows are others.
    if (!w.asks || flat || g.dilation_h > 1 || g.dilation_w > 1 || rows <= 0 || columns <= 0) return {};
    return {part.input + ((place.image * g.height + row) * g.width + column) * part.pixel, rows, columns};
  }

  // Of `place`; the new pixels of the `next` tile are had closer.
  static void input_part(const Winograd& w, const InputPart& part, const Place& place, const Place& next,
                         float* to) {
    const Geometry& g = w.geometry;
    const Pixels ahead = new_pixels(w, part, next);
    const ptrdiff_t plane = input_plane(w), channels = w.part_channels;
    const float* image = part.input + place.image * g.height * g.width * part.pixel;
    for (ptrdiff_t c = 0; c < channels; c += kLanes) {
      for (ptrdiff_t i = 0; i < ahead.rows; ++i) {
        const float* pixel = ahead.first + i * g.width * part.pixel + c;
        for (ptrdiff_t j = 0; j < ahead.columns; ++j, pixel += part.pixel) __builtin_prefetch(pixel, 0, 3);
      }
      Floats rows[kInDown][kIn];
      for (int i = 0; i < kInDown; ++i) {
        Floats d[kIn];
        load_row(w, image + c, part.pixel, place.top * g.stride_h - g.pad_h + i * apart_down(g),
                 place.left * kStride - g.pad_w, channels - c, d);
        Filter::input(d, rows[i]);
      }
      for (int j = 0; j < kIn; ++j) {
        Floats column[kInDown], v[kInDown];
        for (int i = 0; i < kInDown; ++i) column[i] = rows[i][j];
        if constexpr (flat) {
          v[0] = column[0];
        } else {
          Filter::input(column, v);
        }
        for (int i = 0; i < kInDown; ++i) store_part(to + plane_of(i, j) * plane + c, v[i], channels - c);
      }
    }
  }

  static void input(const Winograd& w, ptrdiff_t begin, ptrdiff_t end) {
    const Geometry& g = w.geometry;
    const ptrdiff_t across = inputs_across(w),
                    down = has_filters ? g.out_height + g.taps_h - 1 : tiles_down(g);
    const ptrdiff_t first = input_of(w, w.first);
    // What the last tiles of a line or an image need beyond it lies before the next one.
    const ptrdiff_t until =
        end == w.last ? input_of(w, end - 1) + behind(w, filters(w) - 1) + 1 : input_of(w, end);
    Place next = place_of(w, input_of(w, begin), across, down);
    for (ptrdiff_t t = input_of(w, begin); t < until; ++t) {
      const Place place = next;
      if (t + 1 < until) next = place_of(w, t + 1, across, down);
      float* to = w.tiles + (t - first) * input_pitch(w);
      for (ptrdiff_t p = 0; p < w.part_count; ++p, to += w.part_channels) {
        input_part(w, w.parts[p], place, next, to);
      }
    }
  }

  // Rows that the product of the last weight has, its last tile filled.
  static ptrdiff_t row_count(const Winograd& w) {
    return round_up(kMostShared * (w.last - w.first), kTileRows);
  }

  // Are weights transformed as they are multiplied, and never stored? Whether they are depends on all tiles
  // of the layer, not on those that a thread is given.
  static constexpr ptrdiff_t kMostFew =
      kHasFewTiles && kStride == 1 && kOut == 4 && !flat && !has_filters ? FewTilesProduct::kMostTiles : 0;
  static bool has_few_tiles(const Winograd& w) { return !w.weights && Places::tiles(w) <= kMostFew; }

  static size_t scratch(const Winograd& w) {
    if (has_few_tiles(w)) {
      const ptrdiff_t input = FewTilesProduct::input_size(w.last - w.first, w.channels);
      return static_cast<size_t>(all_sums(w) + input) * sizeof(float);
    }
    const ptrdiff_t weights = w.weights ? 0 : kMatrices * (weights_plane(group_of(w), kChannels) + kGap);
    return static_cast<size_t>(row_count(w)) * sizeof(float*) +
           static_cast<size_t>(all_sums(w) + weights) * sizeof(float);
  }

  static bool outputs_of_few_tiles(const Winograd& w) {
    bool tame = true;
    if constexpr (kMostFew > 0) {
      const ptrdiff_t tiles = w.last - w.first, group = group_of(w);
      float* const sums = static_cast<float*>(w.scratch);
      float* const input = sums + all_sums(w);
      FewTilesProduct::gather(w.tiles, input_plane(w), input_pitch(w), tiles, w.channels, input);
      FewTilesProduct product{};
      product.tiles = tiles;
      product.channels = w.channels;
      product.input = input;
      product.tap = w.channels * kPanel;
      product.panel = kPanel + taps_of(w) * product.tap;
      product.fetches = w.fetches;
      product.plane = output_plane(w) + kGap;
      product.pitch = group * kPanel;
      for (ptrdiff_t panel = w.first_panel; panel < w.last_panel; panel += group) {
        const ptrdiff_t last = min_of(panel + group, w.last_panel);
        if (w.asks) fetch_outputs(w, panel * kPanel, min_of(last * kPanel, w.outputs), 0, 1);
        for (ptrdiff_t p = panel; p < last; ++p) {
          product.sums = sums + (p - panel) * kPanel;
          with_format(w.format, [&](auto weights) {
            using Element = typename decltype(weights)::Element;
            const Element* const packed = static_cast<const Element*>(w.packed);
            product.template multiply<Filter, decltype(weights)>(packed + p * product.panel + kPanel);
          });
        }
        tame &= finish(w, panel * kPanel, min_of(last * kPanel, w.outputs), sums);
      }
    }
    return tame;
  }

  static bool outputs(const Winograd& w) {
    if (has_few_tiles(w)) return outputs_of_few_tiles(w);
    const ptrdiff_t tiles = w.last - w.first, padded = row_count(w);
    const float** rows = static_cast<const float**>(w.scratch);
    // The rows that the last tile of the product has too many are the last once more.
    const ptrdiff_t first = input_of(w, w.first);
    for (ptrdiff_t r = 0; r < padded; ++r) {
      const ptrdiff_t row = min_of(r, kMostShared * tiles - 1);
      const ptrdiff_t at = input_of(w, w.first + row % tiles) - first;
      rows[r] = w.tiles + row / tiles * input_plane(w) + at * input_pitch(w);
    }
    float* out = reinterpret_cast<float*>(rows + padded);
    float* made = out + all_sums(w);

    Strip strip{};
    strip.rows = rows;
    strip.tile_step = kTileRows;
    strip.taps = 1;
    strip.alike = true;
    const ptrdiff_t group = group_of(w);
    strip.finish.pitch = group * kPanel;
    const ptrdiff_t panel_size = (1 + taps_of(w) * w.channels) * kPanel;
    const ptrdiff_t most = w.weights ? w.channels : kChannels;
    // Blocks of the sums: of some channels of one filter after the other.
    const ptrdiff_t blocks = (w.channels + most - 1) / most, all = filters(w) * blocks;
    bool tame = true;
    for (ptrdiff_t panel = w.first_panel; panel < w.last_panel; panel += group) {
      const ptrdiff_t panels = min_of(group, w.last_panel - panel);
      for (ptrdiff_t block = 0; block < all; ++block) {
        const ptrdiff_t filter = has_filters ? block / blocks : 0;
        const ptrdiff_t channel = (block - filter * blocks) * most;
        strip.channels = min_of(most, w.channels - channel);
        strip.last = block + 1 == all;
        strip.weights_panel = weights_plane(1, w.weights ? all_channels(w) : strip.channels);
        const float* weights = made;
        ptrdiff_t plane = weights_plane(panels, strip.channels) + kGap;
        if (w.weights) {
          weights = w.weights + (panel - w.first_made) * strip.weights_panel + filter * w.channels * kPanel;
          plane = (w.last_made - w.first_made) * strip.weights_panel;
        } else {
          clear_starts(panels, made, plane, strip.weights_panel);
          transform_panels(w, {panel, panel + panels}, {channel, channel + strip.channels}, filter,
                           made + kPanel, plane, strip.weights_panel);
        }
        // Fetched ahead are, of those transformed before, the weights of the next product; else those to
        // be transformed next, as they lie in the file, a tap at a product, if at all. One tile of rows
        // fetches one panel at a time.
        const ptrdiff_t taps = taps_of(w), after = channel + most < w.channels ? channel + most : 0;
        const ptrdiff_t next = (after ? panel : panel + panels) * panel_size + (1 + after) * kPanel;
        const ptrdiff_t next_panel = w.weights ? strip.weights_panel : panel_size * size_of(w.format) / 4;
        const bool fetches = w.weights || (w.fetches && all == blocks);
        const ptrdiff_t input = behind(w, filter) * input_pitch(w) + channel;
        for (int matrix = 0; matrix < kMatrices; ++matrix) {
          const int i = matrix / kWeights, j = matrix % kWeights;
          strip.count = tiles * (i == kAlone ? kShared : 1) * (j == kAlone ? kShared : 1);
          const ptrdiff_t turn = matrix / taps, turns = strip.count > kTileRows ? 1 : panels;
          const float* const read_next =
              w.weights ? weights + (matrix + 1) * plane + kPanel
                        : packed_at(w, next + turn * panel_size + matrix % taps * w.channels * kPanel);
          strip.ahead = weights_ahead(read_next, next_panel, turns_of(strip.count, kTileRows, kStripPanels),
                                      strip.channels);
          if (!fetches || (!w.weights && turn >= turns)) strip.ahead.step = strip.ahead.turn = 0;
          strip.first_channel = plane_of(i, j) * input_plane(w) + input;
          // Whole vectors, so that no tile has an edge.
          const ptrdiff_t columns = min_of(panels * kPanel, round_up(w.outputs - panel * kPanel, kLanes));
          if (w.asks && strip.last) {
            fetch_outputs(w, panel * kPanel, min_of((panel + panels) * kPanel, w.outputs), matrix, kMatrices);
          }
          for (ptrdiff_t column = 0; column < columns; column += strip.finish.columns) {
            const float* zeros =
                weights + matrix * plane + column / kPanel * strip.weights_panel + column % kPanel;
            strip.start = block == 0 ? zeros : nullptr;
            strip.weights = zeros + kPanel;
            strip.finish.output = out + sums_of(w, i, j) + column;
            const ptrdiff_t left = columns - column;
            strip.finish.columns =
                has_wide_tiles(w) && left == kWideColumns ? left : min_of(kStripColumns, left);
            multiply_strip(strip);
          }
        }
      }
      tame &= finish(w, panel * kPanel, min_of((panel + panels) * kPanel, w.outputs), out);
    }
    return tame;
  }
};

// What was measured of layers of residual networks, and of signals, as `pixel` and `weight` of the table.
struct Cost {
  double pixel, weight;
};

template <class T>
constexpr WinogradRoutines with_cost(Cost cost, ptrdiff_t most_tiles) {
  return {T::kPoints, cost.pixel, cost.weight,     most_tiles,    T::kMostFew, FewTilesProduct::kCost,
          T::tiles,   T::filters, T::weights_size, T::tiles_size, T::weights,  T::input,
          T::scratch, T::outputs};
}

// Vectors of 512 bits read weights for few rows as fast as they multiply them.
constexpr bool kWidest = kLanes == 16;

}  // namespace

extern const WinogradRoutines winograd_4x4 =
    with_cost<Tiles<1, 4>>(kWidest ? Cost{265, 115} : Cost{282, 234}, 64);
extern const WinogradRoutines winograd_2x2 =
    with_cost<Tiles<1, 2>>(kWidest ? Cost{98, 65} : Cost{122, 111}, 64);
extern const WinogradRoutines winograd_4 =
    with_cost<Tiles<1, 4, true>>(kWidest ? Cost{45, 23} : Cost{60, 38}, 128);
extern const WinogradRoutines winograd_4_of_5 =
    with_cost<Tiles<1, 4, true, 5>>(kWidest ? Cost{60, 31} : Cost{80, 51}, 128);
extern const WinogradRoutines winograd_4_of_7 =
    with_cost<Tiles<1, 4, true, 7>>(kWidest ? Cost{90, 45} : Cost{120, 75}, 128);
extern const WinogradRoutines strided_winograd_4x4 =
    with_cost<Tiles<2, 4>>(kWidest ? Cost{500, 115} : Cost{700, 234}, 24);
extern const WinogradRoutines strided_winograd_2x2 =
    with_cost<Tiles<2, 2>>(kWidest ? Cost{150, 65} : Cost{186, 111}, 64);
extern const WinogradRoutines strided_winograd_4 =
    with_cost<Tiles<2, 4, true>>(kWidest ? Cost{65, 23} : Cost{90, 38}, 96);

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
