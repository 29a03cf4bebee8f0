// Products of float32 by a matrix unit that multiplies bfloat16.
//
// A float32 is the sum of three bfloat16 (pieces.h); of the nine products of the pieces of two numbers the
// three smallest are less than float32 rounds away. So six products, added in float32, have the accuracy of
// one of float32 (Henry, Tang, Heinecke, "Leveraging the bfloat16 artificial intelligence datatype for
// higher-precision computations", 2019), and the unit does them in less time.
//
// Weights and rows are split just before they are multiplied, beside the products that come earlier, and sums
// are finished beside those that follow: the unit leaves most of the processor idle. It does so only as far
// as nothing waits. The processor has few places for tiles that are on their way, so work is given to it in
// little pieces; and a value that is loaded as it was not stored, as two numbers at once, would wait until
// both have left for the cache, after every product before them.
//
// Each sum runs over k in one order, however rows and panels are split between threads. The unit takes
// what is subnormal for zero, and an infinity times pieces of either sign would give NaN: rows and panels
// whose largest element is not of a middling size are multiplied by product().
#include "split_rows.h"
#include "split_sums.h"
#include "split_weights.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

#if defined(PENLIGHT_HAS_AMX) && defined(__AVX512F__)

namespace {

constexpr int kProducts = 6;  // of two tiles
// Elements by which weights are fetched before they are split.
constexpr ptrdiff_t kAhead = 16 * kPanel;

class SplitProduct {
 public:
  explicit SplitProduct(const Product& product)
      : passes_(product),
        cut_(product.last_row - product.first_row, product, passes_),
        layout_(product, cut_.block, passes_),
        first_row_(product.first_row),
        panels_((product.last_panel - product.first_panel + kSplitPanels - 1) / kSplitPanels),
        has_parts_(product.channels % kSplitStep != 0),
        kept_(layout_.at<float>(product, layout_.sums)),
        rows_(product, passes_, cut_, layout_),
        weights_(product, passes_, layout_),
        sums_(product, layout_) {}

  void run() {
    configure_tiles(cut_.height);
    rows_.start();
    rows_.split_rest();
    weights_.start({0, 0, 0});
    weights_.split_rest();
    Turn turn{};
    for (turn.block = 0; turn.block * cut_.block < cut_.pairs; ++turn.block) {
      for (turn.pass = 0; turn.pass < passes_.passes; ++turn.pass) {
        for (turn.panels = 0; turn.panels < panels_; ++turn.panels) multiply_turn(turn);
        region_ += cut_.pairs_of(turn.block);
      }
    }
    sums_.finish_rest();
    release_tiles();
  }

 private:
  // body(register, tile of rows, panel), as constants, for each tile of sums.
  template <int tiles, int panels, class Body>
  __attribute__((always_inline)) static void each_sum(Body&& body) {
    repeat<tiles>([&](auto tile) __attribute__((always_inline)) {
      repeat<panels>([&](auto panel)
                         __attribute__((always_inline)) { body(Index<2 * tile + panel>(), tile, panel); });
    });
  }

