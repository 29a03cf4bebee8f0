// Packed weights: linear layers, and convolutions of every kind; matrices that are not packed; and pooling,
// which walks its windows as convolutions do.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

void linear(Random r, long round) {
  const bool deep = r.one_in(6);
  dim_t depth = deep ? r.in(380, 900) : r.in(0, 40);
  dim_t outputs = r.one_in(4) ? r.in(41, 80) : r.in(0, 40);
  dim_t rows = !deep && r.one_in(5) ? r.in(90, 210) : r.in(0, 40);
  if (r.one_in(6)) {  // one row of a wide layer is computed in another way
    rows = 1;
    outputs = r.in(81, 500);
  }
  if (r.one_in(40)) {  // rows of a page
    depth = 1024;
    rows = r.in(20, 60);
    outputs = r.in(128, 160);
  }
  const int dim = static_cast<int>(r.in(1, 3)), activation = static_cast<int>(r.in(0, kActivationCount - 1));
  dim_t sizes[3] = {r.in(1, 2), rows, depth};
  const dim_t* from = sizes + (3 - dim);
  x.shape(from, dim, nullptr, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(3));
  sizes[2] = outputs;
  const bool added = r.one_in(2), front = r.one_in(2);
  residual.shape(from, dim, nullptr, ScalarType::Float, r.one_in(2));
  out.shape(from, dim, nullptr, ScalarType::Float, front);
  again.shape(from, dim, nullptr, ScalarType::Float, !front);
  fill(residual, r, r.one_in(8));
  const dim_t matrix[] = {outputs, depth}, packed[] = {(outputs + 15) / 16 * 16 * (1 + depth)};
  plain.shape(matrix, 2, nullptr, ScalarType::Float, false);
  bias.shape(matrix, 1, nullptr, ScalarType::Float, false);
  weight.shape(packed, 1, nullptr, ScalarType::Float, false);
  fill(plain, r, false);
  fill(bias, r, r.one_in(8));
  pack_panels(plain.data(), bias.data(), outputs, depth, [](dim_t k) { return k; }, weight.data());
  const double low = -0.5, high = 0.75;
  Call call(optimized_library, "penlight::linear_packed.out");
  call.tensor(x).tensor(weight).optional(added ? &residual : nullptr).integer(outputs).integer(activation);
  call.number(low).number(high);
  Judge judge{"linear_packed", round};
  judge.ran(call.run(out), call, out);
  for (dim_t i = 0; i < out.numel(); ++i) {
    Sum sum;
    const float* row = x.data() + i / outputs * depth;
    sum.add(static_cast<double>(bias.data()[i % outputs]));
    for (dim_t k = 0; k < depth; ++k) {
      sum.add(static_cast<double>(row[k]), static_cast<double>(plain.data()[i % outputs * depth + k]));
    }
    if (added) sum.add(static_cast<double>(residual.data()[i]));
    judge.see(out.data()[i], activated(activation, low, high, sum.get()), i);
  }
  check_threads(call, out, again);
}

struct Shape {
  dim_t batch, channels, height, width, outputs;
  Geometry g;
};

