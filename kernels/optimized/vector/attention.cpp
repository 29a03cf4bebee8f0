// Attention of one head: scores of a block of queries, softmax, weighted values.
//
// Keys and values are laid out as panels once for each head, the scale already in
// the keys, and rows are multiplied by one panel after the other; only one block of scores exists.
// A few queries, as when a language model writes one token after the other, are not
// worth the panels: keys and values are read where they lie. What a query gives does not
// depend on the others then, so that they may be split as one likes. Cores that prefer tall tiles compute
// many queries by these.
#include "dots.h"
#include "functions.h"
#include "panel_lines.h"
#include "tall_attention.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kScores = 16384;  // of a block: they stay in the second cache

bool is_tall(const Attention& a) { return kHasTallTiles && a.tall_tiles && !a.few; }

struct Sizes {
  ptrdiff_t block, pitch, keys, values, panels;
};

Sizes sizes_of(const Attention& a) {
  Sizes sizes;
  sizes.pitch = round_up(a.keys, kPanel);
  // Blocks of about one size. Of smaller ones, a causal mask hides more keys whole.
  const ptrdiff_t most = min_of(round_up(kScores / sizes.pitch + 1, 12), a.causal ? 48 : 96);
  const ptrdiff_t blocks = max_of((a.queries + most - 1) / most, 1);
  const ptrdiff_t rows = is_tall(a) ? kLanes : kTileRows;
  sizes.block = min_of(a.queries, round_up((a.queries + blocks - 1) / blocks, rows));
  sizes.keys = a.few ? 0 : sizes.pitch * (1 + a.width);
  sizes.values = a.few ? 0 : round_up(a.value_width, kPanel) * (1 + a.keys);
  sizes.panels = sizes.keys + sizes.values;
  return sizes;
}

// Keys times the scale, as weights of a product whose outputs are the keys.
void pack_keys(const Attention& a, float* to) {
  for (ptrdiff_t first = 0; first < a.keys; first += kPanel, to += (1 + a.width) * kPanel) {
    const ptrdiff_t count = min_of(kPanel, a.keys - first);
    memset(to, 0, sizeof(float) * static_cast<size_t>(count < kPanel ? (1 + a.width) * kPanel : kPanel));
    for (ptrdiff_t j = 0; j < count; j += kLanes) {
      lay_out(a.key + (first + j) * a.key_pitch, a.key_pitch, count - j, a.width, to + kPanel + j, kPanel,
              a.scale);
    }
  }
}

// Values as weights of a product whose outputs are their columns.
void pack_values(const Attention& a, float* to) {
  for (ptrdiff_t first = 0; first < a.value_width; first += kPanel) {
    const ptrdiff_t count = min_of(kPanel, a.value_width - first);
    memset(to, 0, sizeof(float) * kPanel);
    to += kPanel;
    for (ptrdiff_t k = 0; k < a.keys; ++k, to += kPanel) {
      const float* value = a.value + k * a.value_pitch + first;
      repeat<kPanel / kLanes>([&](auto v) __attribute__((always_inline)) {
        store(to + v * kLanes, load_part(value + v * kLanes, count - v * kLanes));
      });
    }
  }
}

// `rows` rows from `input`, `depth` elements of each, times the first `outputs` columns that
// `panels`, of `panel_depth`, have.
void multiply(const float* input, ptrdiff_t rows, ptrdiff_t pitch, ptrdiff_t depth, const float* panels,
              ptrdiff_t panel_depth, ptrdiff_t outputs, float* output, ptrdiff_t output_pitch, bool wide) {
  const int pixels = pixels_of(rows);
  const auto finish = [&](ptrdiff_t column) -> Finish {
    return {output + column, output_pitch, outputs - column, {}};
  };
  for (ptrdiff_t column = 0; column < outputs; column += kPanel) {
    const ptrdiff_t apart = (1 + panel_depth) * kPanel;
    const Panel panel = {panels + column * (1 + panel_depth), depth, pitch, nullptr, pixels, apart};
    if (kHasWideTiles && wide && column + kPanel < outputs) {
      multiply_two_panels(panel, input, rows, {finish(column), finish(column + kPanel)});
      column += kPanel;
    } else {
      multiply_pixels(panel, input, rows, finish(column));
    }
  }
}

// Are all of `count` truths true? Masks often hide what pads a batch, and nothing of most rows.
bool are_true(const uint8_t* mask, ptrdiff_t count) {
  Ints hidden{};
  ptrdiff_t j = 0;
  for (; j + kLanes <= count; j += kLanes) hidden |= load_bytes(mask + j) == Ints{};
  bool any = any_of(hidden);
  for (; j < count; ++j) any |= mask[j] == 0;
  return !any;
}

