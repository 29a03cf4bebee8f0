// LSTM and GRU over whole sequences of float32; the portable kernels take what these decline.
//
// The input's part of the gates is one product for many steps at once. The state's part is
// computed step by step, by the threads for directions and rows of their own, or, where each
// would have to read more weights than its cache holds, for units of their own.
#include <string.h>

#include "isa.h"
#include "packed.h"
#include "parallel.h"
#include "parameters.h"
#include "product.h"
#include "unpacked.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kInputRows = 128;  // rows of a product of inputs, or one step of a larger batch
// Products of a state with the weights in all, from which on it pays to lay these out.
constexpr dim_t kFewStates = 8;
// Elements of weights that a core's own cache holds beside what else there is.
constexpr dim_t kNearWeights = 1 << 17;

struct Shape {
  dim_t steps, batch, input, hidden, layers, directions, gates;
  bool biases, batch_first;

  dim_t width_of(dim_t layer) const { return layer == 0 ? input : directions * hidden; }
  dim_t all_gates() const { return gates * hidden; }
};

// Rows of every step; elements of a row are dense.
struct Sequence {
  const float* data;
  dim_t step, row;
};

struct Cell {
  const float *input_weights, *state_weights, *input_bias, *state_bias;  // the biases may be null
};

bool has_sizes(const Tensor& tensor, dim_t rows, dim_t columns) {
  return is_dense_float(tensor) && tensor.dim() == 2 && tensor.size(0) == rows && tensor.size(1) == columns;
}

bool is_state(const Tensor& tensor, const Shape& shape) {
  return is_dense_float(tensor) && tensor.dim() == 3 && tensor.size(0) == shape.layers * shape.directions &&
         tensor.size(1) == shape.batch && tensor.size(2) == shape.hidden;
}

bool fits(const Shape& shape, TensorList params) {
  const size_t each = shape.biases ? 4 : 2;
  if (params.size() != static_cast<size_t>(shape.layers * shape.directions) * each) return false;
  for (size_t i = 0; i < params.size(); i += each) {
    const dim_t layer = static_cast<dim_t>(i / each) / shape.directions, gates = shape.all_gates();
    if (!has_sizes(params[i], gates, shape.width_of(layer)) || !has_sizes(params[i + 1], gates, shape.hidden))
      return false;
    for (size_t bias = i + 2; bias < i + each; ++bias) {
      if (!is_dense_float(params[bias]) || params[bias].dim() != 1 || params[bias].size(0) != gates)
        return false;
    }
  }
  return true;
}

// From a line of the cache on. Null, with the failure recorded, where there is not so much memory.
float* take(KernelContext& ctx, dim_t a, dim_t b, dim_t c = 1) {
  dim_t count = 0;
  if (!multiply_sizes(a, b, count) || !multiply_sizes(count, c, count) ||
      !multiply_sizes(count, static_cast<dim_t>(sizeof(float)), count)) {
    ctx.fail(Status::OutOfMemory, "scratch of {} times {} elements does not fit an address", a, b);
    return nullptr;
  }
  return static_cast<float*>(ctx.allocate_scratch(static_cast<size_t>(count), 64));
}

class Layers {
 public:
  Layers(KernelContext& ctx, const Shape& shape, TensorList params, const float* h0, float* h_n, float* c_n)
      : ctx_(ctx), shape_(shape), params_(params), h0_(h0), h_n_(h_n), c_n_(c_n) {}

  void run(const Sequence& input, float* out) {
    const Shape& s = shape_;
    if (!allocate(input)) return;
    Sequence from = input;
    for (dim_t layer = 0; layer < s.layers; ++layer) {
      float* to = layer == s.layers - 1 ? out : between_[layer % 2];
      to_ = dense(to, s.directions * s.hidden);
      run_layer(layer, from, to);
      if (!ctx_.ok()) return;
      from = to_;
    }
  }

 private:
  // As the output is ordered.
  Sequence dense(const float* data, dim_t width) const {
    return shape_.batch_first ? Sequence{data, width, shape_.steps * width}
                              : Sequence{data, shape_.batch * width, width};
  }
  // Step after step, all rows of each, as products take them.
  bool is_in_order(const Sequence& x, dim_t width) const {
    return (shape_.batch == 1 || x.row == width) && (shape_.steps == 1 || x.step == shape_.batch * width);
  }

