// Products of few transformed tiles with weights that are transformed in registers.
//
// A small image has so few tiles that its weights take most of the time: each is transformed, stored and
// loaded for four products or so. Here the sums of a row of a tile's points stay in registers, for four
// tiles, and the weights of that row are made anew for each channel, from the file's, some channels of which
// the first cache keeps from row to row.
#pragma once

#include "transpose.h"
#include "winograd_filters.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// The sums are of 24 vectors: AVX-512 has registers for them and some more.
constexpr bool kHasFewTiles = !kFewTiles && kLanes == 16 && kPanel == kLanes;

// Products of one panel, of 6x6 points.
struct FewTilesProduct {
  static constexpr int kTogether = kTilesTogether, kAcross = 6, kSums = kAcross * kTogether;
  // Of a layer: of more, weights are worth being stored.
  static constexpr ptrdiff_t kMostTiles = 2 * kTogether;
  // How many products of a direct sum take as long as what four tiles have for each weight: 144 products
  // beside 186 loads, two of which begin in a cycle; and waiting for weights that are far.
  static constexpr double kCost = 220;
  static constexpr ptrdiff_t kChannels = 32;  // at once: their weights take 18 KB, and so do the next ones

  ptrdiff_t tiles, channels;
  const float* input;      // [four tiles][row of points][channel][point of the row][tile]
  ptrdiff_t tap;           // elements of the weights from tap to tap, and
  ptrdiff_t panel;         // from panel to panel
  bool fetches;            // weights that are read next
  float* sums;             // of the first tile
  ptrdiff_t plane, pitch;  // elements from point to point, and from tile to tile

  static ptrdiff_t input_size(ptrdiff_t tiles, ptrdiff_t channels) {
    return (tiles + kTogether - 1) / kTogether * kAcross * kSums * channels;
  }

  // Tiles of transformed input, which lie in planes of points, as `input` is to have them.
  static void gather(const float* from, ptrdiff_t plane, ptrdiff_t pitch, ptrdiff_t tiles, ptrdiff_t channels,
                     float* to) {
    for (ptrdiff_t first = 0; first < tiles; first += kTogether) {
      for (int i = 0; i < kAcross; ++i, to += channels * kSums) {
        for (ptrdiff_t c = 0; c < channels; c += kLanes) {
          const ptrdiff_t some = min_of(channels - c, kLanes);
          // The tiles that the last ones are too few are the last once more.
          const auto load_points = [&](int k) __attribute__((always_inline)) {
            const ptrdiff_t tile = min_of(first + k % kTogether, tiles - 1);
            return load_part(from + (i * kAcross + k / kTogether) * plane + tile * pitch + c, some);
          };
          Floats some_points[kLanes], others[kLanes];
          repeat<kLanes>([&](auto k) __attribute__((always_inline)) {
            some_points[k] = load_points(k);
            others[k] = k < kSums - kLanes ? load_points(kLanes + k) : Floats{};
          });
          transpose(some_points);
          transpose(others);
          for (ptrdiff_t k = 0; k < some; ++k) {
            store(to + (c + k) * kSums, some_points[k]);
            store_part(to + (c + k) * kSums + kLanes, others[k], kSums - kLanes);
          }
        }
      }
    }
  }

  // One row of points of some channels and four tiles, of which `count` exist.
  template <class Filter, class Weights, int row>
  __attribute__((always_inline)) void multiply_row(const typename Weights::Element* weights,
                                                   const float* from, ptrdiff_t some,
                                                   const typename Weights::Element* next, float* to,
                                                   ptrdiff_t count, bool begins) const {
    using Element = typename Weights::Element;
    Floats all[kAcross][kTogether];
    repeat<kAcross>([&](auto j) __attribute__((always_inline)) {
      repeat<kTogether>([&](auto t) __attribute__((always_inline)) {
        all[j][t] = begins || t >= count ? Floats{} : load(to + (row * kAcross + j) * plane + t * pitch);
      });
    });
    const Element *upper = weights, *middle = weights + 3 * tap, *lower = weights + 6 * tap;
    const Element* ahead = next + 2 * row * tap;
    const ptrdiff_t step = fetches ? kPanel : 0;
    for (ptrdiff_t c = 0; c < some; ++c, from += kSums) {
      if constexpr (2 * row < 9) __builtin_prefetch(ahead, 0, 3);
      if constexpr (2 * row + 1 < 9) __builtin_prefetch(ahead + tap, 0, 3);
      ahead += step;
      Floats made[3], across[kAcross];
      repeat<3>([&](auto j) __attribute__((always_inline)) {
        Floats column[kAcross];
        Filter::weights(
            {Weights::load(upper + j * tap), Weights::load(middle + j * tap), Weights::load(lower + j * tap)},
            column);
        made[j] = column[row];
      });
      upper += kPanel;
      middle += kPanel;
      lower += kPanel;
      Filter::weights(made, across);
      repeat<kAcross>([&](auto j) __attribute__((always_inline)) {
        keep_in_register(across[j]);
        repeat<kTogether>([&](auto t) __attribute__((always_inline)) {
          multiply_add(all[j][t], splat(from[j * kTogether + t]), across[j]);
        });
      });
    }
    repeat<kAcross>([&](auto j) __attribute__((always_inline)) {
      repeat<kTogether>([&](auto t) __attribute__((always_inline)) {
        if (t < count) store(to + (row * kAcross + j) * plane + t * pitch, all[j][t]);
      });
    });
  }

  // `weights` are the panel's, of its first tap and channel.
  template <class Filter, class Weights>
  void multiply(const typename Weights::Element* weights) const {
    for (ptrdiff_t channel = 0; channel < channels; channel += kChannels) {
      const ptrdiff_t some = min_of(kChannels, channels - channel);
      const auto* const own = weights + channel * kPanel;
      const auto* const next = channel + kChannels < channels ? own + kChannels * kPanel : weights + panel;
      repeat<kAcross>([&](auto row) __attribute__((always_inline)) {
        for (ptrdiff_t first = 0; first < tiles; first += kTogether) {
          const ptrdiff_t rows = first / kTogether * kAcross + row;
          multiply_row<Filter, Weights, row>(own, input + (rows * channels + channel) * kSums, some, next,
                                             sums + first * pitch, tiles - first, channel == 0);
        }
      });
    }
  }
};

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
