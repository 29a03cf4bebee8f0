// LSTMs and GRUs: layers, directions, and steps whose weights are laid out or are not.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

constexpr dim_t kMostStates = 4096, kMostOutputs = 32768, kMostParams = 24;

struct Network {
  bool lstm, biases, both, batch_first;
  dim_t layers, steps, batch, inputs, hidden;

  dim_t directions() const { return both ? 2 : 1; }
  dim_t gates() const { return lstm ? 4 : 3; }
  // Of a sequence of rows of `width`, where this step and row begin.
  dim_t at(dim_t step, dim_t row, dim_t width) const {
    return (batch_first ? row * steps + step : step * batch + row) * width;
  }
};

Exact sigmoid(Exact x) { return {1 / (1 + exp(-x.value)), x.bound / 4 + 5e-7}; }
Exact tangent(Exact x) { return {tanh(x.value), x.bound + 5e-7}; }
Exact add(Exact a, Exact b) {
  const double sum = a.value + b.value;
  return {sum, a.bound + b.bound + 6e-8 * fabs(sum)};
}
Exact multiply(Exact a, Exact b) {
  const double product = a.value * b.value;
  const double bound = a.bound * fabs(b.value) + b.bound * fabs(a.value) + a.bound * b.bound;
  return {product, bound + 6e-8 * fabs(product) + 1e-37};
}

// A bias and a row of weights times numbers that may be off themselves.
template <class Number>
Exact weigh(const float* weights, const float* shift, dim_t count, Number number) {
  Sum sum;
  double error = 0;
  if (shift) sum.add(static_cast<double>(*shift));
  for (dim_t k = 0; k < count; ++k) {
    const Exact x = number(k);
    sum.add(static_cast<double>(weights[k]), x.value);
    error += fabs(static_cast<double>(weights[k])) * x.bound;
  }
  Exact result = sum.get();
  // An infinite sum is exact, and so is what a gate makes of it.
  result.bound = result.bound < HUGE_VAL ? result.bound + error : 0;
  return result;
}

Exact sequences[2][kMostOutputs], hidden_states[kMostStates], cells[kMostStates], next_states[kMostStates];
Array params[kMostParams], states[2], final_state;

Exact of(float value) { return {static_cast<double>(value), 0}; }

// One layer in one direction, from `from` to its columns of `to`.
void run_cell(const Network& n, dim_t index, const Exact* from, dim_t width, Exact* to) {
  const dim_t direction = index % n.directions(), hidden = n.hidden;
  Array* own = params + index * (n.biases ? 4 : 2);
  const dim_t first = index * n.batch * hidden;
  for (dim_t t = 0; t < n.steps; ++t) {
    const dim_t step = direction == 0 ? t : n.steps - 1 - t;
    for (dim_t row = 0; row < n.batch; ++row) {
      const Exact* x = from + n.at(step, row, width);
      Exact* state = hidden_states + first + row * hidden;
      for (dim_t u = 0; u < hidden; ++u) {
        Exact given[4], kept[4];
        for (dim_t g = 0; g < n.gates(); ++g) {
          const dim_t at = g * hidden + u;
          given[g] = weigh(own[0].data() + at * width, n.biases ? own[2].data() + at : nullptr, width,
                           [&](dim_t k) { return x[k]; });
          kept[g] = weigh(own[1].data() + at * hidden, n.biases ? own[3].data() + at : nullptr, hidden,
                          [&](dim_t k) { return state[k]; });
        }
        if (n.lstm) {
          Exact& cell = cells[first + row * hidden + u];
          const Exact input = sigmoid(add(given[0], kept[0])), forget = sigmoid(add(given[1], kept[1]));
          cell = add(multiply(forget, cell), multiply(input, tangent(add(given[2], kept[2]))));
          next_states[u] = multiply(sigmoid(add(given[3], kept[3])), tangent(cell));
        } else {
          const Exact reset = sigmoid(add(given[0], kept[0])), update = sigmoid(add(given[1], kept[1]));
          const Exact candidate = tangent(add(given[2], multiply(reset, kept[2])));
          const Exact minus = {-candidate.value, candidate.bound};
          next_states[u] = add(candidate, multiply(update, add(state[u], minus)));
        }
      }
      for (dim_t u = 0; u < hidden; ++u) {
        state[u] = next_states[u];
        to[n.at(step, row, n.directions() * hidden) + direction * hidden + u] = state[u];
      }
    }
  }
}

