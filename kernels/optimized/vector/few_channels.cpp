// Convolution of images with few channels, as the first of a network is, in either order.
//
// Runs of a window would be short and their pointers many. But what one output reads lies a fixed distance
// from what its neighbour reads, for every step of the sum: in the image itself where windows of a tile do
// not leave it, and elsewhere in copies of the lines under a few rows of outputs, with the padding.
#include "few_channels.h"

#include "shared_columns.h"
#include "strip.h"
#include "tall_tiles.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kHalfVectors = kTileVectors / 2;
// Of one vector of few lanes there are to be so many sums that none waits for the one before it.
constexpr bool kHasNarrowTiles = !kFewTiles && kLanes == 8 && kHalfVectors == 1;
template <int vectors>
constexpr int kTimes = kHasNarrowTiles && vectors == kHalfVectors ? 2 : 1;
// Heights of tiles: a line of 14, 56 or 112 outputs is no multiple of the highest.
template <int vectors>
#ifdef PENLIGHT_FEW_TILES
constexpr int kHeights[] = {kTileRows};
#else
constexpr int kHeights[] = {kTileRows * kTimes<vectors>, kTileRows * kTimes<vectors> * 2 / 3,
                            kTileRows * kTimes<vectors> / 2 + 1};
#endif
// Are windows inside the image read where they lie? Two lists of the steps' places then.
constexpr bool kReadsInPlace = !kFewTiles;
constexpr ptrdiff_t kPlaces = kReadsInPlace ? 2 : 1;

// Of tiles of a whole strip, or of some columns of one.
int height_of(const Geometry& g, ptrdiff_t columns = kStripColumns) {
  if (kHasNarrowTiles && columns <= kHalfVectors * kLanes) {
    return best_height(g.out_width, kHeights<kHalfVectors>);
  }
  return best_height(g.out_width, kHeights<kTileVectors>);
}

// Rows of outputs at a time: enough outputs to be worth a pass over the weights.
ptrdiff_t rows_of(const Geometry& g) { return min_of(max_of(4, 64 / g.out_width), g.out_height); }

bool has_wide_tiles(const FewChannels& p) { return kHasWideTiles && p.wide_tiles; }

// The height of tall tiles, for columns that would not fill a strip; 0 if there are none.
int tall_height(const FewChannels& p) {
  return p.tall_tiles && p.outputs % kStripColumns ? line_height(next_of(p), p.geometry.out_width) : 0;
}

// Columns of a line with its padding, under all outputs that full tiles have.
ptrdiff_t columns_of(const FewChannels& p) {
  const Geometry& g = p.geometry;
  const int tall = tall_height(p);
  ptrdiff_t outputs = round_up(g.out_width, height_of(g));
  if (kHasNarrowTiles) outputs = max_of(outputs, round_up(g.out_width, height_of(g, 1)));
  if (shares_columns(p)) {
    outputs = max_of(outputs, round_up(g.out_width, shared_height(p, 1)));
    outputs = max_of(outputs, round_up(g.out_width, shared_height(p, 2)));
  }
  if (has_wide_tiles(p)) outputs = max_of(outputs, round_up(g.out_width, kWideRows));
  if (tall) outputs = max_of(outputs, round_up(g.out_width, tall));
  return columns_under(g, outputs);
}

enum class Kind { Usual, Wide, Tall, Shared };

// Columns of the result that tiles of one kind compute.
struct Stripe {
  Kind kind;
  ptrdiff_t width;
  int height;  // of the tiles
};

// The one from a column on.
Stripe stripe_of(const FewChannels& p, ptrdiff_t column) {
  const ptrdiff_t rest = p.outputs - column;
  const ptrdiff_t width = min_of(kStripColumns, rest);
  if (shares_columns(p)) {
    const int vectors = width > kHalfVectors * kLanes ? 2 : 1;
    return {Kind::Shared, width, shared_height(p, vectors)};
  }
  if (has_wide_tiles(p) && rest >= kWideColumns) return {Kind::Wide, kWideColumns, kWideRows};
  const int tall = rest < kStripColumns ? tall_height(p) : 0;
  if (tall) return {Kind::Tall, min_of(kPanel, rest), tall};
  return {Kind::Usual, width, height_of(p.geometry, width)};
}

// Outputs [first, last) of a line: of tiles of a height whose windows lie inside the image.
struct Inner {
  ptrdiff_t first, last;
};

Inner inner_of(const FewChannels& p, const Stripe& stripe) {
  const Geometry& g = p.geometry;
  const ptrdiff_t height = stripe.height;
  const bool skips = stripe.kind == Kind::Shared;  // what is beside the image
  const ptrdiff_t before = round_up(max_of((g.pad_w + g.stride_w - 1) / g.stride_w, 0), height);
  const ptrdiff_t first = skips && begins_outside(p) ? 0 : before;
  if (skips && ends_outside(p, height)) return {first, g.out_width};
  const ptrdiff_t spare = g.width + g.pad_w - columns_under(g, 1);  // beside the first window
  const ptrdiff_t last = spare < 0 ? 0 : (spare / g.stride_w + 1) / height * height;
  return {first, max_of(min_of(last, g.out_width), first)};
}

