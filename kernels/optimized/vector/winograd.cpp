// 3x3 convolution with stride 1 in the domain of Winograd's minimal filtering
// (Lavin & Gray 2015, arXiv:1509.09308): F(4x4, 3x3) with the interpolation points
// 0, 1, -1, 2, -2, infinity, and F(2x2, 3x3) with 0, 1, -1, infinity.
//
// An input tile of 6x6 pixels (4x4), transformed, is 36 (16) numbers for each channel, and
// so are the weights. Where a direct sum needs 144 (36) products for the 16 (4) outputs of
// a tile, 36 (16) do. The products of many tiles are matrix products, one a number, which
// product.cpp computes. A block of tiles meets the weights a panel or two at a time, so
// that what is between the transforms stays in the second cache. With one block each
// weight is used once, and transformed just before, for some channels at a time, so that
// it never leaves that cache; with several blocks all are transformed first. Small tiles
// are for small images: they fit more closely, and their weights are made in about half
// the time.
//
// Outputs of F(4x4) differ from a direct sum by about 1e-5 of their range. A NaN, an
// infinity or a sum near the largest float would reach all outputs of its tile: the caller
// is told, and computes directly.
#include "halves.h"
#include "spread_rows.h"
#include "strip.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Panels of outputs that are computed at once: those of a tile's columns.
constexpr ptrdiff_t kGroup = kStripColumns / kPanel > 1 ? kStripColumns / kPanel : 1;
// Elements between the ends of planes: a multiple of 4 KB from plane to plane would put
// what is written for one tile into one set of the first cache.
constexpr ptrdiff_t kGap = 16;

// The three one-dimensional transforms of F(4x4) ...
PENLIGHT_INLINE void transform_weights(const Floats (&g)[3], Floats (&u)[6]) {
  const Floats even = (g[0] + g[2]) * splat(-1.0f / 6.0f), odd = g[1] * splat(-1.0f / 6.0f);
  const Floats wide = g[0] * splat(1.0f / 24.0f) + g[2] * splat(1.0f / 6.0f),
               shift = g[1] * splat(1.0f / 12.0f);
  u[0] = g[0] * splat(0.25f);
  u[1] = even + odd;
  u[2] = even - odd;
  u[3] = wide + shift;
  u[4] = wide - shift;
  u[5] = g[2];
}

PENLIGHT_INLINE void transform_input(const Floats (&d)[6], Floats (&v)[6]) {
  const Floats a = d[4] - splat(4.0f) * d[2], b = d[3] - splat(4.0f) * d[1];
  const Floats c = d[4] - d[2], e = splat(2.0f) * (d[3] - d[1]);
  v[0] = splat(4.0f) * d[0] - splat(5.0f) * d[2] + d[4];
  v[1] = a + b;
  v[2] = a - b;
  v[3] = c + e;
  v[4] = c - e;
  v[5] = splat(4.0f) * d[1] - splat(5.0f) * d[3] + d[5];
}

PENLIGHT_INLINE void transform_output(const Floats (&m)[6], Floats (&y)[4]) {
  const Floats a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  y[0] = m[0] + a + c;
  y[1] = b + splat(2.0f) * d;
  y[2] = a + splat(4.0f) * c;
  y[3] = b + splat(8.0f) * d + m[5];
}

// ... and of F(2x2).
PENLIGHT_INLINE void transform_weights(const Floats (&g)[3], Floats (&u)[4]) {
  const Floats even = (g[0] + g[2]) * splat(0.5f), odd = g[1] * splat(0.5f);
  u[0] = g[0];
  u[1] = even + odd;
  u[2] = even - odd;
  u[3] = g[2];
}

PENLIGHT_INLINE void transform_input(const Floats (&d)[4], Floats (&v)[4]) {
  v[0] = d[0] - d[2];
  v[1] = d[1] + d[2];
  v[2] = d[2] - d[1];
  v[3] = d[3] - d[1];
}

PENLIGHT_INLINE void transform_output(const Floats (&m)[4], Floats (&y)[2]) {
  y[0] = m[0] + m[1] + m[2];
  y[1] = m[1] - m[2] + m[3];
}

// Goes on by `distance`. Else compilers keep a register, or a place on the stack, for each of
// the many addresses.
template <class Pointer>
PENLIGHT_INLINE void step(Pointer& pointer, ptrdiff_t distance) {
  pointer += distance;
  __asm__("" : "+r"(pointer));
}

struct Place {
  ptrdiff_t image, top, left;  // of the tile's first output
};

struct Span {
  ptrdiff_t first, last;
};