void add_mask(const Attention& a, ptrdiff_t query, float* row, ptrdiff_t count) {
  const ptrdiff_t at = query * a.mask_row;
  if (a.float_mask && a.mask_column == 1) {
    const float* mask = a.float_mask + at;
    ptrdiff_t j = 0;
    for (; j + kLanes <= count; j += kLanes) store(row + j, load(row + j) + load(mask + j));
    for (; j < count; ++j) row[j] += mask[j];
  } else if (a.float_mask) {
    for (ptrdiff_t j = 0; j < count; ++j) row[j] += a.float_mask[at + j * a.mask_column];
  } else if (a.bool_mask) {
    const uint8_t* mask = a.bool_mask + at;
    if (a.mask_column == 1 && are_true(mask, count)) return;
    ptrdiff_t j = 0;
    for (; a.mask_column == 1 && j + kLanes <= count; j += kLanes) {
      const Ints hidden = load_bytes(mask + j) == Ints{};
      const Floats score = load(row + j);
      store(row + j,
            select(hidden, a.fills ? splat(a.hidden_score) : score - splat(__builtin_inff()), score));
    }
    for (; j < count; ++j) {
      if (!mask[j * a.mask_column]) row[j] = a.fills ? a.hidden_score : row[j] - __builtin_inff();
    }
  }
}

// Scores of a query that are computed with: those it sees, up to whole vectors.
ptrdiff_t end_of(const Attention& a, ptrdiff_t query, ptrdiff_t pitch) {
  return min_of(round_up(seen_by(a, query + 1), kLanes), pitch);
}

// Masks the scores of a query; the largest of them, or zero where there is none: any finite shift
// makes the masked ones zeros.
float mask_row(const Attention& a, ptrdiff_t query, float* row, ptrdiff_t used, ptrdiff_t pitch) {
  add_mask(a, query, row, used);
  const ptrdiff_t end = end_of(a, query, pitch), seen = seen_by(a, query + 1);
  if (seen < end) {  // a vector at once: it is loaded next
    float* const last = row + end - kLanes;
    const Ints shown = (Ints)first_lanes((Floats)splat_int(-1), seen - (end - kLanes));
    store(last, select(shown, load(last), splat(-__builtin_inff())));
  }
  // Several, as each waits for the one before it.
  Floats most[4];
  repeat<4>([&](auto k) __attribute__((always_inline)) { most[k] = load(row); });
  ptrdiff_t at = kLanes;
  for (; at + 4 * kLanes <= end; at += 4 * kLanes) {
    repeat<4>([&](auto k) __attribute__((always_inline)) {
      most[k] = at_least(load(row + at + k * kLanes), most[k]);
    });
  }
  for (; at < end; at += kLanes) most[0] = at_least(load(row + at), most[0]);
  const float largest = max_lanes(at_least(at_least(most[0], most[1]), at_least(most[2], most[3])));
  return largest == -__builtin_inff() ? 0.0f : largest;
}

// Scores of some queries, a row each, to exponentials; the factors that make those of each sum to one,
// or `hidden`. Of the first `used`, what a causal mask hides becomes zero; as does what pads a row to
// whole vectors. Rows are taken together, as the steps of one wait for each other.
void soften(const Attention& a, ptrdiff_t query, ptrdiff_t count, float* rows, ptrdiff_t used,
            ptrdiff_t pitch, float* factors) {
  constexpr ptrdiff_t kTogether = 4;
  for (ptrdiff_t first = 0; first < count; first += kTogether) {
    const ptrdiff_t last = min_of(first + kTogether, count);
    for (ptrdiff_t i = first; i < last; ++i) {
      factors[i] = mask_row(a, query + i, rows + i * pitch, used, pitch);
    }
    for (ptrdiff_t i = first; i < last; ++i) {
      float* row = rows + i * pitch;
      const ptrdiff_t end = end_of(a, query + i, pitch);
      const Floats shift = splat(factors[i]);
      Floats total{};
      const auto weight = [&](auto score) __attribute__((always_inline)) {
        const auto value = exp_of_score(score - shift);
        total += added_up(value);
        return value;
      };
      apply_to_run(row, row, end, weight);
      for (ptrdiff_t j = end; j < used; ++j) row[j] = 0.0f;
      const float sum = sum_lanes(total);
      factors[i] = sum == 0.0f ? a.hidden : 1.0f / sum;
    }
  }
}

