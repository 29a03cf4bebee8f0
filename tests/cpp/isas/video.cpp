// Depthwise convolutions over time, by the definition.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

// The window in one direction: time, height or width.
struct Direction {
  dim_t size, taps, stride, before, behind, dilation, out;
};

void video(Random r, long round) {
  Direction all[3];
  for (int d = 0; d < 3; ++d) {
    Direction& one = all[d];
    one.size = d == 2 && r.one_in(6) ? r.in(100, 260) : r.in(1, 12);
    one.taps = r.one_in(2) ? 3 : r.one_in(3) ? 5 : r.in(d == 0 ? 2 : 1, 5);
    one.stride = r.one_in(2) ? 1 : r.in(1, 3);
    one.dilation = r.one_in(4) ? r.in(2, 3) : 1;
    const dim_t reach = (one.taps - 1) * one.dilation + 1;
    one.before = r.in(0, reach);
    one.behind = r.in(0, reach);
    while (one.size + one.before + one.behind < reach) ++one.size;
    one.out = (one.size + one.before + one.behind - reach) / one.stride + 1;
  }
  const dim_t taps = all[0].taps * all[1].taps * all[2].taps;
  const dim_t videos = r.in(0, 2), channels = r.in(2, 40),
              outputs = channels * (r.one_in(4) ? r.in(2, 3) : 1);
  const dim_t from[] = {videos * all[0].size, channels, all[1].size, all[2].size};
  const dim_t to[] = {videos * all[0].out, outputs, all[1].out, all[2].out};
  const dim_t padded = (outputs + 15) / 16 * 16, packed[] = {(1 + taps) * padded}, matrix[] = {outputs, taps};
  x.shape(from, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  plain.shape(matrix, 2, nullptr, ScalarType::Float, false);
  bias.shape(matrix, 1, nullptr, ScalarType::Float, false);
  weight.shape(packed, 1, nullptr, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(4));
  fill(plain, r, r.one_in(6));
  fill(bias, r, false);
  for (dim_t i = 0; i < packed[0]; ++i) {
    const dim_t c = i % padded, t = i / padded - 1;
    weight.data()[i] = c >= outputs ? 0 : t < 0 ? bias.data()[c] : plain.data()[c * taps + t];
  }
  const bool added = r.one_in(3), front = r.one_in(2);
  residual.shape(to, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  out.shape(to, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(to, 4, kChannelsLast, ScalarType::Float, !front);
  fill(residual, r, false);
  const int activation = static_cast<int>(r.in(0, kActivationCount - 1));
  const double low = -0.5, high = 0.75;
  const auto& [time, row, column] = all;
  Call call(optimized_library, "penlight::conv3d_packed.out");
  call.tensor(x).tensor(weight).optional(added ? &residual : nullptr).integer(time.size);
  call.integers(outputs, time.taps, row.taps, column.taps).integers(time.stride, row.stride, column.stride);
  call.integers(time.before, row.before, column.before, time.behind, row.behind, column.behind);
  call.integers(time.dilation, row.dilation, column.dilation).integer(channels);
  call.integer(activation).number(low).number(high);
  Judge judge{"conv3d_packed", round};
  judge.ran(call.run(out), call, out);
  for (dim_t n = 0; n < to[0]; ++n) {
    for (dim_t c = 0; c < outputs; ++c) {
      for (dim_t h = 0; h < to[2]; ++h) {
        for (dim_t w = 0; w < to[3]; ++w) {
          const dim_t places[] = {n % time.out, h, w}, place = out.at(n, c, h, w);
          Sum sum;
          sum.add(static_cast<double>(bias.data()[c]));
          for (dim_t t = 0; t < taps; ++t) {
            const dim_t tap[] = {t / column.taps / row.taps, t / column.taps % row.taps, t % column.taps};
            dim_t at[3];
            bool inside = true;
            for (int d = 0; d < 3; ++d) {
              at[d] = places[d] * all[d].stride - all[d].before + tap[d] * all[d].dilation;
              inside = inside && at[d] >= 0 && at[d] < all[d].size;
            }
            if (!inside) continue;
            const dim_t pixel = x.at(n / time.out * time.size + at[0], c * channels / outputs, at[1], at[2]);
            sum.add(static_cast<double>(x.data()[pixel]), static_cast<double>(plain.data()[c * taps + t]));
          }
          if (added) sum.add(static_cast<double>(residual.data()[place]));
          judge.see(out.data()[place], activated(activation, low, high, sum.get()), place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

}  // namespace

TEST(videos) { repeat_everywhere(14, video, 3); }
