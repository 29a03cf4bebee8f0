// Normalisation of groups of channels, over planes or over pixels whose channels lie side by side.
#include "routines.h"
#include "simd.h"
#include "sums.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kPixels = 64;  // whose float32 sum, and not more, is made before it goes to double
constexpr int kAtOnce = 4;         // vectors of channels

// mean, factor and summand of each of some channels: (x - mean) * factor + summand.
struct Affine {
  float *means, *factors, *summands;
};

float rstd_of(double squares, double count, double eps) {
  return static_cast<float>(1.0 / __builtin_sqrt(squares / count + eps));
}

float factor_of(const GroupNorm& p, ptrdiff_t channel, float rstd) {
  return p.weight ? rstd * p.weight[channel] : rstd;
}

float summand_of(const GroupNorm& p, ptrdiff_t channel) { return p.bias ? p.bias[channel] : 0.0f; }

void store_moments(const GroupNorm& p, ptrdiff_t item, float mean, float rstd) {
  if (p.means) p.means[item] = mean;
  if (p.rstds) p.rstds[item] = rstd;
}

// --- planes ---------------------------------------------------------------------------------------

void finish_plane(const float* x, ptrdiff_t count, float mean, float factor, float summand, float* out) {
  const Floats means = splat(mean), factors = splat(factor), summands = splat(summand);
  for (ptrdiff_t i = 0; i < count; i += kLanes) {
    store_part(out + i, (load_part(x + i, count - i) - means) * factors + summands, count - i);
  }
}

// The channels of a group that have one pixel each.
void finish_row(const GroupNorm& p, ptrdiff_t channel, const float* x, Floats means, Floats rstds,
                float* out) {
  for (ptrdiff_t c = 0; c < p.channels; c += kLanes) {
    const ptrdiff_t left = p.channels - c;
    const Floats factors = p.weight ? rstds * load_part(p.weight + channel + c, left) : rstds;
    const Floats summands = p.bias ? load_part(p.bias + channel + c, left) : Floats{};
    store_part(out + c, (load_part(x + c, left) - means) * factors + summands, left);
  }
}

void planar_group(const GroupNorm& p, ptrdiff_t item) {
  const ptrdiff_t count = p.channels * p.pixels;
  const float* x = p.input + item * count;
  const float mean = static_cast<float>(mean_of(x, count));
  const Floats means = splat(mean);
  const auto square = [&](Floats v) __attribute__((always_inline)) { return (v - means) * (v - means); };
  const float rstd = rstd_of(sum_of(x, count, square), static_cast<double>(count), p.eps);
  const ptrdiff_t first = item % p.groups * p.channels;
  if (p.pixels == 1) {
    finish_row(p, first, x, means, splat(rstd), p.output + item * count);
  }
  for (ptrdiff_t c = 0; c < p.channels && p.pixels > 1; ++c) {
    const ptrdiff_t channel = first + c, at = c * p.pixels;
    finish_plane(x + at, p.pixels, mean, factor_of(p, channel, rstd), summand_of(p, channel),
                 p.output + item * count + at);
  }
  store_moments(p, item, mean, rstd);
}

// --- pixels ---------------------------------------------------------------------------------------

// Calls body(c, vectors, left) for the vectors of `channels` channels, kAtOnce of them while there
// are so many; `left` is how many channels remain.
template <class Body>
PENLIGHT_INLINE void over_channels(ptrdiff_t channels, Body&& body) {
  ptrdiff_t c = 0;
  for (; c + kAtOnce * kLanes <= channels; c += kAtOnce * kLanes) body(c, Index<kAtOnce>(), channels - c);
  for (; c < channels; c += kLanes) body(c, Index<1>(), channels - c);
}

// Adds to sums[c] the sum over pixels of term(x, mean of c).
template <class Term>
PENLIGHT_INLINE void add_pixels(const float* x, ptrdiff_t pitch, ptrdiff_t pixels, ptrdiff_t channels,
                                const float* means, double* sums, Term&& term) {
  for (ptrdiff_t begin = 0; begin < pixels; begin += kPixels) {
    const ptrdiff_t end = min_of(begin + kPixels, pixels);
    over_channels(channels, [&](ptrdiff_t c, auto vectors, ptrdiff_t left) __attribute__((always_inline)) {
      Floats totals[vectors], mean[vectors];
      repeat<vectors>([&](auto u) __attribute__((always_inline)) {
        totals[u] = Floats{};
        mean[u] = load_part(means + c + u * kLanes, left - u * kLanes);
      });
      for (ptrdiff_t i = begin; i < end; ++i) {
        repeat<vectors>([&](auto u) __attribute__((always_inline)) {
          totals[u] += term(load_part(x + i * pitch + c + u * kLanes, left - u * kLanes), mean[u]);
        });
      }
      repeat<vectors>([&](auto u) __attribute__((always_inline)) {
        float lanes[kLanes];
        store(lanes, totals[u]);
        const ptrdiff_t some = min_of(left - u * kLanes, kLanes);
        for (ptrdiff_t i = 0; i < some; ++i) sums[c + u * kLanes + i] += static_cast<double>(lanes[i]);
      });
    });
  }
}

