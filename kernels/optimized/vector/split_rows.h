// Rows of a product, on their way into the tiles of a matrix unit.
#pragma once

#include "split_layout.h"

#if defined(PENLIGHT_HAS_AMX) && defined(__AVX512F__)

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Splits rows step by step, in the order in which the first pair of panels is multiplied with them: of each
// block and pass, pair of tiles by pair. They stay where they are for the other panels.
class SplitRows {
 public:
  SplitRows(const Product& product, const Passes& passes, const Cut& cut, const Layout& layout)
      : p_(product),
        passes_(passes),
        cut_(cut),
        split_(layout.at<uint16_t>(product, layout.rows)),
        sizes_(layout.at<int32_t>(product, layout.row_sizes)),
        pointers_(layout.at<const float*>(product, 0)),
        rows_(product, pointers_),
        tile_step_(runs_of(product) * kRows) {}
  SplitRows(const SplitRows&) = delete;
  SplitRows& operator=(const SplitRows&) = delete;

  // The next step begins, if there is one.
  void start() {
    is_done_ = true;
    if (block_ * cut_.block >= cut_.pairs) return;
    if (pass_ == 0 && pair_ == 0 && step_ == 0) {
      const ptrdiff_t first = cut_.first_row(pair()), last = cut_.first_row(pair() + cut_.pairs_of(block_));
      rows_.locate(p_.first_row + first, min_of(last, cut_.rows) - first);
    }
    to_sizes_ = sizes_ + place_of(pair()) * kPairRows * kLanes;
    if (pass_ == 0 && step_ == 0) clear_sizes<kPairRows>(to_sizes_);
    const ptrdiff_t step = passes_.before(pass_) + step_;
    channel_ = step % passes_.of_run * kSplitStep;
    channels_ = min_of(kSplitStep, p_.channels - channel_);
    to_ = at(region_ + pair_) + step_ * kPair;
    if (channel_ == 0 || step_ == 0) find(step / passes_.of_run);
    is_done_ = false;
  }
  bool is_whole() const { return !is_done_ && channels_ == kSplitStep; }

  // Row i of the tiles, of which `count` elements exist.
  __attribute__((always_inline)) void split(ptrdiff_t i, ptrdiff_t count) {
    split_row(from_[i] + channel_, count, to_ + i / kSplitRows * kSplit + i % kSplitRows * kSplitStep,
              to_sizes_ + i * kLanes);
  }
  // All of the step are split.
  void finish() {
    is_done_ = true;
    if (pass_ + 1 == passes_.passes && step_ + 1 == passes_.of_pass(pass_)) {
      direct_[place_of(pair())] = find_direct();
    }
    if (++step_ < passes_.of_pass(pass_)) return;
    step_ = 0;
    if (++pair_ < cut_.pairs_of(block_)) return;
    region_ += cut_.pairs_of(block_);
    pair_ = 0;
    if (++pass_ < passes_.passes) return;
    pass_ = 0;
    ++block_;
  }
  void split_rest() {
    if (is_done_) return;
    for (ptrdiff_t i = 0; i < kPairRows; ++i) split(i, channels_);
    finish();
  }

  // Pairs of tiles lie in a ring of one more than a block has: the first of the next block, or pass, is split
  // into the free place. Regions are counted from the first pair of all.
  uint16_t* at(ptrdiff_t region) const { return split_ + place_of(region) * passes_.most() * kPair; }
  // Which rows of a pair are to be multiplied directly, a bit each: known when its last pass begins.
  uint32_t direct(ptrdiff_t pair) const { return direct_[place_of(pair)]; }

 private:
  ptrdiff_t pair() const { return block_ * cut_.block + pair_; }
  ptrdiff_t place_of(ptrdiff_t region) const { return region % (cut_.block + 1); }

  // Where a run of the rows of a pair begins. Rows that the tiles have too many are the last once more.
  void find(ptrdiff_t run) {
    const ptrdiff_t first = pair_ * 2 * cut_.height, count = cut_.rows_of(pair());
    for (ptrdiff_t i = 0; i < kPairRows; ++i) {
      const ptrdiff_t in_tile = min_of(i % kSplitRows, cut_.height - 1);
      const ptrdiff_t row = first + min_of(i / kSplitRows * cut_.height + in_tile, count - 1);
      const float* const* const tile = pointers_ + row / kRows * tile_step_ + run * kRows;
      // Where the first of a half is null, all of it are padding.
      const bool exists = tile[row % kRows < kRows / 2 ? 0 : kRows / 2];
      from_[i] = exists ? tile[row % kRows] : p_.zeros;
    }
  }
  uint32_t find_direct() const {
    uint32_t rows = 0;
    for (ptrdiff_t i = 0; i < cut_.rows_of(pair()); ++i) {
      const ptrdiff_t place = i < cut_.height ? i : kSplitRows + i - cut_.height;
      const Ints sizes = load_ints(to_sizes_ + place * kLanes);
      rows |= static_cast<uint32_t>(!is_middling(largest_lane(sizes))) << i;
    }
    return rows;
  }

  const Product& p_;
  const Passes& passes_;
  const Cut& cut_;
  uint16_t* const split_;
  int32_t* const sizes_;  // the largest of each lane and row, of pairs in the ring
  const float** const pointers_;
  Rows rows_;
  const ptrdiff_t tile_step_;
  uint32_t direct_[kMostPairs + 1] = {};

  // The step that is split, and from where to where.
  ptrdiff_t block_ = 0, pass_ = 0, pair_ = 0, step_ = 0, region_ = 0;
  bool is_done_ = true;
  const float* from_[kPairRows] = {};
  ptrdiff_t channel_ = 0, channels_ = 0;
  uint16_t* to_ = nullptr;
  int32_t* to_sizes_ = nullptr;
};

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized

#endif