  bool allocate(const Sequence& input) {
    const Shape& s = shape_;
    const dim_t gates = s.all_gates(), hidden = s.directions * s.hidden;
    const dim_t width = s.layers > 1 && hidden > s.input ? hidden : s.input;
    chunk_ = s.batch < kInputRows ? kInputRows / s.batch : 1;
    if (chunk_ > s.steps) chunk_ = s.steps;
    given_ = take(ctx_, chunk_ * s.batch, gates, s.directions);
    const bool ordered =
        is_in_order(input, s.input) && (s.layers == 1 || is_in_order(dense(nullptr, hidden), hidden));
    gathered_ = ordered ? nullptr : take(ctx_, chunk_ * s.batch, width);
    const dim_t panels = round_to_panel(gates);
    panels_ = chunk_ < s.steps ? take(ctx_, panels, 1 + width, s.directions) : nullptr;
    packed_step_ = s.gates * round_to_panel(s.hidden) * (1 + s.hidden);
    packed_ =
        s.steps >= (kFewStates + s.batch - 1) / s.batch ? take(ctx_, packed_step_, s.directions) : nullptr;
    for (dim_t i = 0; i < 2; ++i) {
      between_[i] = s.layers > i + 1 ? take(ctx_, s.steps * s.batch, hidden) : nullptr;
    }
    return ctx_.ok();
  }

  Cell cell_of(dim_t index) const {
    const dim_t each = shape_.biases ? 4 : 2;
    const Tensor* own = params_.data() + index * each;
    const auto data = [&](int i) { return i < each ? own[i].const_data_ptr<float>() : nullptr; };
    return {data(0), data(1), data(2), data(3)};
  }

  void run_layer(dim_t layer, const Sequence& from, float* to) {
    const Shape& s = shape_;
    const dim_t width = s.width_of(layer);
    for (dim_t d = 0; d < s.directions; ++d) {
      cells_[d] = cell_of(layer * s.directions + d);
      if (panels_) pack_input(d, width);
      if (packed_) pack_state(d);
    }
    states_ = layer * s.directions * s.batch * s.hidden;
    for (dim_t done = 0; done < s.steps && ctx_.ok(); done += chunk_) {
      const dim_t count = s.steps - done < chunk_ ? s.steps - done : chunk_;
      for (dim_t d = 0; d < s.directions; ++d) {
        give(from, width, d, d == 0 ? done : s.steps - done - count, count);
      }
      if (ctx_.ok()) run_steps(to, done, count);
    }
    const size_t row = static_cast<size_t>(s.hidden) * sizeof(float);
    for (dim_t d = 0; d < s.directions; ++d) {
      const dim_t last = d == 0 ? s.steps - 1 : 0;
      for (dim_t n = 0; n < s.batch; ++n) {
        const dim_t at = states_ + (d * s.batch + n) * s.hidden;
        const float* state = s.steps > 0 ? to + last * to_.step + n * to_.row + d * s.hidden : h0_ + at;
        memcpy(h_n_ + at, state, row);
      }
    }
  }

  void pack_input(dim_t d, dim_t width) {
    const dim_t gates = shape_.all_gates(), panels = round_to_panel(gates) / kPanel;
    float* to = panels_of(d, width);
    const dim_t parts = parts_of(ctx_, 8.0 * static_cast<double>(gates) * static_cast<double>(width), panels);
    const auto part = [&](size_t index) {
      const Range range = range_of(index, parts, gates, kPanel);
      routines().pack_matrix({cells_[d].input_weights, cells_[d].input_bias, to + range.first * (1 + width),
                              1, width, width, range.first, range.last});
    };
    ctx_.parallel(static_cast<size_t>(parts), part);
  }
  float* panels_of(dim_t d, dim_t width) const {
    return panels_ + d * round_to_panel(shape_.all_gates()) * (1 + width);
  }

  void pack_state(dim_t d) {
    const dim_t hidden = shape_.hidden;
    const dim_t parts =
        parts_of(ctx_, 8.0 * static_cast<double>(packed_step_), round_to_panel(hidden) / kPanel);
    const auto part = [&](size_t index) {
      const Range units = range_of(index, parts, hidden, kPanel);
      routines().pack_recurrent({cells_[d].state_weights, cells_[d].state_bias, packed_ + d * packed_step_,
                                 shape_.gates, hidden, units.first, units.last});
    };
    ctx_.parallel(static_cast<size_t>(parts), part);
  }