// Rows of outputs [first, last) whose windows lie between the image's first and last lines.
Inner rows_inside(const Geometry& g) {
  const ptrdiff_t first = min_of((max_of(g.pad_h, 0) + g.stride_h - 1) / g.stride_h, g.out_height);
  const ptrdiff_t spare = g.height + g.pad_h - lines_of(g, 1);
  return {first, max_of(min_of(spare < 0 ? 0 : spare / g.stride_h + 1, g.out_height), first)};
}

// Those of the tiles of all stripes.
Inner inner_of_all(const FewChannels& p) {
  Inner all{0, p.geometry.out_width};
  for (ptrdiff_t column = 0; column < p.outputs;) {
    const Stripe stripe = stripe_of(p, column);
    const Inner inner = inner_of(p, stripe);
    all = {max_of(all.first, inner.first), min_of(all.last, inner.last)};
    column += stripe.width;
  }
  return all;
}

struct Tiles {
  const float* lines;
  const ptrdiff_t* offsets;  // of each step of the sum, in `lines`
  ptrdiff_t steps;
  ptrdiff_t next;                     // elements from what one output reads to what the next does
  const float* weights;               // biases, then a panel's columns for each step
  ptrdiff_t weights_panel;            // elements from panel to panel, where a tile spans two
  bool begins_outside, ends_outside;  // as of SharedColumns
  Finish finish;
};

// A tile of outputs from `column` on, of which so many are stored.
template <int rows, int vectors>
PENLIGHT_INLINE void multiply_tile(const Tiles& t, ptrdiff_t column, ptrdiff_t stored) {
  const auto weight = [&](const float* base, int v) { return base + place_of_vector(v, t.weights_panel); };
  Floats sums[rows][vectors];
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    const Floats bias = load(weight(t.weights, v));
    repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][v] = bias; });
  });
  const ptrdiff_t next = t.next, steps = t.steps;
  const ptrdiff_t* const offsets = t.offsets;
  const float* const lines = t.lines + column * next;
  const float* b = t.weights + kPanel;
  ptrdiff_t k = 0;
  const auto step = [&](auto at) __attribute__((always_inline)) {
    const float* a = lines + offsets[k + at];
    Floats columns[vectors];
    repeat<vectors>([&](auto v)
                        __attribute__((always_inline)) { columns[v] = load(weight(b + at * kPanel, v)); });
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      const Floats value = splat(a[i * next]);
      repeat<vectors>([&](auto v)
                          __attribute__((always_inline)) { multiply_add(sums[i][v], value, columns[v]); });
    });
  };
  if constexpr (kUnrollsSteps || (kHasWideTiles && vectors == kWideVectors)) {
    for (; k + kStepsAtOnce <= steps; k += kStepsAtOnce, b += kStepsAtOnce * kPanel) {
      repeat<kStepsAtOnce>(step);
    }
  }
  for (; k < steps; ++k, b += kPanel) step(Index<0>());
  finish_tile<rows, vectors>(t.finish, column, stored, sums);
}

// Outputs [column, outputs) of a line.
template <int rows, int vectors>
void multiply(const Tiles& t, ptrdiff_t column, ptrdiff_t outputs) {
  for (; column < outputs; column += rows) {
    multiply_tile<rows, vectors>(t, column, min_of(rows, outputs - column));
  }
}

// A line of outputs, by tiles of a height.
template <int vectors, int at = 0>
void multiply_line(const Tiles& t, int height, ptrdiff_t outputs) {
  if constexpr (at + 1 < static_cast<int>(sizeof kHeights<vectors> / sizeof *kHeights<vectors>)) {
    if (height != kHeights<vectors>[at]) return multiply_line<vectors, at + 1>(t, height, outputs);
  }
  multiply<kHeights<vectors>[at], vectors>(t, 0, outputs);
}

// By wide tiles, the last of them no higher than it needs to be.
void multiply_wide(const Tiles& t, ptrdiff_t outputs) {
  if constexpr (kHasWideTiles) {
    const ptrdiff_t rest = outputs % kWideRows, whole = outputs - rest;
    multiply<kWideRows, kWideVectors>(t, 0, whole);
    with_height<kWideRows>(rest, [&](auto height) { multiply<height, kWideVectors>(t, whole, outputs); });
  }
}

