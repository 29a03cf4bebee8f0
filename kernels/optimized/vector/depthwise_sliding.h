// Depthwise windows that slide along a few rows of the result.
//
// A pixel is loaded once for all windows of these rows that it lies in, and multiplied by all of their
// weights, which stay in registers, as do the sums of the windows that it is part of. Columns beside the
// image are left out; lines above and below it are zeros.
//
// Processors with wide vectors do whatever else there is on the ports of products. So most rounds, of as many
// columns as it takes until all is as before, ask next to nothing and move each pointer once.
#pragma once

#include "depthwise.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// How many windows a pixel of a line lies in, how many columns make a round, and how many lines some rows
// read.
template <int taps, int stride>
constexpr int kOverlap = (taps + stride - 1) / stride;
template <int taps, int stride>
constexpr int kRound = kOverlap<taps, stride> * stride;
template <int taps, int stride, int rows>
constexpr int kLinesUnder = (rows - 1) * stride + taps;

// A vector of channels of some rows.
template <int lines>
struct Slide {
  const float* line[lines];     // of the input, where the first window begins, perhaps beside the image
  ptrdiff_t step[lines];        // elements to the next round: 0 in a line of zeros
  ptrdiff_t pixel;              // elements from column to column
  ptrdiff_t width, pad;         // columns of the image, and those before it
  ptrdiff_t out_width, rounds;  // rounds after the first that need no questions
  const float* weights;         // the bias, then taps, each `tap` elements after the one before
  ptrdiff_t tap;
  float* output;
  const float* residual;         // or null
  ptrdiff_t out_pixel, out_row;  // elements from column to column, and from row to row
  Activation activation;         // None, Clamp or HardSwish
  float low, high;
  // Of the input, to be fetched bit by bit, and of the output, beside it; each may be null.
  const float *ahead, *out_ahead;
};

// Rounds after the first that lie in the image and end no window but those that exist, nor the last.
template <int taps, int stride>
PENLIGHT_INLINE ptrdiff_t plain_rounds(const Geometry& g) {
  constexpr int round = kRound<taps, stride>, overlap = kOverlap<taps, stride>;
  if (g.pad_w > round) return 0;
  return max_of(min_of((g.width + g.pad_w) / round - 1, (g.out_width - 2) / overlap), 0);
}

// Of the activations those that Slide names.
template <int count>
PENLIGHT_INLINE void activate(Activation activation, const Bounds& bounds, Floats (&sums)[count]) {
  const auto all = [&](auto which) __attribute__((always_inline)) {
    constexpr Activation chosen = static_cast<Activation>(static_cast<int>(decltype(which)()));
    repeat<count>([&](auto i)
                      __attribute__((always_inline)) { sums[i] = activated<chosen>(sums[i], bounds); });
  };
  if (activation == Activation::Clamp) {
    all(Index<static_cast<int>(Activation::Clamp)>());
  } else if (activation == Activation::HardSwish) {
    all(Index<static_cast<int>(Activation::HardSwish)>());
  }
}

// `left` channels, or where `whole` as many as a vector has.
template <int taps, int stride, int rows, bool whole>
__attribute__((noinline)) void slide(const Slide<kLinesUnder<taps, stride, rows>>& s, ptrdiff_t left) {
  constexpr int lines = kLinesUnder<taps, stride, rows>;
  constexpr int overlap = kOverlap<taps, stride>, round = kRound<taps, stride>;
  const auto load_vector = [&](const float* from) __attribute__((always_inline)) {
    return whole ? load(from) : load_part(from, left);
  };
  const float* line[lines];
  Floats weights[taps * taps], sums[rows][overlap];
  const Floats bias = load(s.weights);
  repeat<lines>([&](auto i) __attribute__((always_inline)) { line[i] = s.line[i]; });
  repeat<taps * taps>([&](auto i)
                          __attribute__((always_inline)) { weights[i] = load(s.weights + (1 + i) * s.tap); });
  repeat<rows * overlap>([&](auto i)
                             __attribute__((always_inline)) { sums[i / overlap][i % overlap] = bias; });
  const ptrdiff_t pixel = s.pixel, out_pixel = s.out_pixel, out_row = s.out_row;
  const float* residual = s.residual;
  float* output = s.output;
  const Activation activation = s.activation;
  const bool is_plain = !residual && activation == Activation::None;
  const Bounds bounds = {splat(s.low), splat(s.high)};
  // Adds the products of a column of a round.
  const auto add = [&](auto at) __attribute__((always_inline)) {
    constexpr int column = decltype(at)();
    repeat<lines>([&](auto i) __attribute__((always_inline)) {
      Floats x = load_vector(line[i] + column * pixel);
      keep_in_register(x);
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        constexpr int th = decltype(i)() - decltype(r)() * stride;
        if constexpr (th >= 0 && th < taps) {
          repeat<overlap>([&](auto window) __attribute__((always_inline)) {
            constexpr int tw = (column - decltype(window)() * stride + round) % round;
            if constexpr (tw < taps) sums[r][window] += x * weights[th * taps + tw];
          });
        }
      });
    });
  };
  // Ends the window whose last column it was, if there is one, and stores it if it `exists()`.
  const auto end = [&](auto at, auto&& exists) __attribute__((always_inline)) {
    constexpr int first = (decltype(at)() - (taps - 1) + round) % round;
    if constexpr (first % stride == 0) {
      constexpr int window = first / stride;
      Floats ended[rows];
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        ended[r] = sums[r][window];
        sums[r][window] = bias;
      });
      if (!exists()) return;
      if (!is_plain) {
        if (residual) {
          repeat<rows>([&](auto r) __attribute__((always_inline)) {
            ended[r] += load_vector(residual + r * out_row);
          });
          residual += out_pixel;
        }
        activate<rows>(activation, bounds, ended);
      }
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        float* const to = output + r * out_row;
        whole ? store(to, ended[r]) : store_part(to, ended[r], left);
      });
      output += out_pixel;
    }
  };
  const auto next_round = [&]() __attribute__((always_inline)) {
    repeat<lines>([&](auto i) __attribute__((always_inline)) { line[i] += s.step[i]; });
  };
  const float *ahead = s.ahead, *out_ahead = s.out_ahead;
  const auto fetch = [&]() __attribute__((always_inline)) {
    constexpr int count = rows * kLanes * round * stride, out_count = rows * kLanes * overlap;
    repeat<(count + kPanel - 1) / kPanel>(
        [&](auto i) __attribute__((always_inline)) { __builtin_prefetch(ahead + i * kPanel, 0, 2); });
    ahead += count;
    if (!out_ahead) return;
    repeat<(out_count + kPanel - 1) / kPanel>(
        [&](auto i) __attribute__((always_inline)) { __builtin_prefetch(out_ahead + i * kPanel, 1, 2); });
    out_ahead += out_count;
  };
  ptrdiff_t column = -s.pad, done = -((taps - 1) / stride), rounds = s.rounds;
  for (;;) {
    bool is_last = false;
    repeat<round>([&](auto at) __attribute__((always_inline)) {
      if (is_last) return;
      if (column >= 0 && column < s.width) add(at);
      ++column;
      end(at, [&]() __attribute__((always_inline)) {
        const bool exists = done >= 0;
        is_last = ++done == s.out_width;
        return exists;
      });
    });
    if (is_last) return;
    next_round();
    column += rounds * round;
    done += rounds * overlap;
    for (; rounds > 0; --rounds) {
      if (ahead) fetch();
      repeat<round>([&](auto at) __attribute__((always_inline)) {
        add(at);
        end(at, []() __attribute__((always_inline)) { return true; });
      });
      next_round();
    }
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
