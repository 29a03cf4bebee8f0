// Weights of a product, on their way into the tiles of a matrix unit.
#pragma once

#include "halves.h"
#include "split_layout.h"

#if defined(PENLIGHT_HAS_AMX) && defined(__AVX512F__)

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Splits a pair of panels, for the steps of a pass, into the other of two places while those in the one are
// multiplied. Weights of 16 bits are made float32 before, a tile at a time.
class SplitWeights {
 public:
  SplitWeights(const Product& product, const Passes& passes, const Layout& layout)
      : p_(product),
        passes_(passes),
        split_(layout.at<uint16_t>(product, layout.weights)),
        sizes_(layout.at<int32_t>(product, layout.panel_sizes)),
        wide_(layout.at<float>(product, layout.wide)),
        panel_size_((1 + runs_of(product) * product.channels) * kPanel) {}
  SplitWeights(const SplitWeights&) = delete;
  SplitWeights& operator=(const SplitWeights&) = delete;

  ptrdiff_t first_panel(const Turn& turn) const { return p_.first_panel + turn.panels * kSplitPanels; }
  ptrdiff_t panels_in(const Turn& turn) const {
    return min_of(kSplitPanels, p_.last_panel - first_panel(turn));
  }
  // Of each panel, biases_pitch() elements apart.
  const float* biases(const Turn& turn) const {
    const ptrdiff_t first = first_panel(turn) * panel_size_;
    if (p_.format == Format::Float32) return static_cast<const float*>(p_.packed) + first;
    float* const wide = wide_ + kSplitStep * kPanel;
    for (ptrdiff_t i = 0; i < panels_in(turn); ++i) widen(first + i * panel_size_, 1, wide + i * kPanel);
    return wide;
  }
  ptrdiff_t biases_pitch() const { return p_.format == Format::Float32 ? panel_size_ : kPanel; }

  // Those that were split last.
  const uint16_t* split() const { return split_ + place_ * passes_.most() * kPair; }
  // May they be multiplied by pieces? Known when the last pass begins.
  bool are_middling(const Turn& turn) const {
    bool all = true;
    for (ptrdiff_t i = 0; i < panels_in(turn) * kPanel; ++i) all = all && is_middling(sizes_of(turn)[i]);
    return all;
  }

  void start(const Turn& turn) {
    turn_ = turn;
    done_ = 0;
    tiles_ = passes_.of_pass(turn.pass) * panels_in(turn);
    place_ = 1 - place_;
    if (turn.pass == 0) clear_sizes<kSplitPanels>(sizes_of(turn));
    start_tile();
  }
  ptrdiff_t lines_left() const { return done_ < tiles_ ? (tiles_ - done_) * kSplitRows - line_ : 0; }

  // A line is of two k of a panel. `count` lines follow each other: in one tile, or in two whole ones.
  const float* from() const { return from_; }
  uint16_t* to() const { return to_; }
  int32_t* sizes() const { return to_sizes_; }
  // So many lines of a tile are split.
  void advance(ptrdiff_t count) {
    line_ += count;
    from_ += count * 2 * kPanel;
    to_ += count * kSplitStep;
    if (line_ == kSplitRows && ++done_ < tiles_) start_tile();
  }
  void split_rest() {
    while (done_ < tiles_) split_lines(kSplitRows - line_, kSplitStep - 2 * line_);
  }

 private:
  int32_t* sizes_of(const Turn& turn) const { return sizes_ + turn.panels * kSplitPanels * kLanes; }

  // A tile that does not have all of its k is split at once.
  void start_tile() {
    const ptrdiff_t panels = panels_in(turn_), panel = done_ % panels, place = done_ / panels;
    const ptrdiff_t step = passes_.before(turn_.pass) + place;
    const ptrdiff_t channel = step % passes_.of_run * kSplitStep,
                    count = min_of(kSplitStep, p_.channels - channel);
    const ptrdiff_t first = (first_panel(turn_) + panel) * panel_size_ +
                            (1 + step / passes_.of_run * p_.channels + channel) * kPanel;
    from_ = wide_;
    if (p_.format == Format::Float32) {
      from_ = static_cast<const float*>(p_.packed) + first;
    } else {
      widen(first, count, wide_);
    }
    line_ = 0;
    to_ = split_ + (place_ * passes_.most() + place) * kPair + panel * kSplit;
    to_sizes_ = sizes_of(turn_) + panel * kLanes;
    if (count < kSplitStep) split_lines(kSplitRows, count);
  }
  // `count` vectors of weights from element `first` on.
  void widen(ptrdiff_t first, ptrdiff_t count, float* to) const {
    const uint16_t* from = static_cast<const uint16_t*>(p_.packed) + first;
    const bool brain = p_.format == Format::BFloat16;
    for (ptrdiff_t i = 0; i < count; ++i, from += kPanel, to += kPanel) {
      store(to, brain ? BFloat16s::load(from) : Float16s::load(from));
    }
  }
  // So many lines of a tile, of which `left` of k are not yet split.
  void split_lines(ptrdiff_t lines, ptrdiff_t left) {
    Ints largest = load_ints(to_sizes_);
    for (ptrdiff_t i = 0; i < lines; ++i, left -= 2) {
      split_weights(from_ + i * 2 * kPanel, left, to_ + i * kSplitStep, largest);
    }
    memcpy(to_sizes_, &largest, sizeof largest);
    advance(lines);
  }

  const Product& p_;
  const Passes& passes_;
  uint16_t* const split_;
  int32_t* const sizes_;  // the largest of each column
  float* const wide_;     // a tile, and biases
  const ptrdiff_t panel_size_;

  Turn turn_{};
  ptrdiff_t tiles_ = 0, done_ = 0;  // tiles of a panel and a step
  int place_ = 0;                   // where they are split to
  const float* from_ = nullptr;
  ptrdiff_t line_ = 0;
  uint16_t* to_ = nullptr;
  int32_t* to_sizes_ = nullptr;
};

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized

#endif