void scale_row(float* row, ptrdiff_t count, float factor) {
  const Floats factors = splat(factor);
  ptrdiff_t j = 0;
  for (; j + kLanes <= count; j += kLanes) store(row + j, load(row + j) * factors);
  for (; j < count; ++j) row[j] *= factor;
}

// Columns [first, first + vectors * kLanes) of the weighted values; `left` of them are there.
template <int vectors>
PENLIGHT_INLINE void weigh(const Attention& a, const float* weights, ptrdiff_t seen, ptrdiff_t first,
                           ptrdiff_t left, float factor, float* out) {
  Floats even[vectors] = {}, odd[vectors] = {};
  const float* value = a.value + first;
  const auto add = [&](Floats(&sums)[vectors], ptrdiff_t j) __attribute__((always_inline)) {
    const Floats weight = splat(weights[j]);
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      sums[v] += weight * load_part(value + j * a.value_pitch + v * kLanes, left - v * kLanes);
    });
  };
  ptrdiff_t j = 0;
  for (; j + 2 <= seen; j += 2) {
    add(even, j);
    add(odd, j + 1);
  }
  if (j < seen) add(even, j);
  repeat<vectors>([&](auto v) __attribute__((always_inline)) {
    store_part(out + first + v * kLanes, (even[v] + odd[v]) * splat(factor), left - v * kLanes);
  });
}

void attend_few(const Attention& a, float* scores, ptrdiff_t pitch) {
  constexpr int kVectors = 4;
  const Floats scale = splat(a.scale);
  const ptrdiff_t last = seen_by(a, a.queries);
  // A block of keys serves every query before the next one is read.
  for (ptrdiff_t j = 0; j < last; j += kLanes) {
    const float* keys = a.key + j * a.key_pitch;
    const ptrdiff_t count = min_of(kLanes, a.keys - j);
    for (ptrdiff_t i = 0; i < a.queries; ++i) {
      store(scores + i * pitch + j,
            dots(a.query + i * a.query_pitch, keys, a.key_pitch, count, a.width) * scale);
    }
  }
  for (ptrdiff_t i = 0; i < a.queries; ++i) {
    float* row = scores + i * pitch;
    const ptrdiff_t seen = seen_by(a, i + 1);
    float factor;
    soften(a, i, 1, row, seen, pitch, &factor);
    float* out = a.output + i * a.output_pitch;
    ptrdiff_t c = 0;
    for (; c + kVectors * kLanes <= a.value_width; c += kVectors * kLanes) {
      weigh<kVectors>(a, row, seen, c, kVectors * kLanes, factor, out);
    }
    for (; c < a.value_width; c += kLanes) weigh<1>(a, row, seen, c, a.value_width - c, factor, out);
  }
}

}  // namespace

ptrdiff_t attention_block(const Attention& a) { return a.few ? a.queries : sizes_of(a).block; }

size_t attention_scratch(const Attention& a) {
  const Sizes sizes = sizes_of(a);
  const ptrdiff_t rows = is_tall(a) ? tall_attention_size(a) : sizes.block * (sizes.pitch + 1);
  return static_cast<size_t>(sizes.panels + rows) * sizeof(float);
}

void attention(const Attention& a) {
  const Sizes sizes = sizes_of(a);
  float* const panels = static_cast<float*>(a.scratch);
  float* const scores = panels + sizes.panels;
  if (a.few) return attend_few(a, scores, sizes.pitch);
  float* const factors = scores + sizes.block * sizes.pitch;
  if (a.fresh) {
    pack_keys(a, panels);
    pack_values(a, panels + sizes.keys);
  }
  if constexpr (kHasTallTiles) {
    if (is_tall(a)) return attend_tall(a, panels, panels + sizes.keys, scores);
  }
  for (ptrdiff_t first = a.first_query; first < a.last_query; first += sizes.block) {
    const ptrdiff_t count = min_of(sizes.block, a.last_query - first);
    // Later keys are hidden from all of these queries.
    const ptrdiff_t seen = seen_by(a, first + count);
    multiply(a.query + first * a.query_pitch, count, a.query_pitch, a.width, panels, a.width, seen, scores,
             sizes.pitch, a.wide_tiles);
    soften(a, first, count, scores, seen, sizes.pitch, factors);
    float* out = a.output + first * a.output_pitch;
    multiply(scores, count, sizes.pitch, seen, panels + sizes.keys, a.keys, a.value_width, out,
             a.output_pitch, a.wide_tiles);
    for (ptrdiff_t i = 0; i < count; ++i) scale_row(out + i * a.output_pitch, a.value_width, factors[i]);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
