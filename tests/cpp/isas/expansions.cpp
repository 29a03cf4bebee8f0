// Layers that are computed with the depthwise windows over their result: 1x1 convolutions, as of an inverted
// bottleneck, and first layers of networks.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

constexpr double kLow = -0.5, kHigh = 0.75;  // of activations

// What the layer before the windows gives, element by element.
constexpr dim_t kMostBetween = 1 << 16;
Exact between[kMostBetween];

// Windows over an image of some sizes, and what they give.
struct Windows {
  Geometry g{};
  dim_t inner[4], sizes[4];
  bool fit;
  int before, after;  // activations

  // At random.
  Windows(Random& r, const dim_t (&image)[4]) {
    for (int d = 0; d < 4; ++d) inner[d] = sizes[d] = image[d];
    const bool usual = r.one_in(2);  // windows that are computed panel by panel
    g.groups = inner[1];
    for (int d = 0; d < 2; ++d) {
      g.taps[d] = usual && d ? g.taps[0] : r.one_in(2) ? 3 : usual ? 5 : r.in(1, 8);
      g.stride[d] = usual && d ? g.stride[0] : r.in(1, 2);
      g.dilation[d] = !usual && r.one_in(3) ? 2 : 1;
      g.pad[d] = r.in(0, g.taps[d] / 2);
      g.more[d] = r.one_in(3) ? r.in(-g.pad[d], 2) : 0;
    }
    fit = slide(g, sizes) && elements() <= kMostBetween;
    before = static_cast<int>(r.in(0, kActivationCount - 1));
    after = static_cast<int>(r.in(0, kActivationCount - 1));
  }
  dim_t elements() const { return inner[0] * inner[1] * inner[2] * inner[3]; }
  dim_t taps() const { return g.taps[0] * g.taps[1]; }
  Exact& made(dim_t n, dim_t c, dim_t h, dim_t w) const {
    return between[((n * inner[1] + c) * inner[2] + h) * inner[3] + w];
  }
  // An element of the result.
  Exact given(dim_t n, dim_t c, dim_t h, dim_t w) const {
    Sum sum;
    double carried = 0;
    sum.add(-static_cast<double>(bias.data()[c]));
    for (dim_t t = 0; t < taps(); ++t) {
      const dim_t row = h * g.stride[0] - g.pad[0] + t / g.taps[1] * g.dilation[0];
      const dim_t column = w * g.stride[1] - g.pad[1] + t % g.taps[1] * g.dilation[1];
      if (row < 0 || row >= inner[2] || column < 0 || column >= inner[3]) continue;
      const double tap = static_cast<double>(y.data()[c * taps() + t]);
      const Exact& one = made(n, c, row, column);
      sum.add(one.value, tap);
      carried += fabs(tap) * one.bound;
    }
    return activated(after, kLow, kHigh, {sum.get().value, sum.get().bound + carried});
  }
};

// The weights of the layer in `weight`, and those of the windows in `residual`, with its biases negated.
template <class Order>
void pack(Random& r, const Windows& windows, dim_t depth, const Order& order) {
  const dim_t channels = windows.inner[1], taps = windows.taps(), padded = (channels + 15) / 16 * 16;
  const dim_t first[] = {channels, depth}, last[] = {channels, taps}, panels[] = {padded * (1 + depth)},
              packed[] = {(1 + taps) * padded};
  plain.shape(first, 2, nullptr, ScalarType::Float, false);
  bias.shape(first, 1, nullptr, ScalarType::Float, false);
  weight.shape(panels, 1, nullptr, ScalarType::Float, r.one_in(2));
  y.shape(last, 2, nullptr, ScalarType::Float, false);
  residual.shape(packed, 1, nullptr, ScalarType::Float, r.one_in(2));
  fill(plain, r, false);
  fill(bias, r, false);
  fill(y, r, false);
  pack_panels(plain.data(), bias.data(), channels, depth, order, weight.data());
  for (dim_t i = 0; i < packed[0]; ++i) {
    const dim_t c = i % padded, t = i / padded - 1;
    residual.data()[i] = c >= channels ? 0 : t < 0 ? -bias.data()[c] : y.data()[c * taps + t];
  }
}