  // One step of the sums of a pair of tiles and a pair of panels. While the unit multiplies, `lines` of
  // weights are split and, if `rows`, the coming step of rows: a few of them beside each product.
  template <int tiles, int panels, int lines, bool rows>
  __attribute__((noinline)) void multiply_step(const uint16_t* a, const uint16_t* b) {
    constexpr int all = kProducts * tiles * panels;
    const auto load_rows = [&](auto piece) __attribute__((always_inline)) {
      load_tile<4>(a + piece * kPiece, kTileLine);
      if constexpr (tiles > 1) load_tile<5>(a + kSplit + piece * kPiece, kTileLine);
    };
    const auto load_columns = [&](auto piece) __attribute__((always_inline)) {
      load_tile<6>(b + piece * kPiece, kTileLine);
      if constexpr (panels > 1) load_tile<7>(b + kSplit + piece * kPiece, kTileLine);
    };
    const float* from = weights_.from();
    uint16_t* to = weights_.to();
    int32_t* sizes = weights_.sizes();
    Ints largest{};
    if constexpr (lines > 0) largest = load_ints(sizes);
    const auto work_beside = [&](auto product) __attribute__((always_inline)) {
      constexpr int k = product;
      if constexpr (rows) {
        constexpr int first = kPairRows * k / all, last = kPairRows * (k + 1) / all;
        repeat<last, first>([&](auto i) __attribute__((always_inline)) { rows_.split(i, kSplitStep); });
      }
      constexpr int first = lines * k / all, last = lines * (k + 1) / all;
      repeat<last, first>([&](auto i) __attribute__((always_inline)) {
        if constexpr (i > 0 && i % kSplitRows == 0) {
          memcpy(sizes, &largest, sizeof largest);
          weights_.advance(kSplitRows);
          from = weights_.from();
          to = weights_.to();
          sizes = weights_.sizes();
          largest = load_ints(sizes);
        }
        constexpr int line = i % kSplitRows;
        __builtin_prefetch(from + 2 * line * kPanel + kAhead, 0, 3);
        __builtin_prefetch(from + (2 * line + 1) * kPanel + kAhead, 0, 3);
        split_weights(from + 2 * line * kPanel, kSplitStep, to + line * kSplitStep, largest);
      });
    };
    const auto add = [&](auto group) __attribute__((always_inline)) {
      constexpr int k = group * tiles * panels;
      each_sum<tiles, panels>([&](auto sum, auto tile, auto panel) __attribute__((always_inline)) {
        multiply_tiles<sum, 4 + tile, 6 + panel>();
        work_beside(Index<k + tile * panels + panel>());
      });
      for (ptrdiff_t left = min_of(sums_of_product_, sums_.left()); left > 0; --left) sums_.finish_some();
    };
    load_rows(Index<0>());
    load_columns(Index<2>());
    add(Index<0>());
    load_columns(Index<1>());
    add(Index<1>());
    load_rows(Index<1>());
    add(Index<2>());
    load_columns(Index<0>());
    add(Index<3>());
    load_rows(Index<2>());
    add(Index<4>());
    load_rows(Index<0>());
    add(Index<5>());
    if constexpr (lines > 0) {
      memcpy(sizes, &largest, sizeof largest);
      weights_.advance((lines - 1) % kSplitRows + 1);
    }
    if constexpr (rows) rows_.finish();
  }

  template <int tiles, int panels>
  void multiply(const uint16_t* a, const uint16_t* b, ptrdiff_t count, const float* start, float* sums) {
    constexpr ptrdiff_t pitch = kPairColumns * sizeof(float);
    const auto place = [&](int tile, int panel) __attribute__((always_inline)) {
      return sums + tile * cut_.height * kPairColumns + panel * kPanel;
    };
    each_sum<tiles, panels>([&](auto sum, auto tile, auto panel) __attribute__((always_inline)) {
      if (start) {
        load_tile<sum>(start + panel * weights_.biases_pitch(), 0);
      } else {
        load_tile<sum>(place(tile, panel), pitch);
      }
    });
    for (ptrdiff_t step = 0; step < count; ++step, a += kPair, b += kPair) {
      if (has_rows_) rows_.start();
      if constexpr (tiles > 1 && panels > 1) {
        const bool rows = rows_.is_whole();
        const ptrdiff_t lines = min_of(weights_.lines_left(), lines_of_step_);
        if (lines >= 32) {
          rows ? multiply_step<2, 2, 32, true>(a, b) : multiply_step<2, 2, 32, false>(a, b);
        } else if (lines >= 16) {
          rows ? multiply_step<2, 2, 16, true>(a, b) : multiply_step<2, 2, 16, false>(a, b);
        } else if (lines >= 8) {
          rows ? multiply_step<2, 2, 8, true>(a, b) : multiply_step<2, 2, 8, false>(a, b);
        } else {
          rows ? multiply_step<2, 2, 0, true>(a, b) : multiply_step<2, 2, 0, false>(a, b);
        }
      } else {
        multiply_step<tiles, panels, 0, false>(a, b);
      }
      rows_.split_rest();
    }
    each_sum<tiles, panels>([&](auto sum, auto tile, auto panel) __attribute__((always_inline)) {
      store_tile_register<sum>(place(tile, panel), pitch);
    });
  }

