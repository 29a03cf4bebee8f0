// Normalisation of groups of channels, over planes or over pixels whose channels lie side by side.
#include "routines.h"
#include "simd.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kRows = 64;  // whose float32 sum, and not more, is made before it goes to double
constexpr int kAtOnce = 4;       // vectors of channels

// mean, factor and summand of each of some channels: (x - mean) * factor + summand.
struct Affine {
  float *means, *factors, *summands;
};

float factor_of(const GroupNorm& p, ptrdiff_t channel, float rstd) {
  return p.weight ? rstd * p.weight[channel] : rstd;
}

float summand_of(const GroupNorm& p, ptrdiff_t channel) { return p.bias ? p.bias[channel] : 0.0f; }

// --- planes ---------------------------------------------------------------------------------------

void finish_plane(const float* x, ptrdiff_t count, float mean, float factor, float summand, float* out) {
  const Floats means = splat(mean), factors = splat(factor), summands = splat(summand);
  for (ptrdiff_t i = 0; i < count; i += kLanes) {
    store_part(out + i, (load_part(x + i, count - i) - means) * factors + summands, count - i);
  }
}

// Channels from `channel` on that have one pixel each.
void finish_row(const GroupNorm& p, ptrdiff_t channel, const float* x, ptrdiff_t channels, float mean,
                float rstd, float* out) {
  const Floats means = splat(mean), rstds = splat(rstd);
  for (ptrdiff_t c = 0; c < channels; c += kLanes) {
    const ptrdiff_t left = channels - c;
    const Floats factors = p.weight ? rstds * load_part(p.weight + channel + c, left) : rstds;
    const Floats summands = p.bias ? load_part(p.bias + channel + c, left) : Floats{};
    store_part(out + c, (load_part(x + c, left) - means) * factors + summands, left);
  }
}

// Elements [begin, end) of a group.
void finish_planes(const GroupNorm& p, ptrdiff_t item, ptrdiff_t begin, ptrdiff_t end) {
  const ptrdiff_t first = item % p.groups * p.channels, from = item * p.channels * p.pixels;
  const float* x = p.input + from;
  float* out = p.output + from;
  const float mean = p.means[item], rstd = p.rstds[item];
  if (p.pixels == 1) return finish_row(p, first + begin, x + begin, end - begin, mean, rstd, out + begin);
  while (begin < end) {
    const ptrdiff_t c = begin / p.pixels, channel = first + c, stop = min_of((c + 1) * p.pixels, end);
    finish_plane(x + begin, stop - begin, mean, factor_of(p, channel, rstd), summand_of(p, channel),
                 out + begin);
    begin = stop;
  }
}

Moments plane_moments(const float* x, ptrdiff_t count) {
  const double mean = mean_of(x, count);
  const Floats means = splat(static_cast<float>(mean));
  const auto square = [&](Floats v) __attribute__((always_inline)) { return (v - means) * (v - means); };
  return {mean, sum_of(x, count, square)};
}

// --- pixels ---------------------------------------------------------------------------------------

// Pixels that are taken for one, so that few channels fill vectors too, and several of them.
ptrdiff_t pixels_together(ptrdiff_t channels) {
  ptrdiff_t pixels = 1;
  if (channels >= kAtOnce * kLanes) return pixels;
  while (pixels * channels < kAtOnce * kLanes || pixels * channels % kLanes != 0) pixels *= 2;
  return pixels;
}

// Calls body(c, vectors, left) for the vectors of `channels` channels, kAtOnce of them while there
// are so many; `left` is how many channels remain.
template <class Body>
PENLIGHT_INLINE void over_channels(ptrdiff_t channels, Body&& body) {
  ptrdiff_t c = 0;
  for (; c + kAtOnce * kLanes <= channels; c += kAtOnce * kLanes) body(c, Index<kAtOnce>(), channels - c);
  for (; c < channels; c += kLanes) body(c, Index<1>(), channels - c);
}