// Calls body(Weights()) with how weights of a format are read.
template <class Body>
PENLIGHT_INLINE void with_format(Format format, Body&& body) {
#ifndef PENLIGHT_WITHOUT_SHORT_PRODUCT
  if (format == Format::BFloat16) return body(BFloat16s());
  if (format == Format::Float16) return body(Float16s());
#endif
  body(Singles());
}

constexpr ptrdiff_t size_of(Format format) { return format == Format::Float32 ? 4 : 2; }

// Tiles of kOut x kOut outputs.
template <int kOut>
struct Tiles {
  static constexpr int kIn = kOut + 2, kPoints = kIn * kIn;
  // Channels whose weights are transformed at once: the planes of them are 288 or 256 KB.
  static constexpr ptrdiff_t kChannels = (kOut == 4 ? 128 : 256) / kGroup;

  // Elements from tile to tile of one point.
  static ptrdiff_t input_pitch(const Winograd& w) { return w.channels + (crowds(w.channels) ? kLine : 0); }
  static ptrdiff_t input_plane(const Winograd& w) { return (w.last - w.first) * input_pitch(w) + kGap; }
  static ptrdiff_t output_plane(const Winograd& w) { return (w.last - w.first) * kGroup * kPanel + kGap; }
  // Weights of one point: for each panel a row of zeros to start from, and its channels.
  static ptrdiff_t weights_plane(ptrdiff_t panels, ptrdiff_t channels) {
    return panels * (1 + channels) * kPanel;
  }

  // A tile's pixels of some channels, `some` of them left; zeros beyond the image.
  PENLIGHT_INLINE void load_tile(const Winograd& w, const float* image, ptrdiff_t pixel, ptrdiff_t top,
                                 ptrdiff_t left, ptrdiff_t some, Floats (&d)[kIn][kIn]) {
    const ptrdiff_t height = w.geometry.height, width = w.geometry.width;
    if (some >= kLanes && top >= 0 && left >= 0 && top + kIn <= height && left + kIn <= width) {
      const float* corner = image + (top * width + left) * pixel;
      for (int i = 0; i < kIn; ++i) {
        for (int j = 0; j < kIn; ++j) d[i][j] = load(corner + (i * width + j) * pixel);
      }
      return;
    }
    for (int i = 0; i < kIn; ++i) {
      for (int j = 0; j < kIn; ++j) {
        const ptrdiff_t h = top + i, x = left + j;
        const bool inside = h >= 0 && h < height && x >= 0 && x < width;
        d[i][j] = inside ? load_part(image + (h * width + x) * pixel, some) : Floats{};
      }
    }
  }

  static ptrdiff_t tiles_of(ptrdiff_t outputs) { return (outputs + kOut - 1) / kOut; }

  static Place place_of(const Winograd& w, ptrdiff_t tile) {
    const ptrdiff_t across = tiles_of(w.geometry.out_width), down = tiles_of(w.geometry.out_height);
    return {tile / (across * down), tile / across % down * kOut, tile % across * kOut};
  }

  // Weights of some panels and channels, transformed.
  static void transform_panels(const Winograd& w, Span panels, Span channels, float* to, ptrdiff_t plane) {
    with_format(w.format,
                [&](auto weights) { transform_panels<decltype(weights)>(w, panels, channels, to, plane); });
  }

  template <class Weights>
  static void transform_panels(const Winograd& w, Span panels, Span channels, float* to, ptrdiff_t plane) {
    using Element = typename Weights::Element;
    const ptrdiff_t tap = w.channels * kPanel, count = (channels.last - channels.first) * kPanel;
    for (ptrdiff_t p = panels.first; p < panels.last; ++p, to += kPanel + count) {
      const Element* from =
          static_cast<const Element*>(w.packed) + (p * (1 + 9 * w.channels) + 1 + channels.first) * kPanel;
      for (int point = 0; point < kPoints; ++point) memset(to + point * plane, 0, kPanel * sizeof(float));
      for (ptrdiff_t at = 0; at < count; at += kLanes) {
        const Element* taken = from + at;
        Floats g[3][3], columns[3][kIn];
        for (int i = 0; i < 3; ++i) {
          for (int j = 0; j < 3; ++j, step(taken, tap)) g[j][i] = Weights::load(taken);
        }
        for (int j = 0; j < 3; ++j) transform_weights(g[j], columns[j]);
        float* made = to + kPanel + at;
        for (int i = 0; i < kIn; ++i) {
          const Floats row[3] = {columns[0][i], columns[1][i], columns[2][i]};
          Floats u[kIn];
          transform_weights(row, u);
          for (int j = 0; j < kIn; ++j, step(made, plane)) store(made, u[j]);
        }
      }
    }
  }