  static ptrdiff_t share_of(ptrdiff_t work, ptrdiff_t times) { return (work + times - 1) / times; }

  void multiply_turn(const Turn& turn) {
    const ptrdiff_t pairs = cut_.pairs_of(turn.block), count = passes_.of_pass(turn.pass);
    const ptrdiff_t panels = weights_.panels_in(turn);
    const bool last = turn.pass + 1 == passes_.passes;
    const bool directly = last && !weights_.are_middling(turn);
    const float* const biases = turn.pass == 0 ? weights_.biases(turn) : nullptr;
    const uint16_t* const columns = weights_.split();
    const Turn next = after(turn);
    if (next.block * cut_.block < cut_.pairs) weights_.start(next);
    has_rows_ = turn.panels == 0;
    const ptrdiff_t lines = share_of(weights_.lines_left(), pairs * count);
    // Two tiles at once only where both are whole.
    lines_of_step_ = lines > 16 && !has_parts_ ? 32 : lines > 8 ? 16 : 8;
    for (ptrdiff_t i = 0; i < pairs; ++i) {
      const ptrdiff_t pair = turn.block * cut_.block + i, count_of_rows = cut_.rows_of(pair);
      sums_of_product_ = share_of(sums_.left(), count * kProducts);
      const ptrdiff_t kept = passes_.passes > 1 ? turn.panels * cut_.block + i : ++made_ % 2;
      float* const values = kept_ + kept * kSums;
      if (directly) {
        for (ptrdiff_t step = 0; has_rows_ && step < count; ++step) {
          rows_.start();
          rows_.split_rest();
        }
      } else {
        const auto multiply_pair = [&](auto tiles, auto wide) {
          multiply<tiles, wide>(rows_.at(region_ + i), columns, count, biases, values);
        };
        if (count_of_rows > cut_.height) {
          panels > 1 ? multiply_pair(Index<2>(), Index<2>()) : multiply_pair(Index<2>(), Index<1>());
        } else {
          panels > 1 ? multiply_pair(Index<1>(), Index<2>()) : multiply_pair(Index<1>(), Index<1>());
        }
      }
      sums_.finish_rest();
      if (!last) continue;
      const ptrdiff_t row = first_row_ + cut_.first_row(pair), panel = weights_.first_panel(turn);
      if (directly) {
        sums_.multiply_directly(row, count_of_rows, panel);
      } else {
        sums_.start(values, row, count_of_rows, panel, rows_.direct(pair));
      }
    }
    weights_.split_rest();
  }

  Turn after(Turn turn) const {
    if (++turn.panels < panels_) return turn;
    turn.panels = 0;
    if (++turn.pass < passes_.passes) return turn;
    turn.pass = 0;
    ++turn.block;
    return turn;
  }

  const Passes passes_;
  const Cut cut_;
  const Layout layout_;
  const ptrdiff_t first_row_, panels_;  // panels: pairs of them
  const bool has_parts_;                // tiles that are not whole
  float* const kept_;                   // sums
  SplitRows rows_;
  SplitWeights weights_;
  SplitSums sums_;

  ptrdiff_t region_ = 0, made_ = 0;  // of rows, the first of the block; pairs of tiles, so far
  // Of the turn: what is done beside its products.
  bool has_rows_ = false;
  ptrdiff_t lines_of_step_ = 0, sums_of_product_ = 0;
};

}  // namespace

size_t split_scratch(const Product& p) {
  const Passes passes(p);
  return static_cast<size_t>(Layout(p, Cut::most_of_block(p.rows, p, passes), passes).end);
}

void split_product(const Product& p) { SplitProduct(p).run(); }

#endif

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