// Runs a call, and judges what it gives; `sum_of` gives the layer's sums without its biases.
template <class SumOf>
void run(Random& r, Call& call, const char* name, long round, const Windows& windows, const SumOf& sum_of) {
  const bool front = r.one_in(2);
  out.shape(windows.sizes, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(windows.sizes, 4, kChannelsLast, ScalarType::Float, !front);
  Judge judge{name, round};
  judge.ran(call.run(out), call, out);
  const auto each = [](const dim_t(&sizes)[4], const auto& body) {
    for (dim_t n = 0; n < sizes[0]; ++n) {
      for (dim_t c = 0; c < sizes[1]; ++c) {
        for (dim_t h = 0; h < sizes[2]; ++h) {
          for (dim_t w = 0; w < sizes[3]; ++w) body(n, c, h, w);
        }
      }
    }
  };
  each(windows.inner, [&](dim_t n, dim_t c, dim_t h, dim_t w) {
    const Exact sum = sum_of(n, c, h, w);
    Sum all;
    all.add(sum.value);
    all.add(static_cast<double>(bias.data()[c]));
    windows.made(n, c, h, w) =
        activated(windows.before, kLow, kHigh, {all.get().value, sum.bound + all.get().bound});
  });
  each(windows.sizes, [&](dim_t n, dim_t c, dim_t h, dim_t w) {
    const dim_t place = out.at(n, c, h, w);
    judge.see(out.data()[place], windows.given(n, c, h, w), place);
  });
  check_threads(call, out, again);
}

void expansion(Random r, long round) {
  const dim_t channels = r.one_in(3) ? 8 * r.in(1, 8) : r.in(1, 20);
  const bool many = r.one_in(6);  // of the image between the two, of which a few are made in a turn
  dim_t sizes[] = {many ? 1 : r.in(0, 2), channels, r.in(1, many ? 20 : 14), r.in(1, many ? 20 : 14)};
  if (!many && r.one_in(8)) sizes[3] = r.in(200, 400);  // bands of one row
  x.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(4));
  sizes[1] = many ? r.in(100, 180) : r.in(2, 40);
  const Windows windows(r, sizes);
  if (!windows.fit) return;
  pack(r, windows, channels, [](dim_t k) { return k; });
  Call call(optimized_library, "penlight::expand_depthwise_packed.out");
  window(call.tensor(x).tensor(weight).tensor(residual), windows.g, sizes[1]);
  call.integer(windows.before).number(kLow).number(kHigh);
  call.integer(windows.after).number(kLow).number(kHigh);
  const Geometry one = {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, {}};
  run(r, call, "expand_depthwise_packed", round, windows, [&](dim_t n, dim_t c, dim_t h, dim_t w) {
    return convolve(x, x.data(), plain.data(), sizes[1], one, n, c, h, w);
  });
}

// Of an image of few channels, in either order. Half of the windows are of 3x3: of one channel and of three,
// these share columns.
void first_layer(Random r, long round) {
  const dim_t channels = r.in(1, 4);
  dim_t sizes[] = {r.in(0, 2), channels, r.in(1, 12), r.one_in(3) ? r.in(1, 12) : r.in(20, 130)};
  x.shape(sizes, 4, r.one_in(2) ? nullptr : kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(4));
  Geometry g{};
  g.groups = 1;
  const bool shares = r.one_in(2);
  for (int d = 0; d < 2; ++d) {
    g.taps[d] = shares ? 3 : r.in(1 + d, 6);  // of one pixel it is no first layer
    g.stride[d] = r.in(1, shares ? 2 : 3);
    g.dilation[d] = !shares && r.one_in(3) ? 2 : 1;
    g.pad[d] = r.in(0, g.taps[d] / 2);
    g.more[d] = r.one_in(3) ? r.in(-g.pad[d], 2) : 0;
  }
  sizes[1] = r.in(2, 40);
  const bool fits = slide(g, sizes);
  const Windows windows(r, sizes);
  if (!fits || !windows.fit) return;
  const dim_t taps = g.taps[0] * g.taps[1];
  pack(r, windows, channels * taps, [&](dim_t k) { return k % channels * taps + k / channels; });
  Call call(optimized_library, "penlight::conv2d_depthwise_packed.out");
  window(call.tensor(x).tensor(weight).tensor(residual), g, sizes[1]);
  call.integer(windows.before).number(kLow).number(kHigh);
  window(call, windows.g, sizes[1]).integer(windows.after).number(kLow).number(kHigh);
  run(r, call, "conv2d_depthwise_packed", round, windows, [&](dim_t n, dim_t c, dim_t h, dim_t w) {
    return convolve(x, x.data(), plain.data(), sizes[1], g, n, c, h, w);
  });
}

}  // namespace

TEST(expansions) { repeat_everywhere(7, expansion, 3); }
TEST(first_layers_with_windows) { repeat_everywhere(17, first_layer, 3); }
