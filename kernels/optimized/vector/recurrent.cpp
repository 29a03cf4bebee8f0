// Steps of LSTMs and GRUs: the state's part of the gates, and what the gates make of it.
//
// A tile is every gate of a vector of units, or of some, for as many rows as the registers
// hold; no sum leaves them before the gates are applied. Weights are laid out as tiles read
// them, or, where that is not worth it, read where they lie. Each sum runs over the state in
// one order whatever the tile, so that rows and units may be split between threads.
#include "dots.h"
#include "functions.h"
#include "routines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Sums that the registers hold beside weights and a state.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kSums = 24;
#elif defined(__AVX__)
constexpr int kSums = 12;
#else
constexpr int kSums = 8;
#endif
constexpr int kLatency = 8;  // sums that keep the adders busy

// What a step works on, of one row and vector of units.
struct Units {
  const float* given;   // of the first gate
  const float* before;  // the state
  float* cell;
  float* output;
  ptrdiff_t hidden;  // elements from gate to gate
  ptrdiff_t left;    // units
};

// Not inlined: one way to compute it, whatever tile the sums come from.
__attribute__((noinline)) void apply_lstm(const Units& u, const Floats* sums) {
  const auto gate = [&](int g) __attribute__((always_inline)) {
    return load_part(u.given + g * u.hidden, u.left) + sums[g];
  };
  const Floats input = sigmoid_of(gate(0)), forget = sigmoid_of(gate(1)), candidate = tanh_of(gate(2));
  const Floats cell = forget * load_part(u.cell, u.left) + input * candidate;
  store_part(u.cell, cell, u.left);
  store_part(u.output, sigmoid_of(gate(3)) * tanh_of(cell), u.left);
}

__attribute__((noinline)) void apply_gru(const Units& u, const Floats* sums) {
  const auto given = [&](int g)
                         __attribute__((always_inline)) { return load_part(u.given + g * u.hidden, u.left); };
  const Floats reset = sigmoid_of(given(0) + sums[0]), update = sigmoid_of(given(1) + sums[1]);
  const Floats candidate = tanh_of(given(2) + reset * sums[2]);
  store_part(u.output, candidate + update * (load_part(u.before, u.left) - candidate), u.left);
}

// One step of a call.
struct Step {
  const Recurrent& all;
  const float* given;
  const float* state;
  ptrdiff_t state_row;
  float* output;
};

template <int gates>
PENLIGHT_INLINE void apply(const Step& s, ptrdiff_t row, ptrdiff_t unit, const Floats* sums) {
  const Recurrent& r = s.all;
  const Units units = {s.given + row * r.given_row + unit,
                       s.state + row * s.state_row + unit,
                       gates == 4 ? r.cell + row * r.hidden + unit : nullptr,
                       s.output + row * r.output_row + unit,
                       r.hidden,
                       r.last_unit - unit};
  if constexpr (gates == 4) {
    apply_lstm(units, sums);
  } else {
    apply_gru(units, sums);
  }
}

// `blocks` vectors of units from `unit` on, for `rows` rows.
template <int gates, int rows, int blocks>
PENLIGHT_INLINE void compute_tile(const Step& s, ptrdiff_t row, ptrdiff_t unit) {
  constexpr int kStep = gates * kLanes;
  const ptrdiff_t hidden = s.all.hidden, block = (1 + hidden) * kStep;
  const float* weights = s.all.packed + unit / kLanes * block;
  const float* state[rows];
  Floats sums[blocks][rows][gates];
  repeat<rows>([&](auto i) __attribute__((always_inline)) { state[i] = s.state + (row + i) * s.state_row; });
  repeat<blocks>([&](auto b) __attribute__((always_inline)) {
    repeat<gates>([&](auto g) __attribute__((always_inline)) {
      const Floats bias = load(weights + b * block + g * kLanes);
      repeat<rows>([&](auto i) __attribute__((always_inline)) { sums[b][i][g] = bias; });
    });
  });
  // What the gates are applied to comes closer meanwhile.
  for (int i = 0; rows > 1 && i < rows; ++i) {
    const float* given = s.given + (row + i) * s.all.given_row + unit;
    for (int g = 0; g < gates; ++g) __builtin_prefetch(given + g * hidden);
  }
  for (ptrdiff_t k = 0; k < hidden; ++k) {
    weights += kStep;
    // The fewer of both stay in registers for the step, one of the others at a time.
    if constexpr (rows <= gates) {
      Floats values[rows];
      repeat<rows>([&](auto i) __attribute__((always_inline)) { values[i] = splat(state[i][k]); });
      repeat<blocks * gates>([&](auto j) __attribute__((always_inline)) {
        const Floats weight = load(weights + j / gates * block + j % gates * kLanes);
        repeat<rows>([&](auto i) __attribute__((always_inline)) {
          sums[j / gates][i][j % gates] += values[i] * weight;
        });
      });
    } else {
      Floats own[gates];
      repeat<gates>([&](auto g) __attribute__((always_inline)) { own[g] = load(weights + g * kLanes); });
      repeat<rows>([&](auto i) __attribute__((always_inline)) {
        const Floats value = splat(state[i][k]);
        repeat<gates>([&](auto g) __attribute__((always_inline)) { sums[0][i][g] += value * own[g]; });
      });
    }
  }
  // Not the sums themselves: an address of theirs would keep them in memory always.
  Floats values[blocks * rows * gates];
  repeat<blocks>([&](auto b) __attribute__((always_inline)) {
    repeat<rows>([&](auto i) __attribute__((always_inline)) {
      repeat<gates>(
          [&](auto g) __attribute__((always_inline)) { values[(b * rows + i) * gates + g] = sums[b][i][g]; });
    });
  });
  for (int i = 0; i < blocks * rows; ++i) {
    apply<gates>(s, row + i % rows, unit + i / rows * kLanes, values + i * gates);
  }
}

