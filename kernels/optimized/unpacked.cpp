#include "unpacked.h"

#include <string.h>

#include "isa.h"
#include "packed.h"
#include "parallel.h"
#include "product.h"
#include "split.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kTiny = 8, kTinyProducts = 64;  // of more products whole rows are read at once
// Panels at once: those that stay in a near cache, or so many that each row is worth splitting for them.
constexpr dim_t kPanelsAtOnce = 8, kSplitPanelsAtOnce = 32;

// Columns that are not divided: a tile of the widest vectors.
constexpr dim_t kColumns = 64;

// Is B read where it lies? Laying it out takes as long as multiplying some rows, or more of them where B
// stays in a near cache, and gives nothing where it stays in the nearest.
constexpr dim_t kRowsOfAny = 24, kRowsOfNear = 96;
constexpr dim_t kNear = 1 << 17, kNearest = 1 << 12;
bool is_read_as_it_lies(const Matrices& x) {
  if (x.column_pitch != 1) return x.row_pitch == 1 && x.m <= kFewRows;
  const auto is_within = [&](dim_t size) { return x.n <= size && x.k <= size && x.n * x.k <= size; };
  return x.m <= kRowsOfAny || (x.m <= kRowsOfNear && is_within(kNear) && !has_matrix_unit()) ||
         is_within(kNearest);
}

// Sums of so few rows may wait in the output while B is read, which from some size on comes from far away.
constexpr dim_t kRowsByLines = 2, kRowsOfFar = 4, kFar = 1 << 21;

PlainProduct as_it_lies(const Matrices& x) {
  const bool by_lines = x.m <= kRowsByLines || (x.m <= kRowsOfFar && x.k > kFar / (x.n > 0 ? x.n : 1));
  return {x.a, x.b, x.bias, x.c, x.m, x.k, x.row_pitch, x.column_pitch, x.n, 0, x.n, by_lines};
}

void multiply_as_it_lies(KernelContext& ctx, const Matrices& x) {
  const PlainProduct all = as_it_lies(x);
  // Of a few rows it is reading B that takes the time.
  const double each = 2.0 * static_cast<double>(x.n) * static_cast<double>(x.k);
  const double operations = each * static_cast<double>(x.m > 4 ? x.m : 4);
  const bool by_rows = x.m > x.n;
  const dim_t parts = parts_of(ctx, operations, by_rows ? x.m : (x.n + kColumns - 1) / kColumns);
  const auto part = [&](size_t index) {
    PlainProduct mine = all;
    if (by_rows) {
      const Range rows = range_of(index, parts, x.m);
      mine.input += rows.first * x.k;
      mine.output += rows.first * x.n;
      mine.rows = rows.last - rows.first;
    } else {
      const Range columns = range_of(index, parts, x.n, kColumns);
      mine.first = columns.first;
      mine.last = columns.last;
    }
    routines().plain_product(mine);
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

// Those of one product of several, from which on it is split itself.
constexpr double kOperationsOfLarge = 4 * kOperationsOfPart;

bool is_tiny(const Matrices& x) {
  if (x.m > kTiny || x.n > kTiny || x.k > kTiny) return false;
  return x.column_pitch != 1 || x.n == 1 || x.m * x.n * x.k <= kTinyProducts;
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
  if (is_tiny(x)) {
    multiply_tiny(x);
  } else if (is_read_as_it_lies(x)) {
    multiply_as_it_lies(ctx, x);
  } else {
    ProductScratch own;
    multiply_panels(ctx, x, kept ? *kept : own);
  }
  return ctx.ok();
}

bool multiply_each(KernelContext& ctx, const Matrices& first, dim_t count, ProductScratch& kept) {
  const auto at = [&](dim_t i) {
    Matrices x = first;
    x.a += i * x.m * x.k;
    x.b += i * x.k * x.n;
    x.c += i * x.m * x.n;
    return x;
  };
  const double operations =
      2.0 * static_cast<double>(first.m) * static_cast<double>(first.n) * static_cast<double>(first.k);
  const bool tiny = is_tiny(first);
  if ((tiny || is_read_as_it_lies(first)) && operations < kOperationsOfLarge) {
    in_parts(ctx, count, operations, [&](Range range) {
      for (dim_t i = range.first; i < range.last; ++i) {
        if (tiny) {
          multiply_tiny(at(i));
        } else {
          routines().plain_product(as_it_lies(at(i)));
        }
      }
    });
    return ctx.ok();
  }
  for (dim_t i = 0; i < count && ctx.ok(); ++i) multiply(ctx, at(i), &kept);
  return ctx.ok();
}

}  // namespace penlight::optimized
