// Samples of images at the positions of a grid, a block of them at a time.
//
// Where they lie and how much of each pixel they are is found for vectors of positions. Then, where
// the channels of a pixel lie beside each other, a vector is of channels of one sample; else it is of
// the samples of one plane.
#include "grid_sample.h"

#include "double_functions.h"
#include "functions.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr int kAxisTaps = 4, kTaps = kAxisTaps * kAxisTaps;

// Of each position of a block, and the pixels around it: the pixel, or -1 if that is outside of the image,
// and how much of it the sample is.
struct Taps {
  int count;  // of a position
  int32_t at[kTaps][kGridBlock];
  float weights[kTaps][kGridBlock];
  float none[kGridBlock];  // 0, or no number where the position is none
};

struct Axis {
  Ints at[kAxisTaps];  // -1: outside
  Floats weights[kAxisTaps];
  Floats none;
};

// Back and forth between the ends.
PENLIGHT_INLINE Floats reflect(Floats x, Floats low, Floats length) {
  const Floats from = x - low, distance = (Floats)((Ints)from & splat_int(INT32_MAX));
  const Floats rest = fmod_of(distance, length),
               halves = whole_of<Whole::Below>(distance / length) * splat(0.5f);
  return select(whole_of<Whole::Below>(halves) == halves, rest + low, length - rest + low);
}

// Where outside of the image is something inside of it, no number is at 0.
PENLIGHT_INLINE Floats padded(const GridSample& g, Floats x, Floats size) {
  const Floats one = splat(1.0f);
  if (g.padding == GridPadding::Zeros) return x;
  if (g.padding == GridPadding::Reflection) {
    const Floats low = g.align_corners ? Floats{} : splat(-0.5f),
                 length = g.align_corners ? size - one : size;
    x = select(length > Floats{}, reflect(x, low, length), Floats{});
  }
  x = select(x > Floats{}, x, Floats{});
  return select(x < size - one, x, size - one);
}

// The index of a whole number that is inside, else -1.
PENLIGHT_INLINE Ints index_of(Floats x, Floats size) {
  const Ints inside = (x >= Floats{}) & (x < size);
  return __builtin_convertvector(select(inside, x, splat(-1.0f)), Ints);
}

// Of the four neighbours of a place that lies `t` behind the second of them (Keys, "Cubic convolution
// interpolation for digital image processing", 1981).
PENLIGHT_INLINE void cubic_weights(Floats t, Floats (&weights)[kAxisTaps]) {
  const Floats one = splat(1.0f), a = splat(-0.75f), far = t + one, near = one - t, beyond = near + one;
  const auto outer = [&](Floats x) __attribute__((always_inline)) {
    return ((a * x - splat(5.0f) * a) * x + splat(8.0f) * a) * x - splat(4.0f) * a;
  };
  const auto inner = [&](Floats x) __attribute__((always_inline)) {
    return ((a + splat(2.0f)) * x - (a + splat(3.0f))) * x * x + one;
  };
  weights[0] = outer(far);
  weights[1] = inner(t);
  weights[2] = inner(near);
  weights[3] = outer(beyond);
}

// From [-1, 1] over the whole of an axis to the pixels at or around that place.
PENLIGHT_INLINE Axis axis_of(const GridSample& g, Floats coordinate, ptrdiff_t length) {
  const Floats size = splat(static_cast<float>(length)), one = splat(1.0f), half = splat(0.5f);
  Floats x =
      g.align_corners ? (coordinate + one) * half * (size - one) : ((coordinate + one) * size - one) * half;
  Axis axis;
  if (g.taps < kAxisTaps) x = padded(g, x, size);
  axis.none = g.taps == 1 ? Floats{} : x - x;
  if (g.taps == 1) {
    axis.at[0] = index_of(whole_of<Whole::Nearest>(x), size);
    axis.weights[0] = one;
    return axis;
  }
  const Floats below = whole_of<Whole::Below>(x), rest = x - below;
  if (g.taps == 2) {
    axis.at[0] = index_of(below, size);
    axis.at[1] = index_of(below + one, size);
    axis.weights[0] = one - rest;
    axis.weights[1] = rest;
    return axis;
  }
  repeat<kAxisTaps>([&](auto t) __attribute__((always_inline)) {
    axis.at[t] = index_of(padded(g, below + splat(t - 1.0f), size), size);
  });
  cubic_weights(rest, axis.weights);
  return axis;
}