  // The input's part of the gates, of steps [first, first + count).
  void give(const Sequence& from, dim_t width, dim_t d, dim_t first, dim_t count) {
    const Shape& s = shape_;
    const dim_t rows = count * s.batch, gates = s.all_gates();
    const float* x = from.data + first * from.step;
    if (!is_in_order(from, width)) {
      for (dim_t i = 0; i < rows; ++i) {
        memcpy(gathered_ + i * width, x + i / s.batch * from.step + i % s.batch * from.row,
               static_cast<size_t>(width) * sizeof(float));
      }
      x = gathered_;
    }
    float* to = given_of(d);
    if (!panels_) {
      multiply(ctx_, {x, cells_[d].input_weights, cells_[d].input_bias, to, rows, gates, width, 1, width});
      return;
    }
    Product product = over_matrix(rows, width, width, gates, gates);
    product.input = x;
    product.packed = panels_of(d, width);
    product.output = to;
    run_product(ctx_, product, &product_scratch_);
  }
  float* given_of(dim_t d) const { return given_ + d * chunk_ * shape_.batch * shape_.all_gates(); }

  // `count` steps after `done` ones, in one direction, of rows [first, last).
  Recurrent steps_of(float* to, dim_t d, dim_t done, dim_t count, Range rows) const {
    const Shape& s = shape_;
    const dim_t gates = s.all_gates(), sign = d == 0 ? 1 : -1, n = rows.first;
    const dim_t first = d == 0 ? done : s.steps - 1 - done;
    const dim_t states = states_ + (d * s.batch + n) * s.hidden;
    Recurrent r{};
    r.given = given_of(d) + ((d == 0 ? 0 : count - 1) * s.batch + n) * gates;
    r.given_step = sign * s.batch * gates;
    r.given_row = gates;
    r.output = to + first * to_.step + n * to_.row + d * s.hidden;
    r.output_step = sign * to_.step;
    r.output_row = to_.row;
    r.state = done == 0 ? h0_ + states : r.output - r.output_step;
    r.state_row = done == 0 ? s.hidden : to_.row;
    r.cell = c_n_ ? c_n_ + states : nullptr;
    r.packed = packed_ ? packed_ + d * packed_step_ : nullptr;
    r.weights = cells_[d].state_weights;
    r.bias = cells_[d].state_bias;
    r.steps = count;
    r.rows = rows.last - rows.first;
    r.hidden = r.last_unit = s.hidden;
    return r;
  }

  void run_steps(float* to, dim_t done, dim_t count) {
    const Shape& s = shape_;
    const dim_t threads = static_cast<dim_t>(ctx_.threads());
    const double weights = static_cast<double>(s.all_gates()) * static_cast<double>(s.hidden);
    const double step = weights * static_cast<double>(s.directions * (2 * s.batch > 8 ? 2 * s.batch : 8));
    if (threads > s.directions && weights > static_cast<double>(kNearWeights)) {
      const dim_t panels = round_to_panel(s.hidden) / kPanel;
      const dim_t parts = parts_of(ctx_, step, s.directions * panels);
      if (parts > 1) return run_split_steps(to, done, count, (parts + s.directions - 1) / s.directions);
    }
    const bool pays = step * static_cast<double>(count) >= 2 * kOperationsOfPart;
    dim_t groups = pays ? (threads + s.directions - 1) / s.directions : 1;
    if (groups > s.batch) groups = s.batch;
    const auto part = [&](size_t index) {
      const dim_t d = static_cast<dim_t>(index) / groups, group = static_cast<dim_t>(index) % groups;
      routines().recurrent(
          steps_of(to, d, done, count, range_of(static_cast<size_t>(group), groups, s.batch)));
    };
    const size_t parts = static_cast<size_t>(groups * s.directions);
    if (pays) return ctx_.parallel(parts, part);
    for (size_t i = 0; i < parts; ++i) part(i);
  }

  // A step at a time, in `ranges` ranges of units.
  void run_split_steps(float* to, dim_t done, dim_t count, dim_t ranges) {
    Recurrent now[2];
    for (dim_t d = 0; d < shape_.directions; ++d) {
      now[d] = steps_of(to, d, done, count, {0, shape_.batch});
      now[d].steps = 1;
    }
    const auto part = [&](size_t index) {
      const size_t count_of_ranges = static_cast<size_t>(ranges);
      Recurrent mine = now[index / count_of_ranges];
      const Range units = range_of(index % count_of_ranges, ranges, shape_.hidden, kPanel);
      mine.first_unit = units.first;
      mine.last_unit = units.last;
      routines().recurrent(mine);
    };
    for (dim_t t = 0; t < count; ++t) {
      ctx_.parallel(static_cast<size_t>(ranges * shape_.directions), part);
      for (dim_t d = 0; d < shape_.directions; ++d) {
        now[d].state = now[d].output;
        now[d].state_row = now[d].output_row;
        now[d].given += now[d].given_step;
        now[d].output += now[d].output_step;
      }
    }
  }

