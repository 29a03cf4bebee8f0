// Convolutions over time, by the definition.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

// The window in one direction: time, height or width.
struct Direction {
  dim_t size, taps, stride, before, behind, dilation, out;
};

// Any that fit.
void draw(Random& r, Direction (&all)[3]) {
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
}

struct Finish {
  int activation;
  double low, high;
};

// Sums of `out`, in so many groups, of weights weight_at(output, tap, channel of its group). They may be off
// by `slack` beside what the order of a sum allows.
template <class WeightAt>
void see_all(Judge& judge, const Direction (&all)[3], dim_t groups, bool added, const Finish& finish,
             double slack, WeightAt&& weight_at) {
  const auto& [time, row, column] = all;
  const dim_t taps = time.taps * row.taps * column.taps, outputs = out.size(1), each = x.size(1) / groups;
  for (dim_t n = 0; n < out.size(0); ++n) {
    for (dim_t c = 0; c < outputs; ++c) {
      for (dim_t h = 0; h < out.size(2); ++h) {
        for (dim_t w = 0; w < out.size(3); ++w) {
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
            for (dim_t i = 0; inside && i < each; ++i) {
              const dim_t from = c / (outputs / groups) * each + i,
                          pixel = x.at(n / time.out * time.size + at[0], from, at[1], at[2]);
              sum.add(static_cast<double>(x.data()[pixel]), static_cast<double>(weight_at(c, t, i)));
            }
          }
          if (added) sum.add(static_cast<double>(residual.data()[place]));
          Exact exact = sum.get();
          exact.bound += slack;
          judge.see(out.data()[place], activated(finish.activation, finish.low, finish.high, exact), place);
        }
      }
    }
  }
}

// Runs `x` by `weight`, with outputs of the sizes `to`, and judges the result as above.
template <class WeightAt>
void compare(Random& r, const char* what, long round, const Direction (&all)[3], const dim_t (&to)[4],
             dim_t groups, double slack, WeightAt&& weight_at) {
  const bool added = r.one_in(3), front = r.one_in(2);
  residual.shape(to, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  out.shape(to, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(to, 4, kChannelsLast, ScalarType::Float, !front);
  fill(residual, r, false);
  const Finish finish{static_cast<int>(r.in(0, kActivationCount - 1)), -0.5, 0.75};
  const auto& [time, row, column] = all;
  Call call(optimized_library, "penlight::conv3d_packed.out");
  call.tensor(x).tensor(weight).optional(added ? &residual : nullptr).integer(time.size);
  call.integers(to[1], time.taps, row.taps, column.taps).integers(time.stride, row.stride, column.stride);
  call.integers(time.before, row.before, column.before, time.behind, row.behind, column.behind);
  call.integers(time.dilation, row.dilation, column.dilation).integer(groups);
  call.integer(finish.activation).number(finish.low).number(finish.high);
  Judge judge{what, round};
  judge.ran(call.run(out), call, out);
  see_all(judge, all, groups, added, finish, slack, weight_at);
  check_threads(call, out, again);
}

// One for each channel.
void depthwise(Random r, long round) {
  Direction all[3];
  draw(r, all);
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
  const auto of_tap = [&](dim_t c, dim_t t, dim_t) { return plain.data()[c * taps + t]; };
  compare(r, "conv3d_packed", round, all, to, channels, 0, of_tap);
}

// Of all channels of a group, some by tiles of transformed products: finite numbers of one size.
void dense(Random r, long round) {
  Direction all[3];
  draw(r, all);
  const auto& [time, row, column] = all;
  if (row.taps * column.taps == 1) return;
  const dim_t groups = r.one_in(3) ? r.in(2, 3) : 1, each = groups > 1 ? r.in(2, 20) : r.in(1, 24),
              more = r.in(1, 20), outputs = groups * more, videos = r.in(0, 2);
  const dim_t taps = time.taps * row.taps * column.taps, depth = taps * each, pixels = row.taps * column.taps;
  const dim_t from[] = {videos * time.size, groups * each, row.size, column.size};
  const dim_t to[] = {videos * time.out, outputs, row.out, column.out};
  const dim_t panels = (more + 15) / 16, packed[] = {groups * panels * (1 + depth) * 16},
              matrix[] = {outputs, depth};
  x.shape(from, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  plain.shape(matrix, 2, nullptr, ScalarType::Float, false);
  bias.shape(matrix, 1, nullptr, ScalarType::Float, false);
  weight.shape(packed, 1, nullptr, ScalarType::Float, r.one_in(2));
  fill(x, r, false);
  fill(plain, r, false);
  fill(bias, r, false);
  for (dim_t i = 0; i < bias.numel(); ++i) bias.data()[i] += 0.0f;  // as packing does: no negative zero
  // The steps of a sum: pixel by pixel of the window, in each frame by frame.
  const auto of_step = [&](dim_t c, dim_t tap, dim_t i) {
    return plain.data()[c * depth + (tap % pixels * time.taps + tap / pixels) * each + i];
  };
  for (dim_t i = 0; i < packed[0]; ++i) {
    const dim_t panel = i / 16 / (1 + depth), k = i / 16 % (1 + depth) - 1, n = panel % panels * 16 + i % 16,
                c = panel / panels * more + n;
    weight.data()[i] = n >= more ? 0 : k < 0 ? bias.data()[c] : plain.data()[c * depth + k];
  }
  // About 1e-5 of the range of sums of products of numbers from -1 to 1.
  const double slack = 3e-5 * sqrt(static_cast<double>(depth));
  compare(r, "conv3d_packed of groups", round, all, to, groups, slack, of_step);
}

}  // namespace

TEST(videos) { repeat_everywhere(14, depthwise, 3); }

TEST(dense_videos) { repeat_everywhere(16, dense, 1); }
