// What passes over images without weights: resampling, group norms, average pooling.
#include "isas.h"

using namespace penlight;
using namespace penlight_test;

namespace {

const uint8_t* any_order(Random& r) { return r.one_in(2) ? kChannelsLast : nullptr; }

// Where output `i` of an axis lies in the input, as the operator's definition has it.
double position(dim_t in, dim_t out, bool align_corners, double scale, dim_t i) {
  const double n = static_cast<double>(in), m = static_cast<double>(out), at = static_cast<double>(i);
  if (in == out) return at;
  if (align_corners) return out > 1 ? at * (n - 1) / (m - 1) : 0;
  const double exact = (at + 0.5) * (scale > 0 ? 1 / scale : n / m) - 0.5;
  return exact < 0 ? 0 : exact > n - 1 ? n - 1 : exact;
}

void bilinear(Random r, long round) {
  const bool wide = r.one_in(8);
  const dim_t from[] = {r.in(1, 2), wide ? r.in(41, 2200) : r.in(1, 40), r.in(1, 9), r.in(1, wide ? 3 : 40)};
  const dim_t to[] = {from[0], from[1], r.in(1, 20), r.one_in(20) ? r.in(2040, 2060) : r.in(1, 40)};
  const uint8_t* order = any_order(r);
  x.shape(from, 4, order, ScalarType::Float, r.one_in(2));
  fill(x, r, false);
  const bool front = r.one_in(2), align_corners = r.one_in(2), scaled = r.one_in(2);
  out.shape(to, 4, order, ScalarType::Float, front);
  again.shape(to, 4, order, ScalarType::Float, !front);
  Call call(optimized_library, "aten::upsample_bilinear2d.out");
  call.tensor(x).integers(to[2], to[3]).flag(align_corners);
  double scales[2] = {};
  for (int d = 0; d < 2; ++d) {
    // As a caller gives it, who has the output's size from it.
    if (scaled) scales[d] = (static_cast<double>(to[2 + d]) + 0.25) / static_cast<double>(from[2 + d]);
    if (scaled) {
      call.number(scales[d]);
    } else {
      call.none();
    }
  }
  Judge judge{"bilinear", round};
  judge.ran(call.run(out), call, out);
  for (dim_t n = 0; n < to[0]; ++n) {
    for (dim_t h = 0; h < to[2]; ++h) {
      const double y = position(from[2], to[2], align_corners, scales[0], h);
      const dim_t top = static_cast<dim_t>(y), below = top + 1 < from[2] ? top + 1 : top;
      for (dim_t w = 0; w < to[3]; ++w) {
        const double across = position(from[3], to[3], align_corners, scales[1], w);
        const dim_t left = static_cast<dim_t>(across), right = left + 1 < from[3] ? left + 1 : left;
        for (dim_t c = 0; c < to[1]; ++c) {
          const auto at = [&](dim_t i, dim_t j) { return static_cast<double>(x.data()[x.at(n, c, i, j)]); };
          const double s = y - static_cast<double>(top), t = across - static_cast<double>(left);
          const double want = (1 - s) * ((1 - t) * at(top, left) + t * at(top, right)) +
                              s * ((1 - t) * at(below, left) + t * at(below, right));
          // Positions of float32, up to 40, between values that differ by 2 at most.
          judge.see(out.data()[out.at(n, c, h, w)], {want, 4e-5}, out.at(n, c, h, w));
        }
      }
    }
  }
  check_threads(call, out, again);
}

void nearest(Random r, long round) {
  const dim_t from[] = {r.in(1, 2), r.in(1, 40), r.in(1, 9), r.in(1, 40)};
  const dim_t times[] = {r.in(1, 3), r.in(1, 3)};
  const bool shrunk = r.one_in(3);  // to a whole part, so that no rounding is near a border
  dim_t to[] = {from[0], from[1], from[2] * times[0], from[3] * times[1]};
  const uint8_t* order = any_order(r);
  const bool front = r.one_in(2);
  const dim_t* small = shrunk ? to : from;
  x.shape(small, 4, order, ScalarType::Float, r.one_in(2));
  fill(x, r, true);
  out.shape(shrunk ? from : to, 4, order, ScalarType::Float, front);
  again.shape(shrunk ? from : to, 4, order, ScalarType::Float, !front);
  Call call(optimized_library, "aten::upsample_nearest2d.out");
  call.tensor(x).integers(out.size(2), out.size(3)).none().none();
  Judge judge{"nearest", round};
  judge.ran(call.run(out), call, out);
  for (dim_t n = 0; n < out.size(0); ++n) {
    for (dim_t c = 0; c < out.size(1); ++c) {
      for (dim_t h = 0; h < out.size(2); ++h) {
        for (dim_t w = 0; w < out.size(3); ++w) {
          const dim_t i = shrunk ? h * times[0] : h / times[0], j = shrunk ? w * times[1] : w / times[1];
          const dim_t place = out.at(n, c, h, w);
          judge.see(out.data()[place], {static_cast<double>(x.data()[x.at(n, c, i, j)]), 0}, place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

void group_norm(Random r, long round) {
  const bool large = r.one_in(12);  // so that the moments of a group are taken in parts
  const dim_t groups = r.in(1, large ? 3 : 9), each = !large && r.one_in(5) ? r.in(16, 70) : r.in(1, 9);
  const dim_t sizes[] = {r.in(1, large ? 2 : 3), groups * each, large ? r.in(30, 60) : r.in(1, 12),
                         large ? r.in(60, 80) : r.in(1, 15)};
  const dim_t channels = sizes[1];
  const dim_t moments[] = {sizes[0], groups}, pixels = sizes[2] * sizes[3], count = each * pixels;
  const uint8_t* order = any_order(r);
  x.shape(sizes, 4, order, ScalarType::Float, r.one_in(2));
  weight.shape(&channels, 1, nullptr, ScalarType::Float, r.one_in(2));
  bias.shape(&channels, 1, nullptr, ScalarType::Float, r.one_in(2));
  y.shape(sizes, 4, order, ScalarType::Float, r.one_in(2));
  plain.shape(moments, 2, nullptr, ScalarType::Float, r.one_in(2));
  const bool front = r.one_in(2), scaled = r.one_in(2), shifted = r.one_in(2);
  out.shape(moments, 2, nullptr, ScalarType::Float, front);
  again.shape(moments, 2, nullptr, ScalarType::Float, !front);
  fill(x, r, false);
  fill(weight, r, false);
  fill(bias, r, false);
  if (r.one_in(5)) x.data()[r.in(0, x.numel() - 1)] = NAN;
  const double eps = 1e-2;
  Call call(optimized_library, "aten::native_group_norm.out");
  call.tensor(x).optional(scaled ? &weight : nullptr).optional(shifted ? &bias : nullptr);
  call.integer(sizes[0]).integer(channels).integer(pixels).integer(groups).number(eps);
  call.tensor(y).tensor(plain);
  Judge judge{"group_norm", round};
  judge.ran(call.run(out), call, out);
  CHECK(y.intact() && plain.intact());
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t c = 0; c < channels; ++c) {
      const dim_t first = c / each * each;
      double mean = 0, square = 0;
      const auto over_group = [&](auto&& body) {
        for (dim_t i = 0; i < count; ++i) {
          const dim_t p = i % pixels;
          body(static_cast<double>(x.data()[x.at(n, first + i / pixels, p / sizes[3], p % sizes[3])]));
        }
      };
      over_group([&](double value) { mean += value / static_cast<double>(count); });
      over_group(
          [&](double value) { square += (value - mean) * (value - mean) / static_cast<double>(count); });
      const double rstd = 1 / sqrt(square + eps);
      const dim_t group = n * groups + c / each;
      judge.see(plain.data()[group], {mean, 1e-6}, group);
      judge.see(out.data()[group], {rstd, 1e-5 * rstd}, group);
      for (dim_t p = 0; p < pixels; ++p) {
        const dim_t place = x.at(n, c, p / sizes[3], p % sizes[3]);
        double want = (static_cast<double>(x.data()[place]) - mean) * rstd;
        const double bound = 2e-5 * (1 + fabs(want));
        if (scaled) want *= static_cast<double>(weight.data()[c]);
        if (shifted) want += static_cast<double>(bias.data()[c]);
        judge.see(y.data()[place], {want, bound}, place);
      }
    }
  }
  static float before[1 << 18];
  const size_t bytes = static_cast<size_t>(y.numel()) * sizeof(float);
  CHECK(bytes <= sizeof before);
  memcpy(before, y.data(), bytes);
  check_threads(call, out, again);
  CHECK(memcmp(before, y.data(), bytes) == 0);
}

void averages(Random r, long round) {
  dim_t sizes[] = {r.in(1, 2), r.in(1, 40), r.in(1, 14), r.one_in(3) ? r.in(15, 90) : r.in(1, 14)};
  const uint8_t* order = any_order(r);
  x.shape(sizes, 4, order, ScalarType::Float, r.one_in(2));
  fill(x, r, true);
  Geometry g{};
  const bool ceil_mode = r.one_in(2), padded = r.one_in(2), divided = r.one_in(4);
  for (int d = 0; d < 2; ++d) {
    g.taps[d] = r.in(1, 5);
    g.stride[d] = r.in(1, 4);
    g.dilation[d] = 1;
    g.pad[d] = r.in(0, g.taps[d] / 2);
  }
  if (!options().gathers) g.stride[1] = 1;
  if (!slide(g, sizes, ceil_mode)) return;
  const bool front = r.one_in(2);
  out.shape(sizes, 4, order, ScalarType::Float, front);
  again.shape(sizes, 4, order, ScalarType::Float, !front);
  Call call(optimized_library, "aten::avg_pool2d.out");
  call.tensor(x).integers(g.taps[0], g.taps[1]).integers(g.stride[0], g.stride[1]);
  call.integers(g.pad[0], g.pad[1]).flag(ceil_mode).flag(padded);
  if (divided) {
    call.integer(7);
  } else {
    call.none();
  }
  Judge judge{"avg_pool2d", round};
  judge.ran(call.run(out), call, out);
  for (dim_t n = 0; n < sizes[0]; ++n) {
    for (dim_t c = 0; c < sizes[1]; ++c) {
      for (dim_t h = 0; h < sizes[2]; ++h) {
        for (dim_t w = 0; w < sizes[3]; ++w) {
          Sum sum;
          double size = 1;
          dim_t begin[2], end[2];
          for (int d = 0; d < 2; ++d) {
            const dim_t in = x.size(2 + d);
            begin[d] = (d == 0 ? h : w) * g.stride[d] - g.pad[d];
            end[d] = begin[d] + g.taps[d];
            if (end[d] > in + g.pad[d]) end[d] = in + g.pad[d];
            if (padded) size *= static_cast<double>(end[d] - begin[d]);
            if (begin[d] < 0) begin[d] = 0;
            if (end[d] > in) end[d] = in;
            if (!padded) size *= static_cast<double>(end[d] - begin[d]);
          }
          for (dim_t i = begin[0]; i < end[0]; ++i) {
            for (dim_t j = begin[1]; j < end[1]; ++j) {
              sum.add(static_cast<double>(x.data()[x.at(n, c, i, j)]));
            }
          }
          const double divisor = divided ? 7 : size;
          const Exact all = sum.get();
          const dim_t place = out.at(n, c, h, w);
          judge.see(out.data()[place], {all.value / divisor, 2 * all.bound / divisor}, place);
        }
      }
    }
  }
  check_threads(call, out, again);
}

}  // namespace

TEST(bilinear_images) { repeat_everywhere(9, bilinear, 2); }
TEST(nearest_images) { repeat_everywhere(10, nearest, 2); }
TEST(groups_of_channels) { repeat_everywhere(11, group_norm, 2); }
TEST(averages_of_windows) { repeat_everywhere(12, averages, 3); }