  KernelContext& ctx_;
  const Shape& shape_;
  TensorList params_;
  const float* h0_;
  float *h_n_, *c_n_;   // of all layers; a GRU has no c_n
  Sequence to_{};       // what the layer writes
  Cell cells_[2] = {};  // of the layer
  ProductScratch product_scratch_;
  dim_t states_ = 0;       // where its states begin
  dim_t chunk_ = 0;        // steps whose inputs are multiplied together
  dim_t packed_step_ = 0;  // elements from direction to direction
  float *given_ = nullptr, *gathered_ = nullptr, *between_[2] = {};
  float *panels_ = nullptr, *packed_ = nullptr;  // null: weights are read where they lie
};

// Fills `shape`; false for what this kernel does not take.
bool read_shape(const Tensor& input, const Tensor& h0, const Tensor* c0, TensorList params, bool has_biases,
                int64_t num_layers, bool drops, bool bidirectional, bool batch_first, Shape& shape) {
  if (drops || input.scalar_type() != ScalarType::Float || input.dim() != 3 || h0.dim() != 3 ||
      num_layers < 1 || num_layers > static_cast<int64_t>(params.size()) ||
      !(input.stride(2) == 1 || input.size(2) == 1)) {
    return false;
  }
  shape = {input.size(batch_first ? 1 : 0),
           input.size(batch_first ? 0 : 1),
           input.size(2),
           h0.size(2),
           static_cast<dim_t>(num_layers),
           bidirectional ? 2 : 1,
           c0 ? 4 : 3,
           has_biases,
           batch_first};
  return shape.input > 0 && shape.hidden > 0 && is_state(h0, shape) && (!c0 || is_state(*c0, shape)) &&
         fits(shape, params);
}

void run(KernelContext& ctx, const Shape& shape, const Tensor& input, const Tensor& h0, const Tensor* c0,
         TensorList params, Tensor& out, Tensor& h_n, Tensor* c_n) {
  const dim_t sizes[] = {input.size(0), input.size(1), shape.directions * shape.hidden};
  if (!ctx.resize(out, sizes) || !ctx.resize(h_n, h0.sizes()) || (c0 && !ctx.resize(*c_n, c0->sizes())))
    return;
  if (!is_dense_float(out) || !is_dense_float(h_n) || (c_n && !is_dense_float(*c_n))) return ctx.decline();
  if (c0) memcpy(c_n->mutable_data_ptr(), c0->const_data_ptr(), c0->nbytes());
  if (shape.batch == 0) return;
  const bool first = shape.batch_first;
  Layers layers(ctx, shape, params, h0.const_data_ptr<float>(), h_n.mutable_data_ptr<float>(),
                c_n ? c_n->mutable_data_ptr<float>() : nullptr);
  layers.run({input.const_data_ptr<float>(), input.stride(first ? 1 : 0), input.stride(first ? 0 : 1)},
             out.mutable_data_ptr<float>());
}

}  // namespace

void lstm_out(KernelContext& ctx, const Tensor& input, TensorList hx, TensorList params, bool has_biases,
              int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first,
              Tensor& out0, Tensor& out1, Tensor& out2) {
  Shape shape;
  if (hx.size() != 2 || !read_shape(input, hx[0], &hx[1], params, has_biases, num_layers,
                                    train && dropout > 0, bidirectional, batch_first, shape)) {
    return ctx.decline();
  }
  run(ctx, shape, input, hx[0], &hx[1], params, out0, out1, &out2);
}

void gru_out(KernelContext& ctx, const Tensor& input, const Tensor& hx, TensorList params, bool has_biases,
             int64_t num_layers, double dropout, bool train, bool bidirectional, bool batch_first,
             Tensor& out0, Tensor& out1) {
  Shape shape;
  if (!read_shape(input, hx, nullptr, params, has_biases, num_layers, train && dropout > 0, bidirectional,
                  batch_first, shape)) {
    return ctx.decline();
  }
  run(ctx, shape, input, hx, nullptr, params, out0, out1, nullptr);
}

}  // namespace penlight::optimized