// Adds to sums[c] the sum over rows of term(x, mean of c).
template <class Term>
PENLIGHT_INLINE void add_rows(const float* x, ptrdiff_t rows, ptrdiff_t channels, const float* means,
                              double* sums, Term&& term) {
  for (ptrdiff_t begin = 0; begin < rows; begin += kRows) {
    const ptrdiff_t end = min_of(begin + kRows, rows);
    over_channels(channels, [&](ptrdiff_t c, auto vectors, ptrdiff_t left) __attribute__((always_inline)) {
      Floats totals[vectors], mean[vectors];
      repeat<vectors>([&](auto u) __attribute__((always_inline)) {
        totals[u] = Floats{};
        mean[u] = load_part(means + c + u * kLanes, left - u * kLanes);
      });
      for (ptrdiff_t i = begin; i < end; ++i) {
        repeat<vectors>([&](auto u) __attribute__((always_inline)) {
          totals[u] += term(load_part(x + i * channels + c + u * kLanes, left - u * kLanes), mean[u]);
        });
      }
      repeat<vectors>([&](auto u) __attribute__((always_inline)) {
        float lanes[kLanes];
        store(lanes, totals[u]);
        for (int i = 0; i < kLanes; ++i) sums[c + u * kLanes + i] += static_cast<double>(lanes[i]);
      });
    });
  }
}

// Some pixels of an image: rows of so many channels of several pixels, and the channels of the pixels left.
struct Rows {
  ptrdiff_t channels, count, rest;
  Rows(const GroupNorm& p, ptrdiff_t pixels) {
    const ptrdiff_t each = p.groups * p.channels, together = pixels_together(each);
    channels = together * each;
    count = pixels / together;
    rest = pixels % together * each;
  }
};

void finish_rows(const float* x, ptrdiff_t rows, ptrdiff_t channels, const Affine& affine, float* out) {
  for (ptrdiff_t begin = 0; begin < rows; begin += kRows) {
    const ptrdiff_t end = min_of(begin + kRows, rows);
    over_channels(channels, [&](ptrdiff_t c, auto vectors, ptrdiff_t left) __attribute__((always_inline)) {
      Floats means[vectors], factors[vectors], summands[vectors];
      repeat<vectors>([&](auto u) __attribute__((always_inline)) {
        const ptrdiff_t at = c + u * kLanes, some = left - u * kLanes;
        means[u] = load_part(affine.means + at, some);
        factors[u] = load_part(affine.factors + at, some);
        summands[u] = load_part(affine.summands + at, some);
      });
      for (ptrdiff_t i = begin; i < end; ++i) {
        repeat<vectors>([&](auto u) __attribute__((always_inline)) {
          const ptrdiff_t at = i * channels + c + u * kLanes, some = left - u * kLanes;
          store_part(out + at, (load_part(x + at, some) - means[u]) * factors[u] + summands[u], some);
        });
      }
    });
  }
}

// Calls body(c, g) for the channels of all groups, from c on, of each pixel of a row of `width` channels.
template <class Body>
PENLIGHT_INLINE void over_groups(const GroupNorm& p, ptrdiff_t width, Body&& body) {
  for (ptrdiff_t pixel = 0; pixel < width; pixel += p.groups * p.channels) {
    for (ptrdiff_t g = 0; g < p.groups; ++g) body(pixel + g * p.channels, g);
  }
}

double sum_of_channels(const double* sums, ptrdiff_t channels) {
  double totals[4] = {};
  ptrdiff_t c = 0;
  for (; c + 4 <= channels; c += 4) {
    for (int i = 0; i < 4; ++i) totals[i] += sums[c + i];
  }
  for (; c < channels; ++c) totals[0] += sums[c];
  return (totals[0] + totals[1]) + (totals[2] + totals[3]);
}

// The sum of a group whose sums of float32 are too large for one.
double sum_in_double(const float* x, ptrdiff_t pitch, ptrdiff_t pixels, ptrdiff_t channels) {
  double total = 0;
  for (ptrdiff_t i = 0; i < pixels; ++i) {
    for (ptrdiff_t c = 0; c < channels; ++c) total += static_cast<double>(x[i * pitch + c]);
  }
  return total;
}