  // Where element `at` of the file's weights lies: to fetch, not to read.
  static const float* packed_at(const Winograd& w, ptrdiff_t at) {
    return reinterpret_cast<const float*>(static_cast<const char*>(w.packed) + at * size_of(w.format));
  }

  static Floats load_packed(const Winograd& w, ptrdiff_t at) {
    Floats value;
    with_format(w.format, [&](auto weights) {
      using Weights = decltype(weights);
      value = Weights::load(static_cast<const typename Weights::Element*>(w.packed) + at);
    });
    return value;
  }

  // Outputs [first, last) of the block's tiles, from their transformed sums. False if one is
  // not finite.
  static bool finish(const Winograd& w, ptrdiff_t first, ptrdiff_t last, const float* from) {
    const Geometry& g = w.geometry;
    const float* residual = w.epilogue.residual;
    const ptrdiff_t pitch = kGroup * kPanel, plane = output_plane(w);
    const ptrdiff_t panel_size = (1 + 9 * w.channels) * kPanel;
    Ints wild{};
    for (ptrdiff_t t = w.first; t < w.last; ++t) {
      const Place place = place_of(w, t);
      const ptrdiff_t rows = min_of(kOut, g.out_height - place.top);
      const ptrdiff_t columns = min_of(kOut, g.out_width - place.left);
      const ptrdiff_t corner =
          ((place.image * g.out_height + place.top) * g.out_width + place.left) * w.outputs;
      for (ptrdiff_t n = first; n < last; n += kLanes) {
        const ptrdiff_t some = w.outputs - n;
        const Floats bias = load_packed(w, n / kPanel * panel_size + n % kPanel);
        const float* sums = from + (t - w.first) * pitch + n - first;
        Floats half[kOut][kIn];
        for (int j = 0; j < kIn; ++j) {
          Floats m[kIn], y[kOut];
          for (int i = 0; i < kIn; ++i) m[i] = load(sums + (i * kIn + j) * plane);
          transform_output(m, y);
          for (int i = 0; i < kOut; ++i) half[i][j] = y[i];
        }
        for (ptrdiff_t i = 0; i < rows; ++i) {
          const ptrdiff_t at = corner + i * g.out_width * w.outputs + n;
          Floats y[kOut];
          transform_output(half[i], y);
          for (ptrdiff_t j = 0; j < columns; ++j) {
            y[j] += bias;
            wild |= y[j] - y[j] != Floats{};
            if (residual) y[j] += load_part(residual + at + j * w.outputs, some);
          }
          activate<kOut>(w.epilogue, [&](auto j) __attribute__((always_inline)) -> Floats& { return y[j]; });
          for (ptrdiff_t j = 0; j < columns; ++j) store_part(w.output + at + j * w.outputs, y[j], some);
        }
      }
    }
    int32_t lanes[kLanes], any = 0;
    memcpy(lanes, &wild, sizeof lanes);
    for (int i = 0; i < kLanes; ++i) any |= lanes[i];
    return any == 0;
  }

  static ptrdiff_t tiles(const Winograd& w) {
    return w.batch * tiles_of(w.geometry.out_height) * tiles_of(w.geometry.out_width);
  }

  static size_t weights_size(const Winograd& w, ptrdiff_t panels) {
    return static_cast<size_t>(kPoints * weights_plane(panels, w.channels)) * sizeof(float);
  }

  static size_t tiles_size(const Winograd& w) {
    return static_cast<size_t>(kPoints * input_plane(w)) * sizeof(float);
  }

  static void weights(const Winograd& w) {
    const ptrdiff_t plane = weights_plane((w.outputs + kPanel - 1) / kPanel, w.channels);
    float* to = w.weights + weights_plane(w.first_panel, w.channels);
    transform_panels(w, {w.first_panel, w.last_panel}, {0, w.channels}, to, plane);
  }

  static void input_part(const Winograd& w, const InputPart& part, const Place& place, float* to) {
    const Geometry& g = w.geometry;
    const ptrdiff_t plane = input_plane(w), channels = w.part_channels;
    const float* image = part.input + place.image * g.height * g.width * part.pixel;
    for (ptrdiff_t c = 0; c < channels; c += kLanes) {
      Floats d[kIn][kIn], rows[kIn][kIn];
      load_tile(w, image + c, part.pixel, place.top - g.pad_h, place.left - g.pad_w, channels - c, d);
      for (int i = 0; i < kIn; ++i) transform_input(d[i], rows[i]);
      for (int j = 0; j < kIn; ++j) {
        Floats column[kIn], v[kIn];
        for (int i = 0; i < kIn; ++i) column[i] = rows[i][j];
        transform_input(column, v);
        for (int i = 0; i < kIn; ++i) store_part(to + (i * kIn + j) * plane + c, v[i], channels - c);
      }
    }
  }

