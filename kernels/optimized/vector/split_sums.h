// Sums that a matrix unit has made, on their way to the output.
#pragma once

#include "split_layout.h"

#if defined(PENLIGHT_HAS_AMX) && defined(__AVX512F__)

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void product(const Product& product);
void short_product(const Product& product);

namespace {

// Finishes the sums of a pair of tiles with a pair of panels, some rows at a time.
class SplitSums {
 public:
  SplitSums(const Product& product, const Layout& layout)
      : p_(product),
        scratch_(layout.at<char>(product, layout.direct)),
        is_bounded_(is_bounded(product.epilogue)),
        bounds_(bounds_of(product.epilogue)) {}
  SplitSums(const SplitSums&) = delete;
  SplitSums& operator=(const SplitSums&) = delete;

  // `values` are those of rows [row, row + count), kPairColumns apart. A bit of `direct` is of a row of which
  // they are not to be used.
  void start(const float* values, ptrdiff_t row, ptrdiff_t count, ptrdiff_t panel, uint32_t direct) {
    values_ = values;
    row_ = row;
    count_ = count;
    panel_ = panel;
    direct_ = direct;
    done_ = 0;
    const ptrdiff_t offset = row * p_.output_pitch + panel * kPanel;
    output_ = p_.output + offset;
    residual_ = p_.epilogue.residual ? p_.epilogue.residual + offset : nullptr;
    columns_ = min_of(kPairColumns, p_.outputs - panel * kPanel);
    fetch(0);
    fetch(kRowsAtOnce);
  }
  // How often finish_some() is to be called.
  ptrdiff_t left() const { return (count_ - done_ + kRowsAtOnce - 1) / kRowsAtOnce; }
  void finish_some() {
    const ptrdiff_t row = done_, count = min_of(kRowsAtOnce, count_ - row);
    fetch(row + 2 * kRowsAtOnce);
    done_ += count;
    if (count < kRowsAtOnce || (direct_ >> row & ((1u << kRowsAtOnce) - 1))) return finish_each(row, count);
    if (!is_bounded_ || columns_ < kPairColumns) return finish_any(row);
    const float* const values = values_ + row * kPairColumns;
    const ptrdiff_t pitch = p_.output_pitch;
    const float* const residual = residual_ ? residual_ + row * pitch : nullptr;
    float* const output = output_ + row * pitch;
    const Bounds bounds = bounds_;
    repeat<kRowsAtOnce * kSplitPanels>([&](auto k) __attribute__((always_inline)) {
      constexpr int i = k / kSplitPanels, v = k % kSplitPanels;
      Floats value = load(values + i * kPairColumns + v * kLanes);
      if (residual) value += load(residual + i * pitch + v * kLanes);
      store(output + i * pitch + v * kLanes, activated<Activation::Clamp>(value, bounds));
    });
  }
  void finish_rest() {
    while (done_ < count_) finish_some();
  }
  // Multiplies rows with a pair of panels, not by the unit.
  void multiply_directly(ptrdiff_t row, ptrdiff_t count, ptrdiff_t panel) const {
    Product some = p_;
    some.first_row = row;
    some.last_row = row + count;
    some.first_panel = panel;
    some.last_panel = min_of(panel + kSplitPanels, p_.last_panel);
    some.scratch = scratch_;
#if !defined(PENLIGHT_WITHOUT_SHORT_PRODUCT)
    if (p_.format != Format::Float32) return short_product(some);
#endif
    product(some);
  }

 private:
  static constexpr ptrdiff_t kRowsAtOnce = 4;

  void fetch(ptrdiff_t row) const {
    if (row + kRowsAtOnce > count_) return;
    repeat<kRowsAtOnce>([&](auto i) __attribute__((always_inline)) {
      const ptrdiff_t offset = (row + i) * p_.output_pitch;
      __builtin_prefetch(output_ + offset, 1, 3);
      __builtin_prefetch(output_ + offset + kPanel, 1, 3);
      if (residual_) {
        __builtin_prefetch(residual_ + offset, 0, 3);
        __builtin_prefetch(residual_ + offset + kPanel, 0, 3);
      }
    });
  }
  Finish finish() const {
    Finish f = {output_, p_.output_pitch, columns_, p_.epilogue};
    f.epilogue.residual = residual_;
    return f;
  }
  template <int rows>
  __attribute__((always_inline)) void finish_rows(ptrdiff_t row) const {
    Floats sums[rows][kSplitPanels];
    repeat<rows * kSplitPanels>([&](auto k) __attribute__((always_inline)) {
      constexpr int i = k / kSplitPanels, v = k % kSplitPanels;
      sums[i][v] = load(values_ + (row + i) * kPairColumns + v * kLanes);
    });
    finish_tile(finish(), row, rows, sums);
  }
  __attribute__((noinline)) void finish_any(ptrdiff_t row) const { finish_rows<kRowsAtOnce>(row); }
  __attribute__((noinline)) void finish_each(ptrdiff_t first, ptrdiff_t count) const {
    for (ptrdiff_t row = first; row < first + count; ++row) {
      if (direct_ >> row & 1) {
        multiply_directly(row_ + row, 1, panel_);
      } else {
        finish_rows<1>(row);
      }
    }
  }

  const Product& p_;
  char* const scratch_;  // of product()
  const bool is_bounded_;
  const Bounds bounds_;

  const float* values_ = nullptr;
  ptrdiff_t row_ = 0, count_ = 0, panel_ = 0, done_ = 0, columns_ = 0;
  uint32_t direct_ = 0;
  float* output_ = nullptr;
  const float* residual_ = nullptr;
};

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized

#endif
