// Gates of channels from means over images, and convolutions by one pixel over images that have gates.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

constexpr double kLow = -0.5, kHigh = 0.75;  // of activations
constexpr double kRounding = 6e-8;
constexpr dim_t kMostFeatures = 64;

// A layer at random, in panels in `packed`.
struct Layer {
  dim_t depth, outputs;
  int activation;
  Array &matrix, &biases;

  Layer(Random& r, dim_t from, dim_t to, Array& rows, Array& shifts, Array& packed)
      : depth(from), outputs(to), matrix(rows), biases(shifts) {
    activation = static_cast<int>(r.in(0, kActivationCount - 1));
    const dim_t sizes[] = {outputs, depth}, panels[] = {(outputs + 15) / 16 * 16 * (1 + depth)};
    matrix.shape(sizes, 2, nullptr, ScalarType::Float, false);
    biases.shape(sizes, 1, nullptr, ScalarType::Float, false);
    packed.shape(panels, 1, nullptr, ScalarType::Float, r.one_in(2));
    fill(matrix, r, false);
    fill(biases, r, false);
    pack_panels(matrix.data(), biases.data(), outputs, depth, [](dim_t k) { return k; }, packed.data());
  }

  // Output `o` of what `input` gives.
  Exact of(const Exact* input, dim_t o) const {
    Sum sum;
    double carried = 0;
    sum.add(static_cast<double>(biases.data()[o]));
    for (dim_t k = 0; k < depth; ++k) {
      const double w = static_cast<double>(matrix.data()[o * depth + k]);
      sum.add(input[k].value, w);
      carried += fabs(w) * input[k].bound;
    }
    return activated(activation, kLow, kHigh, {sum.get().value, sum.get().bound + carried});
  }
};

Array second_plain, second_bias;

void squeeze_excite(Random r, long round) {
  const dim_t sizes[] = {r.in(0, 3), r.in(1, kMostFeatures), r.in(1, 20), r.in(1, 20)};
  x.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(4));
  const Layer first(r, sizes[1], r.in(1, kMostFeatures), plain, bias, weight);
  const Layer last(r, first.outputs, r.in(1, kMostFeatures), second_plain, second_bias, residual);
  const dim_t gates[] = {sizes[0], last.outputs, 1, 1};
  const bool front = r.one_in(2);
  out.shape(gates, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(gates, 4, kChannelsLast, ScalarType::Float, !front);
  Call call(optimized_library, "penlight::squeeze_excite_packed.out");
  call.tensor(x).tensor(weight).tensor(residual).integer(first.outputs).integer(last.outputs);
  call.integer(first.activation).number(kLow).number(kHigh);
  call.integer(last.activation).number(kLow).number(kHigh);
  Judge judge{"squeeze_excite_packed", round};
  judge.ran(call.run(out), call, out);
  const double pixels = static_cast<double>(sizes[2] * sizes[3]);
  for (dim_t n = 0; n < sizes[0]; ++n) {
    Exact means[kMostFeatures], between[kMostFeatures];
    for (dim_t c = 0; c < sizes[1]; ++c) {
      Sum sum;
      for (dim_t h = 0; h < sizes[2]; ++h) {
        for (dim_t w = 0; w < sizes[3]; ++w) sum.add(static_cast<double>(x.data()[x.at(n, c, h, w)]));
      }
      means[c] = {sum.get().value / pixels, sum.get().bound / pixels};
    }
    for (dim_t o = 0; o < first.outputs; ++o) between[o] = first.of(means, o);
    for (dim_t o = 0; o < last.outputs; ++o) {
      const dim_t place = n * last.outputs + o;
      judge.see(out.data()[place], last.of(between, o), place);
    }
  }
  check_threads(call, out, again);
}

void gated(Random r, long round) {
  const bool wide = r.one_in(3);  // enough for several threads
  const dim_t sizes[] = {r.in(0, 3), r.in(1, kMostFeatures), r.in(1, wide ? 40 : 9), r.in(1, wide ? 40 : 9)};
  x.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(4));
  const dim_t gates[] = {sizes[0], sizes[1], 1, 1};
  y.shape(gates, 4, r.one_in(2) ? nullptr : kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(y, r, r.one_in(8));
  const Layer layer(r, sizes[1], r.one_in(4) ? r.in(41, 150) : r.in(1, 40), plain, bias, weight);
  const dim_t result[] = {sizes[0], layer.outputs, sizes[2], sizes[3]};
  const bool added = r.one_in(2), front = r.one_in(2);
  residual.shape(result, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(residual, r, r.one_in(8));
  out.shape(result, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(result, 4, kChannelsLast, ScalarType::Float, !front);
  Call call(optimized_library, "penlight::conv2d_gated_packed.out");
  call.tensor(x).tensor(y).tensor(weight).optional(added ? &residual : nullptr).integer(layer.outputs);
  call.integer(layer.activation).number(kLow).number(kHigh);
  Judge judge{"conv2d_gated_packed", round};
  judge.ran(call.run(out), call, out);
  for (dim_t i = 0; i < out.numel(); ++i) {  // channels are innermost
    const dim_t o = i % layer.outputs, pixel = i / layer.outputs, n = pixel / (sizes[2] * sizes[3]);
    Sum sum;
    double rounded = 0;  // of weights that were multiplied
    sum.add(static_cast<double>(bias.data()[o]));
    for (dim_t k = 0; k < sizes[1]; ++k) {
      const double gate = static_cast<double>(y.data()[n * sizes[1] + k]),
                   w = static_cast<double>(plain.data()[o * sizes[1] + k]);
      const double term = static_cast<double>(x.data()[pixel * sizes[1] + k]) * gate * w;
      sum.add(term);
      rounded += fabs(term) * kRounding;
    }
    if (added) sum.add(static_cast<double>(residual.data()[i]));
    const Exact all = {sum.get().value, sum.get().bound + rounded};
    judge.see(out.data()[i], activated(layer.activation, kLow, kHigh, all), i);
  }
  check_threads(call, out, again);
}

}  // namespace

TEST(gates_of_channels) { repeat_everywhere(18, squeeze_excite, 3); }
TEST(convolutions_of_gated_images) { repeat_everywhere(19, gated, 3); }
