// Which transformed tiles a convolution is expected to be fastest with, and how many of them at once: a model
// of what they take, for each kind of cores.
#pragma once

#include <penlight/kernel.h>

#include "vector/routines.h"

#ifndef PENLIGHT_WITHOUT_WINOGRAD

namespace penlight::optimized {

constexpr dim_t kTiles = 64;       // most of one block alone
constexpr size_t kNear = 3 << 19;  // bytes that stay in the second cache

// Panels of the fastest tiles of a product.
dim_t tile_panels(const Winograd& w);

// Panels whose weights are transformed at once: all, or as many as there is to be memory for.
dim_t panels_at_once(const Winograd& w, const WinogradRoutines& does);

// Tiles of a block: their input is to stay in a near cache, but weights are read for each block.
dim_t tiles_at_once(Winograd w, const WinogradRoutines& does);

// Are wide tiles of a product worth it for a block of so many, of which there is only one?
bool has_rows_for_wide(dim_t tiles);

// Up to how many parts each transform what all of them read.
dim_t most_copies();

// Does each of so many parts have some of a block's tiles and transform all weights, or all tiles and some of
// the weights?
bool has_own_weights(const Winograd& w, const WinogradRoutines& does, dim_t tiles, dim_t parts);

// Are weights that are transformed next to be fetched?
bool fetches_weights();

// The fastest tiles; null if a direct convolution, by the matrix unit or not, is about as fast.
const WinogradRoutines* choose_tiles(const Winograd& w, bool by_unit);

}  // namespace penlight::optimized

#endif
