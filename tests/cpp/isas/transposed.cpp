// Transposed convolutions, by the definition: every pixel adds to the outputs of its window.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

// weight [channels][outputs][tap of the rows][tap of the columns], as panels of each phase.
void pack(dim_t channels, dim_t outputs, const dim_t (&taps)[2], const dim_t (&stride)[2]) {
  const dim_t panels = (outputs + 15) / 16 * 16,
              size[] = {panels * (stride[0] * stride[1] + channels * taps[0] * taps[1])};
  weight.shape(size, 1, nullptr, ScalarType::Float, false);
  float* to = weight.data();
  for (dim_t row = 0; row < stride[0]; ++row) {
    for (dim_t column = 0; column < stride[1]; ++column) {
      const dim_t high = row < taps[0] ? (taps[0] - row - 1) / stride[0] + 1 : 0;
      const dim_t wide = column < taps[1] ? (taps[1] - column - 1) / stride[1] + 1 : 0;
      const dim_t depth = high * wide * channels;
      for (dim_t panel = 0; panel < panels; panel += 16, to += (1 + depth) * 16) {
        for (dim_t k = -1; k < depth; ++k) {
          const dim_t tap = k / (channels > 0 ? channels : 1), c = channels > 0 ? k % channels : 0;
          const dim_t h = k < 0 ? 0 : row + (high - 1 - tap / wide) * stride[0];
          const dim_t w = k < 0 ? 0 : column + (wide - 1 - tap % wide) * stride[1];
          for (dim_t j = 0; j < 16; ++j) {
            const dim_t n = panel + j;
            to[(k + 1) * 16 + j] = n >= outputs ? 0
                                   : k < 0 ? bias.data()[n]
                                           : plain.data()[((c * outputs + n) * taps[0] + h) * taps[1] + w];
          }
        }
      }
    }
  }
}

void transposed(Random r, long round) {
  const dim_t channels = r.one_in(5) ? r.in(100, 420) : r.in(1, 30), outputs = r.in(1, 40);
  const dim_t sizes[] = {r.in(0, 2), channels, r.in(1, 8), r.one_in(4) ? r.in(40, 70) : r.in(1, 12)};
  dim_t taps[2], stride[2], pad[2], more[2], result[] = {sizes[0], outputs, 0, 0};
  bool fits = true;
  for (int d = 0; d < 2; ++d) {
    taps[d] = r.in(1, 5);
    stride[d] = r.in(1, 3);
    pad[d] = r.in(0, taps[d]);
    more[d] = r.in(0, stride[d] - 1);
    result[2 + d] = (sizes[2 + d] - 1) * stride[d] + taps[d] + more[d] - 2 * pad[d];
    fits &= result[2 + d] > 0;
  }
  x.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(4));
  const dim_t all[] = {channels * outputs * taps[0] * taps[1]};
  plain.shape(all, 1, nullptr, ScalarType::Float, false);
  bias.shape(&outputs, 1, nullptr, ScalarType::Float, false);
  fill(plain, r, false);
  fill(bias, r, false);
  pack(channels, outputs, taps, stride);
  const bool added = r.one_in(3), front = r.one_in(2);
  if (!fits) result[2] = result[3] = 1;
  residual.shape(result, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  out.shape(result, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(result, 4, kChannelsLast, ScalarType::Float, !front);
  fill(residual, r, false);
  const int activation = static_cast<int>(r.in(0, kActivationCount - 1));
  const double low = -0.5, high = 0.75;
  Call call(optimized_library, "penlight::conv_transpose2d_packed.out");
  call.tensor(x).tensor(weight).optional(added ? &residual : nullptr);
  call.integers(outputs, taps[0], taps[1]).integers(stride[0], stride[1]).integers(pad[0], pad[1]);
  call.integers(more[0], more[1]).integer(activation).number(low).number(high);
  Judge judge{"conv_transpose2d_packed", round};
  if (!fits) {
    CHECK(call.run(out) == Status::InvalidArgument);
    return;
  }
  judge.ran(call.run(out), call, out);
  for (dim_t n = 0; n < result[0]; ++n) {
    for (dim_t o = 0; o < outputs; ++o) {
      for (dim_t h = 0; h < result[2]; ++h) {
        for (dim_t w = 0; w < result[3]; ++w) {
          Sum sum;
          sum.add(static_cast<double>(bias.data()[o]));
          for (dim_t i = 0; i < taps[0] * taps[1]; ++i) {
            const dim_t row = h + pad[0] - i / taps[1], column = w + pad[1] - i % taps[1];
            if (row < 0 || row % stride[0] || row / stride[0] >= sizes[2]) continue;
            if (column < 0 || column % stride[1] || column / stride[1] >= sizes[3]) continue;
            for (dim_t c = 0; c < channels; ++c) {
              sum.add(static_cast<double>(x.data()[x.at(n, c, row / stride[0], column / stride[1])]),
                      static_cast<double>(plain.data()[(c * outputs + o) * taps[0] * taps[1] + i]));
            }
          }
          const dim_t place = out.at(n, o, h, w);
          if (added) sum.add(static_cast<double>(residual.data()[residual.at(n, o, h, w)]));
          judge.see(out.data()[place], activated(activation, low, high, sum.get()), place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

}  // namespace

TEST(transposed_convolutions) { repeat_everywhere(10, transposed, 2); }