void finish_pixels(const float* x, ptrdiff_t pitch, ptrdiff_t pixels, ptrdiff_t channels,
                   const Affine& affine, float* out) {
  for (ptrdiff_t begin = 0; begin < pixels; begin += kPixels) {
    const ptrdiff_t end = min_of(begin + kPixels, pixels);
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
          const ptrdiff_t at = i * pitch + c + u * kLanes, some = left - u * kLanes;
          store_part(out + at, (load_part(x + at, some) - means[u]) * factors[u] + summands[u], some);
        });
      }
    });
  }
}

double group_sum(const double* sums, ptrdiff_t channels) {
  double total = 0;
  for (ptrdiff_t c = 0; c < channels; ++c) total += sums[c];
  return total;
}

// The sum of a group whose sums of float32 are too large for one.
double sum_in_double(const float* x, ptrdiff_t pitch, ptrdiff_t pixels, ptrdiff_t channels) {
  double total = 0;
  for (ptrdiff_t i = 0; i < pixels; ++i) {
    for (ptrdiff_t c = 0; c < channels; ++c) total += static_cast<double>(x[i * pitch + c]);
  }
  return total;
}

// Groups [first, last) of one image.
void pixel_groups(const GroupNorm& p, ptrdiff_t image, ptrdiff_t first, ptrdiff_t last) {
  const ptrdiff_t pitch = p.groups * p.channels, begin = first * p.channels;
  const ptrdiff_t channels = (last - first) * p.channels;
  const float* x = p.input + image * p.pixels * pitch + begin;
  const double count = static_cast<double>(p.channels * p.pixels);
  double* sums = static_cast<double*>(p.scratch);
  float* means = reinterpret_cast<float*>(sums + pitch);
  const Affine affine = {means, means + pitch, means + 2 * pitch};
  for (ptrdiff_t c = 0; c < channels; ++c) sums[c] = 0.0;
  // As mean_of() does it.
  for (ptrdiff_t c = 0; c < channels; ++c) means[c] = x[c / p.channels * p.channels];
  add_pixels(x, pitch, p.pixels, channels, means, sums,
             [](Floats v, Floats first) __attribute__((always_inline)) { return v - first; });
  for (ptrdiff_t c = 0; c < channels; c += p.channels) {
    double mean = means[c] + group_sum(sums + c, p.channels) / count;
    if (mean - mean != 0.0) mean = sum_in_double(x + c, pitch, p.pixels, p.channels) / count;
    for (ptrdiff_t i = c; i < c + p.channels; ++i) {
      means[i] = static_cast<float>(mean);
      sums[i] = 0.0;
    }
  }
  add_pixels(x, pitch, p.pixels, channels, means, sums,
             [](Floats v, Floats mean) __attribute__((always_inline)) { return (v - mean) * (v - mean); });
  for (ptrdiff_t c = 0; c < channels; c += p.channels) {
    const float rstd = rstd_of(group_sum(sums + c, p.channels), count, p.eps);
    for (ptrdiff_t i = c; i < c + p.channels; ++i) {
      affine.factors[i] = factor_of(p, begin + i, rstd);
      affine.summands[i] = summand_of(p, begin + i);
    }
    store_moments(p, image * p.groups + first + c / p.channels, means[c], rstd);
  }
  finish_pixels(x, pitch, p.pixels, channels, affine, p.output + image * p.pixels * pitch + begin);
}

}  // namespace

void norm_groups(const GroupNorm& p) {
  if (p.planar) {
    for (ptrdiff_t item = p.first; item < p.last; ++item) planar_group(p, item);
    return;
  }
  for (ptrdiff_t first = p.first; first < p.last;) {
    const ptrdiff_t image = first / p.groups, last = min_of(p.last, (image + 1) * p.groups);
    pixel_groups(p, image, first - image * p.groups, last - image * p.groups);
    first = last;
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
