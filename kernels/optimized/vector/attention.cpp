// Attention of one head: scores of a block of queries, softmax, weighted values.
//
// Keys and values are laid out as panels once for each head, the scale already in
// the keys, and both products are strips of product.cpp; only one block of scores exists.
// A few queries, as when a language model writes one token after the other, are not
// worth the panels: keys and values are read where they lie.
#include "functions.h"
#include "strip.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kFewQueries = 4;
constexpr ptrdiff_t kScores = 16384;  // of a block: they stay in the second cache

struct Sizes {
  ptrdiff_t block, pitch, keys, values, panels;
};

Sizes sizes_of(const Attention& a) {
  Sizes sizes;
  sizes.pitch = round_up(a.keys, kPanel);
  const ptrdiff_t fitting = round_up(kScores / sizes.pitch + 1, 12);
  sizes.block = min_of(a.queries, fitting < 96 ? fitting : 96);
  const bool few = a.queries < kFewQueries;
  sizes.keys = few ? 0 : sizes.pitch * (1 + a.width);
  sizes.values = few ? 0 : round_up(a.value_width, kPanel) * (1 + a.keys);
  sizes.panels = sizes.keys + sizes.values;
  return sizes;
}

// Keys times the scale, as weights of a product whose outputs are the keys.
void pack_keys(const Attention& a, float* to) {
  const Floats scales = splat(a.scale);
  for (ptrdiff_t first = 0; first < a.keys; first += kPanel, to += (1 + a.width) * kPanel) {
    const ptrdiff_t count = min_of(kPanel, a.keys - first);
    memset(to, 0, sizeof(float) * static_cast<size_t>(count < kPanel ? (1 + a.width) * kPanel : kPanel));
    for (ptrdiff_t j = 0; j < count; ++j) {
      const float* key = a.key + (first + j) * a.key_pitch;
      float* column = to + kPanel + j;
      ptrdiff_t c = 0;
      for (; c + kLanes <= a.width; c += kLanes, column += kLanes * kPanel) {
        float lanes[kLanes];
        store(lanes, load(key + c) * scales);
        repeat<kLanes>([&](auto i) __attribute__((always_inline)) { column[i * kPanel] = lanes[i]; });
      }
      for (; c < a.width; ++c, column += kPanel) *column = key[c] * a.scale;
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

// `rows` rows from `input`, times the first `outputs` columns that `panels` have; `pointers`
// has room for them, and for those that the last tile has too many.
void multiply(const float* input, ptrdiff_t rows, ptrdiff_t pitch, ptrdiff_t depth, const float* panels,
              ptrdiff_t outputs, float* output, ptrdiff_t output_pitch, const float** pointers) {
  for (ptrdiff_t i = 0; i < round_up(rows, kTileRows); ++i) pointers[i] = input + min_of(i, rows - 1) * pitch;
  Strip strip{};
  strip.rows = pointers;
  strip.tile_step = kTileRows;
  strip.count = rows;
  strip.taps = 1;
  strip.channels = depth;
  strip.weights_panel = (1 + depth) * kPanel;
  strip.last = true;
  strip.finish.pitch = output_pitch;
  for (ptrdiff_t column = 0; column < outputs; column += kStripColumns) {
    strip.start = panels + column / kPanel * strip.weights_panel + column % kPanel;
    strip.weights = strip.start + kPanel;
    strip.finish.output = output + column;
    strip.finish.columns = min_of(kStripColumns, outputs - column);
    multiply_strip(strip);
  }
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
    ptrdiff_t j = 0;
    for (; a.mask_column == 1 && j + kLanes <= count; j += kLanes) {
      const Ints hidden = load_bytes(mask + j) == Ints{};
      store(row + j, select(hidden, splat(-__builtin_inff()), load(row + j)));
    }
    for (; j < count; ++j) {
      if (!mask[j * a.mask_column]) row[j] = -__builtin_inff();
    }
  }
}

// Scores of one query to exponentials; the factor that makes them sum to one. What a
// causal mask hides, and what pads the row, becomes zero.
float soften(const Attention& a, ptrdiff_t query, float* row, ptrdiff_t pitch) {
  add_mask(a, query, row, a.keys);
  const ptrdiff_t seen = a.causal ? min_of(a.keys, query + 1) : a.keys;
  for (ptrdiff_t j = seen; j < pitch; ++j) row[j] = -__builtin_inff();
  const ptrdiff_t end = min_of(round_up(seen, kLanes), pitch);
  Floats most = load(row);
  for (ptrdiff_t j = kLanes; j < end; j += kLanes) most = at_least(load(row + j), most);
  const float largest = max_lanes(most);
  // Nothing but masked scores: any finite shift makes them zeros.
  const Floats shift = splat(largest == -__builtin_inff() ? 0.0f : largest);
  Floats total{};
  for (ptrdiff_t j = 0; j < end; j += kLanes) {
    const Floats value = exp_of_score(load(row + j) - shift);
    total += value;
    store(row + j, value);
  }
  for (ptrdiff_t j = end; j < pitch; ++j) row[j] = 0.0f;
  const float sum = sum_lanes(total);
  return sum == 0.0f ? 0.0f : 1.0f / sum;
}

void scale_row(float* row, ptrdiff_t count, float factor) {
  const Floats factors = splat(factor);
  ptrdiff_t j = 0;
  for (; j + kLanes <= count; j += kLanes) store(row + j, load(row + j) * factors);
  for (; j < count; ++j) row[j] *= factor;
}

float dot(const float* a, const float* b, ptrdiff_t count) {
  Floats first{}, second{};
  ptrdiff_t c = 0;
  for (; c + 2 * kLanes <= count; c += 2 * kLanes) {
    first += load(a + c) * load(b + c);
    second += load(a + c + kLanes) * load(b + c + kLanes);
  }
  for (; c + kLanes <= count; c += kLanes) first += load(a + c) * load(b + c);
  float sum = sum_lanes(first + second);
  for (; c < count; ++c) sum += a[c] * b[c];
  return sum;
}

void attend_few(const Attention& a, float* scores, ptrdiff_t pitch) {
  for (ptrdiff_t i = 0; i < a.queries; ++i) {
    const float* query = a.query + i * a.query_pitch;
    float* out = a.output + i * a.output_pitch;
    const ptrdiff_t seen = a.causal ? min_of(a.keys, i + 1) : a.keys;
    for (ptrdiff_t j = 0; j < seen; ++j) scores[j] = dot(query, a.key + j * a.key_pitch, a.width) * a.scale;
    for (ptrdiff_t j = seen; j < a.keys; ++j) scores[j] = 0.0f;
    const float factor = soften(a, i, scores, pitch);
    ptrdiff_t c = 0;
    for (; c + kLanes <= a.value_width; c += kLanes) {
      Floats sums[4] = {};
      ptrdiff_t j = 0;
      for (; j + 4 <= seen; j += 4) {
        repeat<4>([&](auto u) __attribute__((always_inline)) {
          sums[u] += splat(scores[j + u]) * load(a.value + (j + u) * a.value_pitch + c);
        });
      }
      for (; j < seen; ++j) sums[0] += splat(scores[j]) * load(a.value + j * a.value_pitch + c);
      store(out + c, ((sums[0] + sums[1]) + (sums[2] + sums[3])) * splat(factor));
    }
    for (; c < a.value_width; ++c) {
      float sum = 0.0f;
      for (ptrdiff_t j = 0; j < seen; ++j) sum += scores[j] * a.value[j * a.value_pitch + c];
      out[c] = sum * factor;
    }
  }
}

}  // namespace

size_t attention_scratch(const Attention& a) {
  const Sizes sizes = sizes_of(a);
  const ptrdiff_t floats = sizes.panels + sizes.block * (sizes.pitch + 1);
  return static_cast<size_t>(round_up(sizes.block, kTileRows)) * sizeof(float*) +
         static_cast<size_t>(floats) * sizeof(float);
}

void attention(const Attention& a) {
  const Sizes sizes = sizes_of(a);
  const float** pointers = static_cast<const float**>(a.scratch);
  float* panels = reinterpret_cast<float*>(pointers + round_up(sizes.block, kTileRows));
  float* scores = panels + sizes.panels;
  if (a.queries < kFewQueries) return attend_few(a, scores, sizes.pitch);
  float* factors = scores + sizes.block * sizes.pitch;
  if (a.fresh) {
    pack_keys(a, panels);
    pack_values(a, panels + sizes.keys);
  }
  for (ptrdiff_t first = 0; first < a.queries; first += sizes.block) {
    const ptrdiff_t count = min_of(sizes.block, a.queries - first);
    // Later keys are hidden from all of these queries.
    const ptrdiff_t seen = a.causal ? min_of(a.keys, first + count) : a.keys;
    multiply(a.query + first * a.query_pitch, count, a.query_pitch, a.width, panels, seen, scores,
             sizes.pitch, pointers);
    for (ptrdiff_t i = 0; i < count; ++i) {
      float* row = scores + i * sizes.pitch;
      for (ptrdiff_t j = seen; j < a.keys; ++j) row[j] = 0.0f;
      factors[i] = soften(a, first + i, row, sizes.pitch);
    }
    float* out = a.output + first * a.output_pitch;
    multiply(scores, count, sizes.pitch, a.keys, panels + sizes.keys, a.value_width, out, a.output_pitch,
             pointers);
    for (ptrdiff_t i = 0; i < count; ++i) scale_row(out + i * a.output_pitch, a.value_width, factors[i]);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