  static void input(const Winograd& w, ptrdiff_t begin, ptrdiff_t end) {
    for (ptrdiff_t t = begin; t < end; ++t) {
      const Place place = place_of(w, t);
      float* to = w.tiles + (t - w.first) * input_pitch(w);
      for (ptrdiff_t p = 0; p < w.part_count; ++p, to += w.part_channels) {
        input_part(w, w.parts[p], place, to);
      }
    }
  }

  static size_t scratch(const Winograd& w) {
    const ptrdiff_t weights = w.weights ? 0 : kPoints * (weights_plane(kGroup, kChannels) + kGap);
    return static_cast<size_t>(round_up(w.last - w.first, kTileRows)) * sizeof(float*) +
           static_cast<size_t>(kPoints * output_plane(w) + weights) * sizeof(float);
  }

  static bool outputs(const Winograd& w) {
    const ptrdiff_t count = w.last - w.first, padded = round_up(count, kTileRows);
    const float** rows = static_cast<const float**>(w.scratch);
    // The rows that the last tile of the product has too many are the last once more.
    for (ptrdiff_t t = 0; t < padded; ++t) rows[t] = w.tiles + min_of(t, count - 1) * input_pitch(w);
    float* out = reinterpret_cast<float*>(rows + padded);
    float* made = out + kPoints * output_plane(w);

    Strip strip{};
    strip.rows = rows;
    strip.tile_step = kTileRows;
    strip.count = count;
    strip.taps = 1;
    strip.finish.pitch = kGroup * kPanel;
    const ptrdiff_t panel_size = (1 + 9 * w.channels) * kPanel;
    const ptrdiff_t most = w.weights ? w.channels : kChannels;
    bool tame = true;
    for (ptrdiff_t panel = w.first_panel; panel < w.last_panel; panel += kGroup) {
      const ptrdiff_t panels = min_of(kGroup, w.last_panel - panel);
      for (ptrdiff_t channel = 0; channel < w.channels; channel += most) {
        strip.channels = min_of(most, w.channels - channel);
        strip.last = channel + strip.channels == w.channels;
        strip.weights_panel = (1 + strip.channels) * kPanel;
        const float* weights = made;
        ptrdiff_t plane = weights_plane(panels, strip.channels) + kGap;
        if (w.weights) {
          weights = w.weights + weights_plane(panel, w.channels);
          plane = weights_plane((w.outputs + kPanel - 1) / kPanel, w.channels);
        } else {
          transform_panels(w, {panel, panel + panels}, {channel, channel + strip.channels}, made, plane);
        }
        // Fetched ahead are, of those transformed before, the weights of the next point; else those to
        // be transformed next, as they lie in the file, a tap at a point.
        const ptrdiff_t after = channel + most < w.channels ? channel + most : 0;
        const ptrdiff_t next = (after ? panel : panel + panels) * panel_size + (1 + after) * kPanel;
        strip.ahead_panel = w.weights ? strip.weights_panel : panel_size * size_of(w.format) / 4;
        for (int point = 0; point < kPoints; ++point) {
          strip.ahead = w.weights ? weights + (point + 1) * plane + kPanel
                                  : packed_at(w, next + point * w.channels * kPanel);
          strip.ahead_step = w.weights || point < 9 ? ahead_step(count) : 0;
          strip.first_channel = point * input_plane(w) + channel;
          // Whole panels, so that no tile has an edge.
          for (ptrdiff_t column = 0; column < panels * kPanel; column += kStripColumns) {
            const float* zeros =
                weights + point * plane + column / kPanel * strip.weights_panel + column % kPanel;
            strip.start = channel == 0 ? zeros : nullptr;
            strip.weights = zeros + kPanel;
            strip.finish.output = out + point * output_plane(w) + column;
            strip.finish.columns = min_of(kStripColumns, panels * kPanel - column);
            multiply_strip(strip);
          }
        }
      }
      tame &= finish(w, panel * kPanel, min_of((panel + panels) * kPanel, w.outputs), out);
    }
    return tame;
  }
};

template <int kOut>
constexpr WinogradRoutines kRoutines = {
    Tiles<kOut>::tiles, Tiles<kOut>::weights_size, Tiles<kOut>::tiles_size, Tiles<kOut>::weights,
    Tiles<kOut>::input, Tiles<kOut>::scratch,      Tiles<kOut>::outputs};

}  // namespace

extern const WinogradRoutines winograd_4x4 = kRoutines<4>;
extern const WinogradRoutines winograd_2x2 = kRoutines<2>;

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
