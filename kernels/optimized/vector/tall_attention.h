// Attention by tall tiles: of as many queries as a vector has lanes, one for each.
//
// Scores are made key by key, as rows of a product whose columns are the queries. A softmax goes down a lane
// then, and what it leaves lies in the order in which the next product, with the values, reads it.
#pragma once

#include "functions.h"
#include "tall_tiles.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Keys that the first `queries` see.
inline ptrdiff_t seen_by(const Attention& a, ptrdiff_t queries) {
  return a.causal ? min_of(a.keys, queries) : a.keys;
}

// What scratch holds beside keys and values: queries as a panel, then their scores, a vector for each key.
inline ptrdiff_t tall_attention_size(const Attention& a) {
  return (a.width + round_up(a.keys, kPanel)) * kLanes;
}

// Calls body(Index<n>()) with a height of tiles that has so many of kLanes rows.
template <class Body>
PENLIGHT_INLINE void with_rows(ptrdiff_t count, Body&& body) {
  if (count > kLanes / 2) return body(Index<kLanes>());
  body(Index<kLanes / 2>());
}

// Scores of `rows` keys of a panel.
template <int rows>
void make_scores(ptrdiff_t width, const float* keys, const float* queries, float* scores) {
  Floats sums[rows][1];
  repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][0] = Floats{}; });
  add_tall<rows, 0, kPanel>(keys + kPanel, nullptr, queries, width, sums);
  repeat<rows>([&](auto i) __attribute__((always_inline)) { store(scores + i * kLanes, sums[i][0]); });
}

// What a mask has for a key: a number to be added, or a truth.
PENLIGHT_INLINE Floats spread_mask(const Attention& a, ptrdiff_t at) {
  return a.float_mask ? splat(a.float_mask[at]) : (Floats)splat_int(a.bool_mask[at] ? -1 : 0);
}

// And for `keys` keys, at most kLanes of them.
PENLIGHT_INLINE Floats load_mask(const Attention& a, ptrdiff_t at, ptrdiff_t keys) {
  if (a.float_mask && a.mask_column == 1) return load_part(a.float_mask + at, keys);
  if (a.mask_column == 1 && keys == kLanes) return (Floats)(load_bytes(a.bool_mask + at) != Ints{});
  float numbers[kLanes] = {};
  uint8_t truths[kLanes] = {};
  for (ptrdiff_t j = 0; j < keys; ++j, at += a.mask_column) {
    if (a.float_mask) {
      numbers[j] = a.float_mask[at];
    } else {
      truths[j] = a.bool_mask[at];
    }
  }
  return a.float_mask ? load(numbers) : (Floats)(load_bytes(truths) != Ints{});
}

// Scores of keys [0, last) with the mask, which is as for the last of `count` queries for lanes after it.
inline void add_mask(const Attention& a, ptrdiff_t query, ptrdiff_t count, ptrdiff_t last, float* scores) {
  const auto masked = [&](Floats score, Floats mask) __attribute__((always_inline)) {
    if (a.float_mask) return score + mask;
    return select((Ints)mask, score, a.fills ? splat(a.hidden_score) : score - splat(__builtin_inff()));
  };
  const ptrdiff_t row = query * a.mask_row;
  if (a.mask_row == 0) {  // one for all queries
    for (ptrdiff_t j = 0; j < last; ++j, scores += kLanes) {
      store(scores, masked(load(scores), spread_mask(a, j * a.mask_column)));
    }
    return;
  }
  for (ptrdiff_t first = 0; first < last; first += kLanes, scores += kLanes * kLanes) {
    const ptrdiff_t keys = min_of(kLanes, last - first);
    Floats mask[kLanes];
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
      const ptrdiff_t at = row + min_of(i, count - 1) * a.mask_row;
      mask[i] = load_mask(a, at + first * a.mask_column, keys);
    });
    transpose(mask);
    repeat<kLanes>([&](auto j) __attribute__((always_inline)) {  // scratch has room for all
      store(scores + j * kLanes, masked(load(scores + j * kLanes), mask[j]));
    });
  }
}

// Scores of keys [0, last) to exponentials, by four keys at once, as the steps of one wait for each other;
// the factors that make those of each query sum to one, or `hidden`.
inline Floats soften(const Attention& a, ptrdiff_t query, ptrdiff_t last, float* scores) {
  constexpr ptrdiff_t kTogether = 4;
  const Floats low = splat(-__builtin_inff());
  for (ptrdiff_t j = query + 1; a.causal && j < last; ++j) {  // query i sees keys 0 to i
    const Ints hidden = (Ints)first_lanes((Floats)splat_int(-1), j - query);
    store(scores + j * kLanes, select(hidden, low, load(scores + j * kLanes)));
  }
  Floats most[kTogether], sums[kTogether] = {};
  repeat<kTogether>([&](auto k) __attribute__((always_inline)) { most[k] = load(scores); });
  const auto by_four = [&](auto&& take) __attribute__((always_inline)) {
    ptrdiff_t j = 0;
    for (; j + kTogether <= last; j += kTogether) {
      repeat<kTogether>([&](auto k) __attribute__((always_inline)) { take(k, scores + (j + k) * kLanes); });
    }
    for (; j < last; ++j) take(Index<0>(), scores + j * kLanes);
  };
  by_four([&](auto k, const float* score)
              __attribute__((always_inline)) { most[k] = at_least(load(score), most[k]); });
  Floats shift = at_least(at_least(most[0], most[1]), at_least(most[2], most[3]));
  shift = select(shift == low, Floats{}, shift);
  by_four([&](auto k, float* score) __attribute__((always_inline)) {
    const Floats value = exp_of_score(load(score) - shift);
    sums[k] += value;
    store(score, value);
  });
  const Floats sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  return select(sum == Floats{}, splat(a.hidden), splat(1.0f) / sum);
}

// `count` rows of outputs, of `rows` that are computed, from the weights of keys [0, last).
template <int rows>
void weigh_values(const Attention& a, const float* weights, const float* values, ptrdiff_t count,
                  ptrdiff_t last, const float* factors, float* output) {
  for (ptrdiff_t column = 0; column < a.value_width; column += kPanel) {
    Floats sums[rows][1];
    repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][0] = Floats{}; });
    add_tall<rows, 0, kLanes>(weights, nullptr, values + column * (1 + a.keys) + kPanel, last, sums);
    repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[i][0] *= splat(factors[i]); });
    store_tile(Finish{output + column, a.output_pitch, a.value_width - column, {}}, 0, count, sums);
  }
}

// Queries [first_query, last_query), of keys and values that are laid out as panels.
inline void attend_tall(const Attention& a, const float* keys, const float* values, float* queries) {
  float* const scores = queries + a.width * kLanes;
  for (ptrdiff_t first = a.first_query; first < a.last_query; first += kLanes) {
    const ptrdiff_t count = min_of(kLanes, a.last_query - first);
    // Later keys are hidden from all of these queries.
    const ptrdiff_t last = seen_by(a, first + count);
    lay_out(a.query + first * a.query_pitch, a.query_pitch, count, a.width, queries, kLanes);
    for (ptrdiff_t key = 0; key < last; key += kPanel) {
      with_rows(last - key, [&](auto rows) {
        make_scores<rows>(a.width, keys + key * (1 + a.width), queries, scores + key * kLanes);
      });
    }
    if (a.float_mask || a.bool_mask) add_mask(a, first, count, last, scores);
    float factors[kLanes];
    store(factors, soften(a, first, last, scores));
    with_rows(count, [&](auto rows) {
      weigh_values<rows>(a, scores, values, count, last, factors, a.output + first * a.output_pitch);
    });
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