// One of the ways that convolutions are computed, on sizes that just reach it.
Shape any_convolution(Random& r) {
  Shape s{r.in(1, 2),  r.in(1, 40), r.in(1, 14),
          r.in(1, 14), r.in(1, 40), {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, {}}};
  Geometry& g = s.g;
  const dim_t kind = r.in(0, 8);
  for (int d = 0; d < 2; ++d) {
    g.taps[d] = kind == 0 ? 1 : r.in(1, 5);
    g.stride[d] = r.in(1, 3);
    g.dilation[d] = r.one_in(3) ? r.in(2, 3) : 1;
    g.pad[d] = r.in(0, g.taps[d]);
  }
  if (kind <= 1 && r.one_in(3)) s.channels = r.in(41, 60);
  if (kind == 0 && r.one_in(2)) s.channels = r.in(380, 420);
  if (kind == 2) {  // several groups
    g.groups = r.in(2, 5);
    s.channels = g.groups * r.in(1, 9);
    s.outputs = g.groups * r.in(1, 20);
    if (r.one_in(2)) {  // of which a vector has more than one
      g.groups = r.in(2, 19);
      s.channels = s.outputs = g.groups * (dim_t{1} << r.in(1, 3));
    }
  }
  if (kind == 3 || kind == 4) {  // a group for each channel
    s.outputs = s.channels = g.groups = r.in(2, 40);
    s.width = r.in(1, 30);
    for (int d = 0; d < 2 && kind == 4; ++d) {
      g.taps[d] = r.one_in(2) ? 3 : 5;
      g.stride[d] = r.in(1, 2);
      g.dilation[d] = 1;
    }
  }
  if (kind >= 7) {  // the same with any window, and with several outputs each
    constexpr dim_t taps[] = {1, 2, 3, 5, 6, 7, 7, 9, 11, 31};
    g.groups = s.channels = r.in(2, r.one_in(3) ? 70 : 20);
    s.outputs = s.channels * (r.one_in(2) ? 1 : r.in(2, 5));
    s.height = r.in(1, 20);
    s.width = r.one_in(8) ? r.in(60, 130) : r.in(1, 20);
    for (int d = 0; d < 2; ++d) {
      g.taps[d] = taps[r.in(0, 9)];
      g.stride[d] = r.one_in(2) ? 1 : r.in(1, 4);
      g.dilation[d] = r.one_in(3) ? r.in(2, 5) : 1;
      const dim_t reach = (g.taps[d] - 1) * g.dilation[d];
      g.pad[d] = r.one_in(2) ? reach / 2 : r.in(0, reach + 2);
    }
  }
  if (kind == 6 && r.one_in(2)) {  // signals: a line or two that threads share, at times of few outputs
    s.height = r.in(1, 2);
    s.width = r.in(100, 500);
    s.channels = r.in(1, 31);
    s.outputs = r.one_in(3) ? r.in(1, 4) : r.in(1, 40);
    g.taps[0] = g.stride[0] = 1;
    g.pad[0] = 0;
    g.taps[1] = r.in(2, 11);
    g.pad[1] = r.in(0, g.taps[1]);
  }
  if (kind == 5) {  // tiles of transformed products: large ones, or small for small images
    const bool small = r.one_in(2);
    s.channels = small ? r.in(64, 80) : r.in(24, 37);
    s.outputs = small ? r.in(64, 80) : r.in(24, 37);
    g = {{3, 3}, {1, 1}, {r.in(0, 2), r.in(0, 2)}, {1, 1}, 1, {}};
    s.height = small ? r.in(11, 12) - 2 * g.pad[0] : r.in(17, 23);
    s.width = small ? r.in(11, 12) - 2 * g.pad[1] : r.in(17, 27);
    if (r.one_in(3)) {  // windows of several rows
      g.taps[0] = r.in(2, 6);
      g.taps[1] = r.in(4, 9);
      s.height = g.taps[0] + r.in(2, 12);
      s.width = g.taps[1] + r.in(8, 30);
      s.channels = r.in(32, 50);
      s.outputs = r.in(32, 50);
    } else if (r.one_in(2)) {  // of one row or column
      s.channels = r.in(48, 70);
      s.outputs = r.in(48, 70);
      const int along = r.one_in(2) ? 0 : 1;
      g = {{1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, {}};
      g.taps[along] = r.in(3, 13);
      g.pad[along] = r.in(0, 8);
      g.dilation[along] = r.one_in(2) ? 1 : r.in(2, 5);
      (along == 0 ? s.width : s.height) = r.in(1, 3);
      (along == 0 ? s.height : s.width) = (g.taps[along] - 1) * g.dilation[along] + r.in(20, 90);
    }
    if (r.one_in(3)) {  // in each of several groups
      g.groups = r.in(2, 3);
      s.channels *= g.groups;
      s.outputs *= g.groups;
    }
  }
  if (kind == 6) {  // runs that span the window's width
    s.channels = r.in(0, 9);
    s.width = r.in(8, 40);
    g.taps[1] = r.in(2, 9);
    g.dilation[1] = 1;
  }
  if (r.one_in(20)) s.batch = 0;
  for (int d = 0; d < 2 && r.one_in(3); ++d) g.more[d] = r.in(-g.pad[d], 3);
  return s;
}

void pack_convolution(const Shape& s) {
  const dim_t per_group = s.channels / s.g.groups, taps = s.g.taps[0] * s.g.taps[1];
  const dim_t depth = per_group * taps, outputs = s.outputs / s.g.groups;
  const bool depthwise = s.g.groups > 1 && per_group == 1;
  const dim_t padded = (s.outputs + 15) / 16 * 16, panels = (outputs + 15) / 16 * 16;
  const dim_t size[] = {depthwise ? (1 + taps) * padded : s.g.groups * panels * (1 + depth)};
  weight.shape(size, 1, nullptr, ScalarType::Float, false);
  if (depthwise) {
    for (dim_t i = 0; i < size[0]; ++i) {
      const dim_t c = i % padded, t = i / padded - 1;
      weight.data()[i] = c >= s.outputs ? 0 : t < 0 ? bias.data()[c] : plain.data()[c * taps + t];
    }
    return;
  }
  // Steps of the sum go through the taps, and in each through the channels.
  const auto order = [&](dim_t k) { return k % per_group * taps + k / per_group; };
  for (dim_t group = 0; group < s.g.groups; ++group) {
    pack_panels(plain.data() + group * outputs * depth, bias.data() + group * outputs, outputs, depth, order,
                weight.data() + group * panels * (1 + depth));
  }
}

void convolution(Random r, long round) {
  const Shape s = any_convolution(r);
  const Geometry& g = s.g;
  dim_t sizes[] = {s.batch, s.channels, s.height, s.width};
  // Images of a few channels are read as they come, row by row of each channel.
  const bool planes = g.groups == 1 && s.channels < 32 && g.taps[0] * g.taps[1] > 1 && r.one_in(2);
  x.shape(sizes, 4, planes ? nullptr : kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, r.one_in(3));
  const dim_t matrix[] = {s.outputs, s.channels / g.groups * g.taps[0] * g.taps[1]};
  plain.shape(matrix, 2, nullptr, ScalarType::Float, false);
  bias.shape(matrix, 1, nullptr, ScalarType::Float, false);
  fill(plain, r, false);
  fill(bias, r, false);
  pack_convolution(s);
  sizes[1] = s.outputs;
  const bool fits = slide(g, sizes);
  const bool added = r.one_in(2), front = r.one_in(2);
  residual.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  out.shape(sizes, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(sizes, 4, kChannelsLast, ScalarType::Float, !front);
  fill(residual, r, false);
  const int activation = static_cast<int>(r.in(0, kActivationCount - 1));
  const double low = -0.5, high = 0.75;
  Call call(optimized_library, "penlight::conv2d_packed.out");
  call.tensor(x).tensor(weight).optional(added ? &residual : nullptr);
  window(call, g, s.outputs).integer(g.groups).integer(activation).number(low).number(high);
  Judge judge{"conv2d_packed", round};
  if (!fits) {
    CHECK(call.run(out) == Status::InvalidArgument);
    return;
  }
  judge.ran(call.run(out), call, out);
  // Transformed tiles are off by a share of the range; the widest sum stands for that.
  const dim_t down = g.taps[0], across = g.taps[1];
  const bool windows =
      down == 1 || across == 1 ? down * across >= 3 : across > 3 || (down == 3 && across == 3);
  const bool tiles = windows && s.channels >= 16 * g.groups;
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t o = 0; o < sizes[1]; ++o) {
      for (dim_t h = 0; h < sizes[2]; ++h) {
        for (dim_t w = 0; w < sizes[3]; ++w) {
          Exact sum = convolve(x, x.data(), plain.data(), s.outputs, g, n, o, h, w);
          const dim_t place = out.at(n, o, h, w);
          Sum rest;
          rest.add(sum.value);
          rest.add(static_cast<double>(bias.data()[o]));
          if (added) rest.add(static_cast<double>(residual.data()[place]));
          const Exact all{rest.get().value, sum.bound + rest.get().bound + (tiles ? 4e-4 : 0)};
          judge.see(out.data()[place], activated(activation, low, high, all), place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

void pooling(Random r, long round) {
  dim_t sizes[] = {r.in(0, 2), r.in(1, 40), r.in(1, 14), r.in(1, 14)};
  x.shape(sizes, 4, kChannelsLast, ScalarType::Float, r.one_in(2));
  fill(x, r, true);
  Geometry g{};
  const bool ceil_mode = r.one_in(2);
  for (int d = 0; d < 2; ++d) {
    g.taps[d] = r.in(1, 4);
    g.stride[d] = r.in(1, 3);
    g.dilation[d] = r.in(1, 2);
    g.pad[d] = r.in(0, g.taps[d] / 2);
  }
  if (!slide(g, sizes, ceil_mode)) return;
  const bool front = r.one_in(2);
  out.shape(sizes, 4, kChannelsLast, ScalarType::Float, front);
  again.shape(sizes, 4, kChannelsLast, ScalarType::Float, !front);
  Call call(optimized_library, "penlight::max_pool2d.out");
  call.tensor(x).integers(g.taps[0], g.taps[1]).integers(g.stride[0], g.stride[1]);
  call.integers(g.pad[0], g.pad[1]).integers(g.dilation[0], g.dilation[1]).flag(ceil_mode);
  Judge judge{"max_pool2d", round};
  judge.ran(call.run(out), call, out);
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t c = 0; c < sizes[1]; ++c) {
      for (dim_t h = 0; h < sizes[2]; ++h) {
        for (dim_t w = 0; w < sizes[3]; ++w) {
          const dim_t place = out.at(n, c, h, w);
          judge.see(out.data()[place], {largest(x, x.data(), g, n, c, h, w), 0}, place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

// A matrix that is not packed: linear layers (its columns dense), mm and bmm (its rows).
void product(Random r, long round) {
  const bool deep = r.one_in(6), large = r.one_in(12);
  const bool wide = r.one_in(4), many = !deep && !large && r.one_in(4);
  const dim_t kind = r.in(0, 2), batch = kind != 2 ? 1 : many ? r.in(4, 90) : r.in(0, 3);
  const dim_t rows = r.one_in(3) ? r.in(1, 3) : large ? r.in(90, 130) : r.in(0, 40);
  const dim_t depth = deep ? r.in(380, 800) : r.in(1, 40);
  const dim_t outputs = large ? r.in(129, 300) : wide ? r.in(41, 150) : r.in(0, 40);
  const dim_t a[] = {batch, rows, depth}, c[] = {batch, rows, outputs};
  const dim_t b[] = {batch, kind == 0 ? outputs : depth, kind == 0 ? depth : outputs};
  const int skip = kind == 2 ? 0 : 1;
  x.shape(a + skip, 3 - skip, nullptr, ScalarType::Float, r.one_in(2));
  y.shape(b + skip, 3 - skip, nullptr, ScalarType::Float, r.one_in(2));
  bias.shape(&outputs, 1, nullptr, ScalarType::Float, r.one_in(2));
  const bool front = r.one_in(2), added = kind == 0 && r.one_in(2);
  out.shape(c + skip, 3 - skip, nullptr, ScalarType::Float, front);
  again.shape(c + skip, 3 - skip, nullptr, ScalarType::Float, !front);
  fill(x, r, r.one_in(3));
  fill(y, r, false);
  fill(bias, r, r.one_in(8));
  const char* names[] = {"aten::linear.out", "aten::mm.out", "aten::bmm.out"};
  Call call(optimized_library, names[kind]);
  call.tensor(x).tensor(y);
  if (kind == 0) call.optional(added ? &bias : nullptr);
  Judge judge{names[kind], round};
  judge.ran(call.run(out), call, out);
  for (dim_t i = 0; i < out.numel(); ++i) {
    const dim_t n = i % outputs, m = i / outputs;
    const float* second = y.data() + (kind == 2 ? m / rows * depth * outputs : 0);
    Sum sum;
    for (dim_t k = 0; k < depth; ++k) {
      sum.add(static_cast<double>(x.data()[m * depth + k]),
              static_cast<double>(second[kind == 0 ? n * depth + k : k * outputs + n]));
    }
    if (added) sum.add(static_cast<double>(bias.data()[n]));
    judge.see(out.data()[i], sum.get(), i);
  }
  check_threads(call, out, again);
}

}  // namespace

TEST(linear_layers) { repeat_everywhere(1, linear, 4); }
TEST(convolutions) { repeat_everywhere(2, convolution, 4); }
TEST(max_pooling) { repeat_everywhere(3, pooling, 2); }
TEST(products_of_matrices_that_are_not_packed) { repeat_everywhere(5, product, 4); }
