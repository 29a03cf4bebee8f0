// LSTM and GRU over whole sequences: layers, directions, projections.
//
// The part of the gates that comes from the input is one matrix product for many
// steps; the part that comes from the state is one product a step. Everything
// between the tensors is in the compute type; weights of that type are read where
// they are, 16-bit ones are converted once a layer.
#include <math.h>

#include "kernels/common/checks.h"
#include "kernels/common/span.h"
#include "product.h"

namespace penlight::portable {

namespace {

constexpr dim_t kInputRows = 64;  // rows of input gates computed together

struct RecurrentShape {
  dim_t steps, batch, input, hidden, output;  // output: hidden, or what it is projected to
  dim_t layers, directions, gates;
  bool biases, projected, batch_first;

  dim_t params_per_cell() const { return 2 + (biases ? 2 : 0) + (projected ? 1 : 0); }
};

// What a cell does with the gates; `x` and `h` are the input's and the state's part.
template <class T>
T sigmoid(T x) {
  return T(1) / (T(1) + static_cast<T>(exp(-x)));
}

template <class T>
void lstm_cell(dim_t hidden, const T* gates, T* cell, T* out) {
  for (dim_t i = 0; i < hidden; ++i) {
    const T input = sigmoid(gates[i]), forget = sigmoid(gates[hidden + i]);
    const T candidate = static_cast<T>(tanh(gates[2 * hidden + i])), output = sigmoid(gates[3 * hidden + i]);
    cell[i] = forget * cell[i] + input * candidate;
    out[i] = output * static_cast<T>(tanh(cell[i]));
  }
}

template <class T>
void gru_cell(dim_t hidden, const T* x, const T* h, T* state) {
  for (dim_t i = 0; i < hidden; ++i) {
    const T reset = sigmoid(x[i] + h[i]), update = sigmoid(x[hidden + i] + h[hidden + i]);
    const T candidate = static_cast<T>(tanh(x[2 * hidden + i] + reset * h[2 * hidden + i]));
    state[i] = candidate + update * (state[i] - candidate);
  }
}

// Products with the rows of a parameter.
template <class T>
class Linear {
 public:
  // Of so many inputs at once.
  void prepare(KernelContext& ctx, dim_t rows, const Tensor& weights) {
    outputs_ = weights.size(0);
    inputs_ = weights.size(1);
    weights_ = {weights.const_data_ptr(), weights.stride(1), weights.stride(0)};
    if (weights.dtype() != ScalarTypeOf<T>::value) weights_ = {dense_copy<T>(ctx, weights), 1, inputs_};
    product_.prepare(ctx, rows, outputs_, inputs_, {nullptr, inputs_, 1}, weights_);
  }
  void run(const T* from, dim_t rows, const T* bias, T* to) {
    Epilogue epilogue;
    epilogue.addend = {bias, 0, 1};
    product_.shrink(rows, outputs_, inputs_);
    product_.run({from, inputs_, 1}, weights_, epilogue, to, outputs_, 1);
  }

 private:
  dim_t outputs_, inputs_;
  MatrixView weights_;
  Product<T> product_;
};

// A sequence [steps, batch, width], of a tensor or in scratch.
struct Sequence {
  char* data;
  ScalarType dtype;
  dim_t width, step, row, column;  // strides in elements

  template <class T>
  void load(T* to, dim_t step_index, dim_t batch_index) const {
    load_block(to, dtype, at(step_index, batch_index, 0), column, width);
  }
  // Columns [first, first + count).
  template <class T>
  void store(const T* from, dim_t step_index, dim_t batch_index, dim_t first, dim_t count) const {
    store_block(dtype, at(step_index, batch_index, first), column, from, count);
  }
  char* at(dim_t step_index, dim_t batch_index, dim_t first) const {
    return data +
           (step_index * step + batch_index * row + first * column) * static_cast<dim_t>(element_size(dtype));
  }
};

Sequence sequence_of(const Tensor& tensor, bool batch_first) {
  return {
      tensor.mutable_data_ptr<char>(),    tensor.dtype(),  tensor.size(2), tensor.stride(batch_first ? 1 : 0),
      tensor.stride(batch_first ? 0 : 1), tensor.stride(2)};
}

// One layer in one direction.
template <class T, bool lstm>
class Cell {
 public:
  Cell(KernelContext& ctx, const RecurrentShape& shape, const Tensor* params, dim_t width)
      : shape_(shape), width_(width) {
    const dim_t gates = shape.gates * shape.hidden;
    chunk_ = kInputRows / (shape.batch > 0 ? shape.batch : 1);
    if (chunk_ < 1) chunk_ = 1;
    if (chunk_ > shape.steps) chunk_ = shape.steps;
    const dim_t rows = chunk_ * shape.batch;
    x_ = scratch<T>(ctx, rows * width);
    input_gates_ = scratch<T>(ctx, rows * gates);
    state_gates_ = scratch<T>(ctx, shape.batch * gates);
    hidden_ = scratch<T>(ctx, shape.batch * shape.hidden);
    biases_ = scratch<T>(ctx, 2 * gates);
    if (!ctx.ok()) return;
    for (dim_t i = 0; i < 2 * gates; ++i) biases_[i] = 0;
    if (shape.biases) {
      Span(params[2], 0, 1).load(biases_, params[2].const_data_ptr(), 0);
      Span(params[3], 0, 1).load(biases_ + gates, params[3].const_data_ptr(), 0);
    }
    from_input_.prepare(ctx, rows, params[0]);
    from_state_.prepare(ctx, shape.batch, params[1]);
    if (shape.projected) project_.prepare(ctx, shape.batch, params[shape.biases ? 4 : 2]);
  }