Network any_network(Random& r) {
  Network n;
  n.lstm = r.one_in(2);
  n.biases = !r.one_in(3);
  n.both = r.one_in(2);
  n.batch_first = r.one_in(2);
  n.layers = r.in(1, 3);
  n.batch = r.one_in(3) ? 1 : r.in(1, 9);
  n.steps = r.one_in(3) ? r.in(0, 3) : r.in(4, 24);
  n.inputs = r.in(1, 40);
  n.hidden = r.in(1, 40);
  if (r.one_in(6)) {  // more rows than one product of inputs has
    n.steps = r.in(130, 150);
    n.hidden = r.in(1, 9);
    n.inputs = r.in(1, 9);
  } else if (r.one_in(6)) {  // units that threads share
    n.hidden = r.in(210, 230);
    n.steps = r.in(1, 9);
    n.layers = n.batch = 1;
  }
  return n;
}

void network(Random r, long round) {
  const Network n = any_network(r);
  const dim_t directions = n.directions(), hidden = n.hidden, width = directions * hidden;
  const bool front = r.one_in(2), wild = r.one_in(4);
  dim_t count = 0;
  Tensor tensors[kMostParams], given[2];
  for (dim_t cell = 0; cell < n.layers * directions; ++cell) {
    const dim_t inputs = cell < directions ? n.inputs : width, gates = n.gates() * hidden;
    for (int i = 0; i < (n.biases ? 4 : 2); ++i, ++count) {
      const dim_t sizes[] = {gates, i == 0 ? inputs : hidden};
      params[count].shape(sizes, i < 2 ? 2 : 1, nullptr, ScalarType::Float, r.one_in(2));
      fill(params[count], r, wild && r.one_in(8));
      // Rows of weights add up to little, so that errors do not grow from step to step.
      for (dim_t k = 0; i < 2 && k < params[count].numel(); ++k) {
        params[count].data()[k] /= static_cast<float>(sizes[1]);
      }
      tensors[count] = params[count].tensor();
    }
  }
  const dim_t in[] = {n.batch_first ? n.batch : n.steps, n.batch_first ? n.steps : n.batch, n.inputs};
  const dim_t to[] = {in[0], in[1], width}, state[] = {n.layers * directions, n.batch, hidden};
  x.shape(in, 3, nullptr, ScalarType::Float, r.one_in(2));
  fill(x, r, wild);
  for (int i = 0; i < 2; ++i) {
    states[i].shape(state, 3, nullptr, ScalarType::Float, r.one_in(2));
    fill(states[i], r, wild && r.one_in(4));
    given[i] = states[i].tensor();
  }
  Array &sequence = y, &copy = plain;
  sequence.shape(to, 3, nullptr, ScalarType::Float, front);
  copy.shape(to, 3, nullptr, ScalarType::Float, front);
  final_state.shape(state, 3, nullptr, ScalarType::Float, front);
  out.shape(state, 3, nullptr, ScalarType::Float, front);
  again.shape(state, 3, nullptr, ScalarType::Float, !front);
  Call call(optimized_library, n.lstm ? "penlight::lstm.out" : "penlight::gru.out");
  call.tensor(x);
  if (n.lstm) {
    call.list(given, 2);
  } else {
    call.tensor(states[0]);
  }
  call.list(tensors, static_cast<int>(count)).flag(n.biases).integer(n.layers).number(0).flag(false);
  call.flag(n.both).flag(n.batch_first).tensor(sequence);
  if (n.lstm) call.tensor(final_state);
  Judge judge{n.lstm ? "lstm" : "gru", round};
  judge.ran(call.run(out), call, out);
  CHECK(sequence.intact() && final_state.intact());
  const dim_t kept = states[0].numel();
  if (kept > kMostStates || n.steps * n.batch * (width > n.inputs ? width : n.inputs) > kMostOutputs) {
    CHECK(false);
    return;
  }
  for (dim_t i = 0; i < kept; ++i) {
    hidden_states[i] = of(states[0].data()[i]);
    cells[i] = of(states[1].data()[i]);
  }
  Exact *from = sequences[0], *next = sequences[1];
  for (dim_t i = 0; i < x.numel(); ++i) from[i] = of(x.data()[i]);
  for (dim_t layer = 0; layer < n.layers; ++layer) {
    for (dim_t d = 0; d < directions; ++d) {
      run_cell(n, layer * directions + d, from, layer ? width : n.inputs, next);
    }
    Exact* before = from;
    from = next;
    next = before;
  }
  for (dim_t i = 0; i < sequence.numel(); ++i) judge.see(sequence.data()[i], from[i], i);
  for (dim_t i = 0; i < kept; ++i) {
    judge.see((n.lstm ? final_state : out).data()[i], hidden_states[i], i);
    if (n.lstm) judge.see(out.data()[i], cells[i], i);
  }
  const size_t bytes = static_cast<size_t>(sequence.numel()) * sizeof(float);
  if (bytes == 0) return;
  memcpy(copy.data(), sequence.data(), bytes);
  check_threads(call, out, again);
  CHECK(memcmp(copy.data(), sequence.data(), bytes) == 0);
}

}  // namespace

TEST(recurrent_layers) { repeat_everywhere(9, network, 3); }
