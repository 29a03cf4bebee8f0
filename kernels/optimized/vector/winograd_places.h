// Where the tiles of transformed products lie in images, and what input they have.
#pragma once

#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

struct Place {
  ptrdiff_t image, top, left;  // of the tile's first output
};

// Tiles of kOut outputs in a row, or, not `flat`, of kOut x kOut; a filter has `most_taps` along an axis.
template <int kOut, bool flat, int most_taps>
struct TilePlaces {
  static constexpr int kOutDown = flat ? 1 : kOut;

  // Is a window several filters? Of its rows each has one, or some that are kOut taps apart.
  static constexpr bool has_filters = most_taps != 3;
  static ptrdiff_t taps_of(const Winograd& w) {
    return has_filters ? w.geometry.taps_h * w.geometry.taps_w : (flat ? 3 : 9);
  }
  static ptrdiff_t filters_across(const Winograd& w) {
    const ptrdiff_t more = has_filters ? w.geometry.taps_w - most_taps : 0;
    return 1 + (more > 0 ? (more + kOut - 1) / kOut : 0);
  }
  static ptrdiff_t filters(const Winograd& w) {
    return has_filters ? w.geometry.taps_h * filters_across(w) : 1;
  }

  // Tiles along an axis, of outputs so far apart, as many as the first of them needs.
  static ptrdiff_t tiles_of(ptrdiff_t outputs, ptrdiff_t apart, int tile) {
    return (outputs + tile * apart - 1) / (tile * apart);
  }
  static ptrdiff_t tiles_across(const Geometry& g) { return tiles_of(g.out_width, g.dilation_w, kOut); }
  static ptrdiff_t tiles_down(const Geometry& g) { return tiles_of(g.out_height, apart_down(g), kOutDown); }
  static ptrdiff_t apart_down(const Geometry& g) { return flat ? 1 : g.dilation_h; }

  // `across` of a line, and `down` lines, of an image.
  static Place place_of(const Winograd& w, ptrdiff_t tile, ptrdiff_t across, ptrdiff_t down) {
    const Geometry& g = w.geometry;
    const ptrdiff_t apart = apart_down(g);
    const ptrdiff_t line = tile / (across * g.dilation_w), column = tile / across % g.dilation_w;
    return {line / (down * apart), line / down % apart + line % down * kOutDown * apart,
            column + tile % across * kOut * g.dilation_w};
  }

  // Of a line of tiles the input is that of the tiles, and of one more for each further filter across; and
  // of an image that of its lines, and of one more for each further row of the window.
  static ptrdiff_t inputs_across(const Winograd& w) {
    return tiles_across(w.geometry) + filters_across(w) - 1;
  }
  static ptrdiff_t input_of(const Winograd& w, ptrdiff_t tile) {
    if (!has_filters) return tile;
    const Geometry& g = w.geometry;
    const ptrdiff_t line = tile / tiles_across(g);
    const ptrdiff_t lines = g.taps_h > 1 ? line / g.out_height * (g.taps_h - 1) : 0;
    return tile + line * (filters_across(w) - 1) + lines * inputs_across(w);
  }
  // How far behind its own input that of a tile's filter is.
  static ptrdiff_t behind(const Winograd& w, ptrdiff_t filter) {
    const ptrdiff_t across = filters_across(w);
    return has_filters ? filter / across * inputs_across(w) + filter % across : 0;
  }
  // As many as a block may need, wherever it begins.
  static ptrdiff_t most_inputs(const Winograd& w) {
    const ptrdiff_t count = w.last - w.first, across = tiles_across(w.geometry);
    const ptrdiff_t image = across * w.geometry.out_height, down = has_filters ? w.geometry.taps_h - 1 : 0;
    return count + (filters_across(w) - 1) * (1 + (count + across - 2) / across) +
           down * inputs_across(w) * (1 + (count + image - 2) / image);
  }

  // Outputs of a tile along an axis that exist.
  static ptrdiff_t outputs_from(ptrdiff_t first, ptrdiff_t outputs, ptrdiff_t apart, int tile) {
    return min_of(tile, (outputs - first + apart - 1) / apart);
  }

  static ptrdiff_t tiles(const Winograd& w) {
    const Geometry& g = w.geometry;
    return w.batch * tiles_down(g) * apart_down(g) * tiles_across(g) * g.dilation_w;
  }
};

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