// The first outputs of a line.
void multiply_stripe(const FewChannels& p, const Tiles& t, const Stripe& stripe, ptrdiff_t outputs) {
  if (kHasWideTiles && stripe.kind == Kind::Shared) {
    const SharedColumns s{t.offsets, t.steps, t.weights, t.weights_panel, t.begins_outside, t.ends_outside};
    if (stripe.width > kHalfVectors * kLanes) {
      multiply_shared<2>(p, s, t.lines, outputs, stripe.height, t.finish);
    } else {
      multiply_shared<1>(p, s, t.lines, outputs, stripe.height, t.finish);
    }
  } else if (kHasTallTiles && stripe.kind == Kind::Tall) {
    multiply_line_tall(t.weights, t.lines, t.offsets, t.next, t.steps, outputs, stripe.height, false,
                       t.finish);
  } else if (kHasWideTiles && stripe.kind == Kind::Wide) {
    multiply_wide(t, outputs);
  } else if (stripe.width > kHalfVectors * kLanes) {
    multiply_line<kTileVectors>(t, stripe.height, outputs);
  } else {
    multiply_line<kHalfVectors>(t, stripe.height, outputs);
  }
}

}  // namespace

size_t few_channels_scratch(const FewChannels& p) {
  const Geometry& g = p.geometry;
  size_t size = static_cast<size_t>(lines_of(g, rows_of(g)));
  if (__builtin_mul_overflow(size, static_cast<size_t>(columns_of(p)), &size) ||
      __builtin_mul_overflow(size, static_cast<size_t>(p.channels) * sizeof(float), &size) ||
      __builtin_add_overflow(size, static_cast<size_t>(kPlaces * steps_of(p)) * sizeof(ptrdiff_t), &size)) {
    return SIZE_MAX;
  }
  return size;
}

void few_channels(const FewChannels& p) {
  const Geometry& g = p.geometry;
  const ptrdiff_t steps = steps_of(p);
  ptrdiff_t *offsets = static_cast<ptrdiff_t*>(p.scratch), *places = offsets + (kPlaces - 1) * steps;
  float* lines = reinterpret_cast<float*>(places + steps);
  const ptrdiff_t columns = columns_of(p), line = columns * p.channels;
  const ptrdiff_t image_line = g.width * column_of(p), plane = g.height * g.width;
  if (kReadsInPlace) find_steps(p, image_line, plane, places);
  find_steps(p, columns, offsets);
  const Inner all = kReadsInPlace ? inner_of_all(p) : Inner{0, 0};
  Tiles t;
  t.steps = steps;
  t.next = next_of(p);
  t.weights_panel = (1 + steps) * kPanel;
  const Inner inside = rows_inside(g);
  ptrdiff_t count = 0;
  for (ptrdiff_t first = p.first_row; first < p.last_row; first += count) {
    const ptrdiff_t image = first / g.out_height, oh = first % g.out_height;
    // Those whose windows leave the image above or below are computed apart from others, which lie in place.
    const ptrdiff_t next = oh < inside.first ? inside.first : oh < inside.last ? inside.last : g.out_height;
    count = min_of(rows_of(g), min_of(p.last_row - first, next - oh));
    const ptrdiff_t top = oh * g.stride_h - g.pad_h, height = lines_of(g, count);
    const bool in_place = all.first < all.last && top >= 0 && top + height <= g.height;
    const ptrdiff_t before = all.first > 0 ? columns_under(g, all.first) : 0;
    const ptrdiff_t copied_columns = in_place ? before : columns;
    if (copied_columns) copy_lines(p, image, top, height, columns, 0, copied_columns, lines);
    if (in_place && all.last < g.out_width) {
      copy_lines(p, image, top, height, columns, all.last * g.stride_w, columns, lines);
    }
    for (ptrdiff_t column = 0; column < p.outputs;) {
      const Stripe stripe = stripe_of(p, column);
      const Inner inner = in_place ? inner_of(p, stripe) : Inner{g.out_width, g.out_width};
      t.weights = p.packed + column / kPanel * t.weights_panel + column % kPanel;
      for (ptrdiff_t r = 0; r < count; ++r) {
        const auto multiply_some = [&](ptrdiff_t begin, ptrdiff_t end, const float* from) {
          if (begin >= end) return;
          const ptrdiff_t at = ((first + r) * g.out_width + begin) * p.outputs + column;
          t.lines = from;
          t.begins_outside = begin == 0 && begins_outside(p);
          t.ends_outside = end == g.out_width && ends_outside(p, stripe.height);
          t.finish = {p.output + at, p.outputs, stripe.width, p.epilogue};
          if (t.finish.epilogue.residual) t.finish.epilogue.residual += at;
          multiply_stripe(p, t, stripe, end - begin);
        };
        const float* const copied = lines + r * g.stride_h * line;
        t.offsets = offsets;
        multiply_some(0, inner.first, copied);
        multiply_some(inner.last, g.out_width, copied + inner.last * t.next);
        if (in_place) {
          t.offsets = places;
          multiply_some(inner.first, inner.last,
                        p.input + image * plane * p.channels + (top + r * g.stride_h) * image_line +
                            (inner.first * g.stride_w - g.pad_w) * column_of(p));
        }
      }
      column += stripe.width;
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
