// How a product by a matrix unit is cut, and where in its scratch everything lies.
#pragma once

#include "indirect.h"
#include "pieces.h"

#if defined(PENLIGHT_HAS_AMX) && defined(__AVX512F__)

namespace penlight::optimized {
namespace PENLIGHT_ISA {

size_t product_scratch(const Product& product);

namespace {

// What is multiplied at once: two tiles of rows with two panels.
constexpr ptrdiff_t kPairRows = 2 * kSplitRows, kPairColumns = kSplitPanels * kPanel;
constexpr ptrdiff_t kPair = 2 * kSplit;  // elements of either, for one step
constexpr ptrdiff_t kSums = kPairRows * kPairColumns;
// Steps of a pass, and bytes of the split rows of a block: so that these stay in the second cache beside the
// split weights of a pair of panels and the next.
constexpr ptrdiff_t kMostSteps = 24, kRowBytes = 1 << 20, kMostPairs = 16;
// Outputs whose sums may wait for the next pass, which lie in the scratch. Of more, there is one pass.
constexpr ptrdiff_t kMostWaiting = 8192, kWaitingBytes = 4 << 20;

// How the k of a product are cut: into steps that do not reach from one run into the next, and these into
// passes.
struct Passes {
  ptrdiff_t of_run, count, passes;

  explicit Passes(const Product& p)
      : of_run((p.channels + kSplitStep - 1) / kSplitStep),
        count(of_run * runs_of(p)),
        passes(p.outputs > kMostWaiting ? 1 : (count + kMostSteps - 1) / kMostSteps) {}
  ptrdiff_t before(ptrdiff_t pass) const { return count * pass / passes; }
  ptrdiff_t of_pass(ptrdiff_t pass) const { return before(pass + 1) - before(pass); }
  ptrdiff_t most() const { return (count + passes - 1) / passes; }
};

// How rows are cut: into tiles of about one height, of which pairs are multiplied at once, and pairs into
// blocks.
struct Cut {
  ptrdiff_t rows, height, pairs, block;

  // Pairs of a block, at most.
  static ptrdiff_t most_of_block(ptrdiff_t rows, const Product& p, const Passes& passes) {
    ptrdiff_t most = min_of(kMostPairs, kRowBytes / (passes.most() * kPair * 2));
    if (passes.passes > 1)
      most = min_of(most, kWaitingBytes / (kPairRows * round_up(p.outputs, kPairColumns) * 4));
    return max_of(min_of(most, (rows + kPairRows - 1) / kPairRows + 1), 1);
  }
  Cut(ptrdiff_t count, const Product& p, const Passes& passes) : rows(count) {
    ptrdiff_t tiles = max_of((rows + kSplitRows - 1) / kSplitRows, 1);
    height = max_of((rows + tiles - 1) / tiles, 1);
    // One more, that none is alone, unless others are too low then.
    const ptrdiff_t even = tiles + tiles % 2, lower = (rows + even - 1) / even;
    if (tiles > 1 && even * lower * 32 <= tiles * height * 33) height = lower;
    pairs = (rows + 2 * height - 1) / (2 * height);
    const ptrdiff_t most = most_of_block(rows, p, passes), blocks = (pairs + most - 1) / most;
    block = (pairs + blocks - 1) / blocks;
  }
  ptrdiff_t first_row(ptrdiff_t pair) const { return pair * 2 * height; }
  ptrdiff_t rows_of(ptrdiff_t pair) const { return min_of(2 * height, rows - first_row(pair)); }
  ptrdiff_t pairs_of(ptrdiff_t of) const { return min_of(block, pairs - of * block); }
};

// Where in the scratch of a part everything lies, in bytes.
struct Layout {
  ptrdiff_t rows, weights, sums, row_sizes, panel_sizes, wide, direct, end;  // and pointers before them

  Layout(const Product& p, ptrdiff_t block, const Passes& passes) {
    const auto lines = [](ptrdiff_t bytes) { return round_up(bytes, kTileLine); };
    const ptrdiff_t split = kPair * static_cast<ptrdiff_t>(sizeof(uint16_t));
    const ptrdiff_t pairs = (p.outputs + kPairColumns - 1) / kPairColumns;
    rows = lines(round_up(block * kPairRows, kRows) * runs_of(p) * static_cast<ptrdiff_t>(sizeof(float*)));
    weights = rows + (block + 1) * passes.most() * split;
    sums = weights + 2 * passes.most() * split;
    row_sizes =
        sums + (passes.passes > 1 ? pairs * block : 2) * kSums * static_cast<ptrdiff_t>(sizeof(float));
    panel_sizes = row_sizes + (block + 1) * kPairRows * kTileLine;
    wide = panel_sizes + pairs * kSplitPanels * kTileLine;
    direct = wide + (kSplitStep + kSplitPanels) * kTileLine;
    end = direct + lines(static_cast<ptrdiff_t>(product_scratch(p)));
  }
  template <class Element>
  static Element* at(const Product& p, ptrdiff_t bytes) {
    return reinterpret_cast<Element*>(static_cast<char*>(p.scratch) + bytes);
  }
};

// What is multiplied at once: a block of rows with one pair of panels, for a part of k.
struct Turn {
  ptrdiff_t block, pass, panels;
};

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized

#endif