  // `state` [batch, output] and `cell` [batch, hidden] are updated in place.
  void run(const Sequence& from, const Sequence& to, bool backward, dim_t first_column, T* state, T* cell) {
    const dim_t gates = shape_.gates * shape_.hidden;
    for (dim_t done = 0; done < shape_.steps; done += chunk_) {
      const dim_t count = shape_.steps - done < chunk_ ? shape_.steps - done : chunk_;
      for (dim_t s = 0; s < count; ++s) {
        for (dim_t n = 0; n < shape_.batch; ++n)
          from.load(x_ + (s * shape_.batch + n) * width_, at_step(done + s, backward), n);
      }
      from_input_.run(x_, count * shape_.batch, biases_, input_gates_);
      for (dim_t s = 0; s < count; ++s) {
        step(input_gates_ + s * shape_.batch * gates, state, cell);
        for (dim_t n = 0; n < shape_.batch; ++n)
          to.store(state + n * shape_.output, at_step(done + s, backward), n, first_column, shape_.output);
      }
    }
  }

 private:
  dim_t at_step(dim_t s, bool backward) const { return backward ? shape_.steps - 1 - s : s; }

  void step(const T* input_gates, T* state, T* cell) {
    const dim_t gates = shape_.gates * shape_.hidden, hidden = shape_.hidden;
    from_state_.run(state, shape_.batch, biases_ + gates, state_gates_);
    for (dim_t n = 0; n < shape_.batch; ++n) {
      T* mine = state_gates_ + n * gates;
      const T* given = input_gates + n * gates;
      if constexpr (lstm) {
        for (dim_t i = 0; i < gates; ++i) mine[i] += given[i];
        lstm_cell(hidden, mine, cell + n * hidden, (shape_.projected ? hidden_ : state) + n * hidden);
      } else {
        gru_cell(hidden, given, mine, state + n * hidden);
      }
    }
    if (shape_.projected) project_.run(hidden_, shape_.batch, nullptr, state);
  }