// Of the groups of some pixels.
void pixel_moments(const GroupNorm& p, const float* x, ptrdiff_t pixels, Moments* moments) {
  const ptrdiff_t pitch = p.groups * p.channels;
  const Rows rows(p, pixels);
  const ptrdiff_t width = rows.count > 0 ? rows.channels : rows.rest;
  const double count = static_cast<double>(p.channels * pixels);
  double* sums = static_cast<double*>(p.scratch);
  float* means = reinterpret_cast<float*>(sums + round_up(rows.channels, kLanes));
  const auto take_mean = [&](ptrdiff_t c, float mean) {
    for (ptrdiff_t i = 0; i < p.channels; ++i) means[c + i] = mean;
  };
  const auto add = [&](auto term) __attribute__((always_inline)) {
    for (ptrdiff_t c = 0; c < round_up(rows.channels, kLanes); ++c) sums[c] = 0.0;
    add_rows(x, rows.count, rows.channels, means, sums, term);
    if (rows.rest > 0) add_rows(x + rows.count * rows.channels, 1, rows.rest, means, sums, term);
  };
  // As mean_of() does it.
  over_groups(p, width, [&](ptrdiff_t c, ptrdiff_t g) {
    take_mean(c, x[g * p.channels]);
    moments[g] = {};
  });
  add([](Floats v, Floats first) __attribute__((always_inline)) { return v - first; });
  over_groups(p, width,
              [&](ptrdiff_t c, ptrdiff_t g) { moments[g].mean += sum_of_channels(sums + c, p.channels); });
  for (ptrdiff_t g = 0; g < p.groups; ++g) {
    const float* first = x + g * p.channels;
    double mean = *first + moments[g].mean / count;
    if (mean - mean != 0.0) mean = sum_in_double(first, pitch, pixels, p.channels) / count;
    moments[g].mean = mean;
  }
  over_groups(p, width, [&](ptrdiff_t c, ptrdiff_t g) { take_mean(c, static_cast<float>(moments[g].mean)); });
  add([](Floats v, Floats mean) __attribute__((always_inline)) { return (v - mean) * (v - mean); });
  over_groups(p, width,
              [&](ptrdiff_t c, ptrdiff_t g) { moments[g].squares += sum_of_channels(sums + c, p.channels); });
}

// Pixels [begin, end) of an image.
void finish_pixels(const GroupNorm& p, ptrdiff_t image, ptrdiff_t begin, ptrdiff_t end) {
  const ptrdiff_t from = (image * p.pixels + begin) * p.groups * p.channels;
  const Rows rows(p, end - begin);
  float* means = static_cast<float*>(p.scratch);
  const Affine affine = {means, means + rows.channels, means + 2 * rows.channels};
  over_groups(p, rows.count > 0 ? rows.channels : rows.rest, [&](ptrdiff_t c, ptrdiff_t g) {
    const ptrdiff_t item = image * p.groups + g, channel = g * p.channels;
    for (ptrdiff_t i = 0; i < p.channels; ++i) {
      means[c + i] = p.means[item];
      affine.factors[c + i] = factor_of(p, channel + i, p.rstds[item]);
      affine.summands[c + i] = summand_of(p, channel + i);
    }
  });
  finish_rows(p.input + from, rows.count, rows.channels, affine, p.output + from);
  const ptrdiff_t rest = from + rows.count * rows.channels;
  if (rows.rest > 0) finish_rows(p.input + rest, 1, rows.rest, affine, p.output + rest);
}

}  // namespace

void group_moments(const GroupNorm& p) {
  const ptrdiff_t all = p.planar ? p.channels * p.pixels : p.pixels, parts = (all + p.part - 1) / p.part;
  Moments* moments = p.moments;
  for (ptrdiff_t index = p.first; index < p.last; ++index) {
    const ptrdiff_t from = index / parts, begin = index % parts * p.part;
    const ptrdiff_t count = min_of(p.part, all - begin);
    if (p.planar) {
      *moments++ = plane_moments(p.input + from * all + begin, count);
    } else {
      const ptrdiff_t channels = p.groups * p.channels;
      pixel_moments(p, p.input + (from * all + begin) * channels, count, moments);
      moments += p.groups;
    }
  }
}

void norm_groups(const GroupNorm& p) {
  const ptrdiff_t all = p.planar ? p.channels * p.pixels : p.pixels, parts = (all + p.part - 1) / p.part;
  for (ptrdiff_t index = p.first; index < p.last;) {
    const ptrdiff_t from = index / parts, next = min_of((from + 1) * parts, p.last);
    const ptrdiff_t begin = (index - from * parts) * p.part,
                    end = min_of((next - from * parts) * p.part, all);
    p.planar ? finish_planes(p, from, begin, end) : finish_pixels(p, from, begin, end);
    index = next;
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