// Those of `count` positions from `first` of an image on.
void find_taps(const GridSample& g, const float* grid, ptrdiff_t first, ptrdiff_t count, Taps& taps) {
  float x[kGridBlock], y[kGridBlock];
  ptrdiff_t row = first / g.out_width, column = first % g.out_width;
  for (ptrdiff_t i = 0; i < kGridBlock; ++i) {
    if (i >= count) {
      x[i] = y[i] = 0.0f;
      continue;
    }
    const float* where = grid + row * g.grid_line + column * g.grid_column;
    x[i] = where[0];
    y[i] = where[g.grid_axis];
    if (++column == g.out_width) {
      column = 0;
      ++row;
    }
  }
  taps.count = g.taps * g.taps;
  const Ints width = splat_int(static_cast<int32_t>(g.width));
  for (ptrdiff_t i = 0; i < kGridBlock; i += kLanes) {
    const Axis across = axis_of(g, load(x + i), g.width), down = axis_of(g, load(y + i), g.height);
    for (int t = 0; t < taps.count; ++t) {
      const int row = t / g.taps, column = t % g.taps;
      const Ints outside = (across.at[column] < Ints{}) | (down.at[row] < Ints{});
      const Ints at = (down.at[row] * width + across.at[column]) | outside;
      memcpy(taps.at[t] + i, &at, sizeof at);
      store(taps.weights[t] + i, down.weights[row] * across.weights[column]);
    }
    store(taps.none + i, across.none + down.none);
  }
}

// A sample after the other, whose channels lie beside each other.
void by_pixels(const GridSample& g, const float* image, const Taps& taps, ptrdiff_t count, float* output,
               ptrdiff_t pitch) {
  for (ptrdiff_t i = 0; i < count; ++i, output += pitch) {
    const float* pixels[kTaps];
    Floats weights[kTaps];
    int inside = 0;
    for (int t = 0; t < taps.count; ++t) {
      if (taps.at[t][i] < 0) continue;
      pixels[inside] = image + taps.at[t][i] * g.channels;
      weights[inside++] = splat(taps.weights[t][i]);
    }
    for (ptrdiff_t c = 0; c < g.channels; c += kLanes) {
      const ptrdiff_t left = g.channels - c;
      Floats sum = splat(taps.none[i]);
      for (int t = 0; t < inside; ++t) sum += load_part(pixels[t] + c, left) * weights[t];
      store_part(output + c, sum, left);
    }
  }
}

// The samples of one plane after the other.
void by_planes(const GridSample& g, const float* image, const Taps& taps, ptrdiff_t count, float* output) {
  const ptrdiff_t plane = g.height * g.width;
  for (ptrdiff_t c = 0; c < g.channels; ++c, image += plane, output += g.positions) {
    for (ptrdiff_t i = 0; i < count; i += kLanes) {
      Floats sum = load(taps.none + i);
      for (int t = 0; t < taps.count; ++t) {
        const Ints at = load_ints(taps.at[t] + i), inside = at >= Ints{};
        const Floats pixels = gather(image, at & inside);
        sum += select(inside, pixels * load(taps.weights[t] + i), Floats{});
      }
      store_part(output + i, sum, count - i);
    }
  }
}

}  // namespace

void grid_sample(const GridSample& g) {
  Taps taps;
  const ptrdiff_t blocks = (g.positions + kGridBlock - 1) / kGridBlock;
  for (ptrdiff_t block = g.first_block; block < g.last_block; ++block) {
    const ptrdiff_t n = block / blocks, first = block % blocks * kGridBlock;
    const ptrdiff_t count = min_of(kGridBlock, g.positions - first);
    find_taps(g, g.grid + n * g.grid_image, first, count, taps);
    const float* image = g.input + n * g.channels * g.height * g.width;
    float* output = g.output + n * g.channels * g.positions;
    if (!g.pixels) {
      by_planes(g, image, taps, count, output + first);
    } else if (!g.samples) {
      by_pixels(g, image, taps, count, output + first * g.channels, g.channels);
    } else {
      by_pixels(g, image, taps, count, g.samples, g.channels);
      for (ptrdiff_t c = 0; c < g.channels; ++c) {
        float* plane = output + c * g.positions + first;
        for (ptrdiff_t i = 0; i < count; ++i) plane[i] = g.samples[i * g.channels + c];
      }
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
