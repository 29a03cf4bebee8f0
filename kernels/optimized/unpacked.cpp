#include "unpacked.h"

#include <string.h>

#include "isa.h"
#include "packed.h"
#include "parallel.h"
#include "product.h"
#include "split.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kTiny = 8, kTinyProducts = 2 * kTiny * kTiny * kTiny;
// Panels at once: those that stay in a near cache, or so many that each row is worth splitting for them.
constexpr dim_t kPanelsAtOnce = 8, kSplitPanelsAtOnce = 32;

// Columns that are not divided: a tile of the widest vectors.
constexpr dim_t kColumns = 64;

void multiply_few(KernelContext& ctx, const Matrices& x) {
  FewRows rows{x.a, x.b, x.bias, x.c, x.m, x.k, x.row_pitch, x.column_pitch, x.n, 0, 0};
  // It is reading B that takes the time.
  const double operations = 8.0 * static_cast<double>(x.n) * static_cast<double>(x.k);
  const dim_t parts = parts_of(ctx, operations, (x.n + kColumns - 1) / kColumns);
  const auto part = [&](size_t index) {
    FewRows mine = rows;
    const Range columns = range_of(index, parts, x.n, kColumns);
    mine.first = columns.first;
    mine.last = columns.last;
    routines().few_rows(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

// Some panels of B at a time, each part with memory of its own for them.
void multiply_panels(KernelContext& ctx, const Matrices& x, ProductScratch& kept) {
  const auto product_of = [&](dim_t outputs) {
    Product some = over_matrix(x.m, x.k, x.k, outputs, x.n);
    some.has_room = true;
    some.wide_tiles = prefers_wide_tiles();
    return some;
  };
  const bool by_unit = is_split(product_of(x.n));
  const dim_t at_once = by_unit ? kSplitPanelsAtOnce : kPanelsAtOnce;
  const dim_t panels = round_to_panel(x.n) / kPanel, groups = (panels + at_once - 1) / at_once;
  const double operations =
      2.0 * static_cast<double>(x.m) * static_cast<double>(x.n) * static_cast<double>(x.k);
  const dim_t parts = parts_of(ctx, operations, groups);
  const size_t packed = static_cast<size_t>(at_once * (1 + x.k) * kPanel) * sizeof(float);
  const auto scratch_of = [&](dim_t outputs) {
    return (by_unit ? routines().split_scratch : routines().product_scratch)(product_of(outputs));
  };
  // Of whole panels at once, and of what is left: few columns may want more than many.
  const dim_t rest = x.n % (at_once * kPanel);
  const size_t of_whole = groups > 1 || rest == 0 ? scratch_of(at_once * kPanel) : 0;
  const size_t of_rest = rest ? scratch_of(rest) : 0, scratch = of_whole > of_rest ? of_whole : of_rest;
  if (!kept.provide(ctx, parts, packed + scratch)) return;
  const auto part = [&](size_t index) {
    float* panel = static_cast<float*>(kept.memory.of(index));
    const Range range = range_of(index, parts, groups);
    for (dim_t g = range.first; g < range.last; ++g) {
      const dim_t first = g * at_once * kPanel;
      const dim_t last = first + at_once * kPanel < x.n ? first + at_once * kPanel : x.n;
      routines().pack_matrix({x.b, x.bias, panel, x.row_pitch, x.column_pitch, x.k, first, last});
      Product product = product_of(last - first);
      product.input = x.a;
      product.packed = panel;
      product.output = x.c + first;
      product.scratch = reinterpret_cast<char*>(panel) + packed;
      (by_unit ? routines().split_product : routines().product)(product);
    }
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

// So few products that arranging them would take longer.
void multiply_tiny(const Matrices& x) {
  constexpr dim_t kAtOnce = 4;
  for (dim_t i = 0; i < x.m; ++i) {
    const float* a = x.a + i * x.k;
    float* c = x.c + i * x.n;
    dim_t j = 0;
    for (; x.column_pitch == 1 && j + kAtOnce <= x.n; j += kAtOnce) {
      float sums[kAtOnce] = {};
      if (x.bias) memcpy(sums, x.bias + j, sizeof sums);
      for (dim_t k = 0; k < x.k; ++k) {
        const float* b = x.b + k * x.row_pitch + j;
        for (int l = 0; l < kAtOnce; ++l) sums[l] += a[k] * b[l];
      }
      memcpy(c + j, sums, sizeof sums);
    }
    for (; j < x.n; ++j) {
      const float* b = x.b + j * x.column_pitch;
      float sum = x.bias ? x.bias[j] : 0.0f;
      for (dim_t k = 0; k < x.k; ++k) sum += a[k] * b[k * x.row_pitch];
      c[j] = sum;
    }
  }
}

}  // namespace

bool multiply(KernelContext& ctx, const Matrices& x, ProductScratch* kept) {
  const bool is_small = x.m <= kTiny && x.n <= kTiny && x.k <= kTiny;
  const bool is_short = x.m <= kTiny && x.column_pitch == 1 && x.n <= kTinyProducts && x.k <= kTinyProducts &&
                        x.m * x.n * x.k <= kTinyProducts;
  if (is_small || is_short) {
    multiply_tiny(x);
  } else if (x.m <= kFewRows && (x.row_pitch == 1 || x.column_pitch == 1)) {
    multiply_few(ctx, x);
  } else {
    ProductScratch own;
    multiply_panels(ctx, x, kept ? *kept : own);
  }
  return ctx.ok();
}

}  // namespace penlight::optimized