// The last rows, by the tile that has just these.
template <int gates, int rows>
void compute_rest(const Step& s, ptrdiff_t row, ptrdiff_t unit) {
  if constexpr (rows > 0) {
    if (s.all.rows - row < rows) return compute_rest<gates, rows - 1>(s, row, unit);
    compute_tile<gates, rows, 1>(s, row, unit);
  }
}

// Backwards every second time: what was read last is still near.
template <int gates>
void step_packed(const Step& s, bool backwards) {
  const Recurrent& r = s.all;
  constexpr int kRows = kSums / gates, kBlocks = (kLatency + gates - 1) / gates;
  const ptrdiff_t width = r.rows == 1 ? kBlocks * kLanes : kLanes;
  const ptrdiff_t tiles = (r.last_unit - r.first_unit + width - 1) / width;
  for (ptrdiff_t i = 0; i < tiles; ++i) {
    const ptrdiff_t unit = r.first_unit + (backwards ? tiles - 1 - i : i) * width;
    if (r.rows > 1) {
      ptrdiff_t row = 0;
      for (; row + kRows <= r.rows; row += kRows) compute_tile<gates, kRows, 1>(s, row, unit);
      if (row < r.rows) compute_rest<gates, kRows - 1>(s, row, unit);
    } else if (unit + width - kLanes < r.last_unit) {
      compute_tile<gates, 1, kBlocks>(s, 0, unit);
    } else {
      for (ptrdiff_t u = unit; u < r.last_unit; u += kLanes) compute_tile<gates, 1, 1>(s, 0, u);
    }
  }
}

template <int gates>
void step_where_they_lie(const Step& s) {
  const Recurrent& r = s.all;
  for (ptrdiff_t unit = r.first_unit; unit < r.last_unit; unit += kLanes) {
    const ptrdiff_t left = r.last_unit - unit;
    for (ptrdiff_t row = 0; row < r.rows; ++row) {
      Floats sums[gates];
      for (int g = 0; g < gates; ++g) {
        const ptrdiff_t at = g * r.hidden + unit;
        sums[g] = dots(s.state + row * s.state_row, r.weights + at * r.hidden, r.hidden, left, r.hidden);
        if (r.bias) sums[g] += load_part(r.bias + at, left);
      }
      apply<gates>(s, row, unit, sums);
    }
  }
}

template <int gates>
void run(const Recurrent& r) {
  Step step{r, r.given, r.state, r.state_row, r.output};
  for (ptrdiff_t t = 0; t < r.steps; ++t) {
    if (r.packed) {
      step_packed<gates>(step, t % 2 != 0);
    } else {
      step_where_they_lie<gates>(step);
    }
    step.state = step.output;
    step.state_row = r.output_row;
    step.given += r.given_step;
    step.output += r.output_step;
  }
}

}  // namespace

void pack_recurrent(const PackRecurrent& p) {
  const ptrdiff_t step = p.gates * kLanes;
  float* block = p.output + p.first_unit / kLanes * (1 + p.hidden) * step;
  for (ptrdiff_t unit = p.first_unit; unit < p.last_unit; unit += kLanes, block += (1 + p.hidden) * step) {
    const ptrdiff_t left = p.last_unit - unit;
    for (ptrdiff_t g = 0; g < p.gates; ++g) {
      const ptrdiff_t at = g * p.hidden + unit;
      float* to = block + g * kLanes;
      store(to, p.bias ? load_part(p.bias + at, left) : Floats{});
      lay_out(p.weights + at * p.hidden, p.hidden, left, p.hidden, to + step, step);
    }
  }
}

void recurrent(const Recurrent& r) {
  if (r.cell) {
    run<4>(r);
  } else {
    run<3>(r);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