  RecurrentShape shape_;
  dim_t width_, chunk_;
  T *x_, *input_gates_, *state_gates_, *hidden_, *biases_;
  Linear<T> from_input_, from_state_, project_;
};

template <class T, bool lstm>
void run_layers(KernelContext& ctx, const RecurrentShape& shape, const Tensor& input, const Tensor& h0,
                const Tensor* c0, TensorList params, Tensor& out, Tensor& h_n, Tensor* c_n) {
  const dim_t width = shape.directions * shape.output;
  const dim_t rows = shape.steps * shape.batch;
  // Between layers: written by one, read by the next, so two of them.
  Sequence between[2];
  for (int i = 0; i < 2; ++i) {
    T* data = shape.layers > i + 1 ? scratch<T>(ctx, rows, width) : nullptr;
    between[i] = {
        reinterpret_cast<char*>(data), ScalarTypeOf<T>::value, width, shape.batch * width, width, 1};
  }
  T* state = scratch<T>(ctx, shape.batch, shape.output + shape.hidden);
  if (!ctx.ok()) return;
  T* cell = state + shape.batch * shape.output;
  for (dim_t layer = 0; layer < shape.layers; ++layer) {
    const Sequence from = layer == 0 ? sequence_of(input, shape.batch_first) : between[(layer - 1) % 2];
    const Sequence to = layer == shape.layers - 1 ? sequence_of(out, shape.batch_first) : between[layer % 2];
    for (dim_t direction = 0; direction < shape.directions; ++direction) {
      const dim_t index = layer * shape.directions + direction;
      Cell<T, lstm> runner(ctx, shape, params.data() + index * shape.params_per_cell(), from.width);
      if (!ctx.ok()) return;
      // States are [layers * directions, batch, width].
      Span(h0, 1, 3).load(state, h0.const_data_ptr(), index * h0.stride(0));
      if (lstm) Span(*c0, 1, 3).load(cell, c0->const_data_ptr(), index * c0->stride(0));
      runner.run(from, to, direction == 1, direction * shape.output, state, cell);
      Span(h_n, 1, 3).store(state, h_n.mutable_data_ptr(), index * h_n.stride(0));
      if (lstm) Span(*c_n, 1, 3).store(cell, c_n->mutable_data_ptr(), index * c_n->stride(0));
    }
  }
}

// A bias has one column, and no second dimension.
bool check_parameter(KernelContext& ctx, const Tensor& input, TensorList params, size_t number, dim_t rows,
                     dim_t columns, bool bias = false) {
  const Tensor& tensor = params[number];
  if (tensor.dim() == (bias ? 1 : 2) && tensor.size(0) == rows && (bias || tensor.size(1) == columns))
    return check_same_dtype(ctx, input, tensor);
  return ctx.refuse("parameter {} has {} elements, [{}, {}] is wanted", number, tensor.numel(), rows,
                    columns);
}

bool check_params(KernelContext& ctx, const RecurrentShape& shape, const Tensor& input, TensorList params) {
  const dim_t cells = shape.layers * shape.directions;
  if (params.size() != static_cast<size_t>(cells * shape.params_per_cell()))
    return ctx.refuse("{} parameters were given for {} layers in {} directions, {} are wanted", params.size(),
                      shape.layers, shape.directions, cells * shape.params_per_cell());
  const dim_t gates = shape.gates * shape.hidden;
  size_t at = 0;
  for (dim_t cell = 0; cell < cells; ++cell) {
    const dim_t width = cell < shape.directions ? shape.input : shape.directions * shape.output;
    bool fits = check_parameter(ctx, input, params, at++, gates, width) &&
                check_parameter(ctx, input, params, at++, gates, shape.output);
    for (int bias = 0; fits && shape.biases && bias < 2; ++bias)
      fits = check_parameter(ctx, input, params, at++, gates, 1, true);
    if (fits && shape.projected) fits = check_parameter(ctx, input, params, at++, shape.output, shape.hidden);
    if (!fits) return false;
  }
  return true;
}

bool check_state(KernelContext& ctx, const char* name, const RecurrentShape& shape, const Tensor& input,
                 const Tensor& state, dim_t width) {
  if (state.dim() == 3 && state.size(0) == shape.layers * shape.directions && state.size(1) == shape.batch &&
      state.size(2) == width) {
    return check_same_dtype(ctx, input, state);
  }
  return ctx.refuse("{} is not [{}, {}, {}]", name, shape.layers * shape.directions, shape.batch, width);
}

template <bool lstm>
void recurrent(KernelContext& ctx, const Tensor& input, const Tensor& h0, const Tensor* c0, TensorList params,
               bool has_biases, int64_t num_layers, double dropout, bool train, bool bidirectional,
               bool batch_first, Tensor& out, Tensor& h_n, Tensor* c_n) {
  if (train && dropout > 0 && num_layers > 1)
    return ctx.fail(Status::NotSupported, "recurrent layers drop nothing at run time: dropout has to be 0");
  if (input.dim() != 3 || h0.dim() != 3 || (lstm && c0->dim() != 3) || num_layers < 1 ||
      num_layers > static_cast<int64_t>(params.size()) || !is_floating(input.dtype()))
    return ctx.fail("a recurrent layer takes an input of 3 dimensions and float type, got {} and {}",
                    input.dim(), dtype_name(input.dtype()));
  RecurrentShape shape;
  shape.steps = input.size(batch_first ? 1 : 0);
  shape.batch = input.size(batch_first ? 0 : 1);
  shape.input = input.size(2);
  shape.output = h0.size(2);
  shape.hidden = lstm ? c0->size(2) : shape.output;
  shape.layers = static_cast<dim_t>(num_layers);
  shape.directions = bidirectional ? 2 : 1;
  shape.gates = lstm ? 4 : 3;
  shape.biases = has_biases;
  shape.projected = shape.hidden != shape.output;
  shape.batch_first = batch_first;
  if (!check_state(ctx, "h0", shape, input, h0, shape.output) ||
      (lstm && !check_state(ctx, "c0", shape, input, *c0, shape.hidden)) ||
      !check_params(ctx, shape, input, params) || !check_same_dtype(ctx, input, out) ||
      !check_same_dtype(ctx, input, h_n))
    return;
  const dim_t width = shape.directions * shape.output;
  const dim_t sizes[] = {input.size(0), input.size(1), width};
  if (!ctx.resize(out, sizes) || !ctx.resize(h_n, h0.sizes()) || (lstm && !ctx.resize(*c_n, c0->sizes())))
    return;
  dispatch_real(ctx, input.dtype(), [&](auto zero) {
    run_layers<decltype(zero), lstm>(ctx, shape, input, h0, c0, params, out, h_n, c_n);
  });
}

}  // namespace

void lstm_out(KernelContext& ctx, const Tensor& input, TensorList hx, TensorList params, bool has_biases,
              int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first,
              Tensor& out0, Tensor& out1, Tensor& out2) {
  if (hx.size() != 2) return ctx.fail("an LSTM has 2 states, {} were given", hx.size());
  recurrent<true>(ctx, input, hx[0], &hx[1], params, has_biases, num_layers, dropout, train, bidirectional,
                  batch_first, out0, out1, &out2);
}

void gru_out(KernelContext& ctx, const Tensor& input, const Tensor& hx, TensorList params, bool has_biases,
             int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first,
             Tensor& out0, Tensor& out1) {
  recurrent<false>(ctx, input, hx, nullptr, params, has_biases, num_layers, dropout, train, bidirectional,
                   batch_first, out0, out1, nullptr);
}

}  // namespace penlight::portable
