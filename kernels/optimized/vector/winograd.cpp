// 3x3 convolution with stride 1 in the domain of Winograd's minimal filtering F(4x4, 3x3)
// (Lavin & Gray 2015, arXiv:1509.09308, interpolation points 0, 1, -1, 2, -2, infinity).
//
// An input tile of 6x6 pixels, transformed, is 36 numbers for each channel, and so are the
// weights. Where a direct sum needs 144 products for the 16 outputs of a tile, 36 do. The
// products of many tiles are 36 matrix products, which product.cpp computes. Tiles are
// taken in blocks whose transforms stay in the second cache.
//
// Outputs differ from a direct sum by about 1e-5 of their range. A NaN, an infinity or a
// sum near the largest float would reach all outputs of its tile: the caller is told,
// and computes directly.
#include "epilogue.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

void product(const Product& product);
size_t product_scratch(const Product& product);

namespace {

constexpr int kIn = 6, kOut = 4, kPoints = kIn * kIn;
constexpr ptrdiff_t kTiles = 48;
// Elements between the ends of planes: a multiple of 4 KB from plane to plane would put
// what is written for one tile into one set of the first cache.
constexpr ptrdiff_t kGap = 16;

// The three one-dimensional transforms; `step` elements lie between the inputs.
PENLIGHT_INLINE void transform_weights(const Floats (&g)[3], Floats (&u)[kIn]) {
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

PENLIGHT_INLINE void transform_input(const Floats (&d)[kIn], Floats (&v)[kIn]) {
  const Floats a = d[4] - splat(4.0f) * d[2], b = d[3] - splat(4.0f) * d[1];
  const Floats c = d[4] - d[2], e = splat(2.0f) * (d[3] - d[1]);
  v[0] = splat(4.0f) * d[0] - splat(5.0f) * d[2] + d[4];
  v[1] = a + b;
  v[2] = a - b;
  v[3] = c + e;
  v[4] = c - e;
  v[5] = splat(4.0f) * d[1] - splat(5.0f) * d[3] + d[5];
}

PENLIGHT_INLINE void transform_output(const Floats (&m)[kIn], Floats (&y)[kOut]) {
  const Floats a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[4], d = m[3] - m[4];
  y[0] = m[0] + a + c;
  y[1] = b + splat(2.0f) * d;
  y[2] = a + splat(4.0f) * c;
  y[3] = b + splat(8.0f) * d + m[5];
}

ptrdiff_t outputs_pitch(const Winograd& w) { return round_up(w.outputs, kPanel); }
ptrdiff_t input_plane(const Winograd& w) { return kTiles * w.channels + kGap; }
ptrdiff_t output_plane(const Winograd& w) { return kTiles * outputs_pitch(w) + kGap; }

// A tile's 36 pixels of some channels; zeros beyond the image.
PENLIGHT_INLINE void load_tile(const Winograd& w, const float* image, ptrdiff_t top, ptrdiff_t left,
                               ptrdiff_t channel, Floats (&d)[kIn][kIn]) {
  const ptrdiff_t some = w.channels - channel, height = w.geometry.height, width = w.geometry.width;
  for (int i = 0; i < kIn; ++i) {
    for (int j = 0; j < kIn; ++j) {
      const ptrdiff_t h = top + i, x = left + j;
      const bool inside = h >= 0 && h < height && x >= 0 && x < width;
      d[i][j] = inside ? load_part(image + (h * width + x) * w.channels + channel, some) : Floats{};
    }
  }
}

ptrdiff_t tiles_of(ptrdiff_t outputs) { return (outputs + kOut - 1) / kOut; }

struct Place {
  ptrdiff_t image, top, left;  // of the tile's first output
};

Place place_of(const Winograd& w, ptrdiff_t tile) {
  const ptrdiff_t across = tiles_of(w.geometry.out_width), down = tiles_of(w.geometry.out_height);
  return {tile / (across * down), tile / across % down * kOut, tile % across * kOut};
}

void input_of_block(const Winograd& w, ptrdiff_t first, ptrdiff_t count, float* to) {
  const Geometry& g = w.geometry;
  const ptrdiff_t plane = input_plane(w);
  for (ptrdiff_t t = 0; t < count; ++t) {
    const Place place = place_of(w, first + t);
    const float* image = w.input + place.image * g.height * g.width * w.channels;
    for (ptrdiff_t c = 0; c < w.channels; c += kLanes) {
      Floats d[kIn][kIn], rows[kIn][kIn];
      load_tile(w, image, place.top - g.pad_h, place.left - g.pad_w, c, d);
      for (int i = 0; i < kIn; ++i) transform_input(d[i], rows[i]);
      for (int j = 0; j < kIn; ++j) {
        const Floats column[kIn] = {rows[0][j], rows[1][j], rows[2][j], rows[3][j], rows[4][j], rows[5][j]};
        Floats v[kIn];
        transform_input(column, v);
        for (int i = 0; i < kIn; ++i) {
          store_part(to + (i * kIn + j) * plane + t * w.channels + c, v[i], w.channels - c);
        }
      }
    }
  }
}

template <Activation activation>
bool output_of_block(const Winograd& w, ptrdiff_t first, ptrdiff_t count, const float* from) {
  const Geometry& g = w.geometry;
  const Bounds bounds = {splat(w.epilogue.low), splat(w.epilogue.high)};
  const float* residual = w.epilogue.residual;
  const ptrdiff_t pitch = outputs_pitch(w), plane = output_plane(w);
  const ptrdiff_t panel_size = (1 + 9 * w.channels) * kPanel;
  Ints wild{};
  for (ptrdiff_t t = 0; t < count; ++t) {
    const Place place = place_of(w, first + t);
    const ptrdiff_t rows = min_of(kOut, g.out_height - place.top);
    const ptrdiff_t columns = min_of(kOut, g.out_width - place.left);
    const ptrdiff_t corner =
        ((place.image * g.out_height + place.top) * g.out_width + place.left) * w.outputs;
    for (ptrdiff_t n = 0; n < w.outputs; n += kLanes) {
      const ptrdiff_t some = w.outputs - n;
      const Floats bias = load(w.packed + n / kPanel * panel_size + n % kPanel);
      Floats half[kOut][kIn];
      for (int j = 0; j < kIn; ++j) {
        Floats m[kIn], y[kOut];
        for (int i = 0; i < kIn; ++i) m[i] = load(from + (i * kIn + j) * plane + t * pitch + n);
        transform_output(m, y);
        for (int i = 0; i < kOut; ++i) half[i][j] = y[i];
      }
      for (ptrdiff_t i = 0; i < rows; ++i) {
        Floats y[kOut];
        transform_output(half[i], y);
        for (ptrdiff_t j = 0; j < columns; ++j) {
          const ptrdiff_t at = corner + (i * g.out_width + j) * w.outputs + n;
          Floats sum = y[j] + bias;
          wild |= sum - sum != Floats{};
          if (residual) sum += load_part(residual + at, some);
          store_part(w.output + at, activated<activation>(sum, bounds), some);
        }
      }
    }
  }
  int32_t lanes[kLanes], any = 0;
  memcpy(lanes, &wild, sizeof lanes);
  for (int i = 0; i < kLanes; ++i) any |= lanes[i];
  return any == 0;
}

// Whole panels, so that no tile of the product has an edge.
Product product_of(const Winograd& w, ptrdiff_t rows) {
  return over_matrix(rows, w.channels, w.channels, outputs_pitch(w), outputs_pitch(w));
}

}  // namespace

size_t winograd_weights_size(const Winograd& w) {
  const ptrdiff_t panels = (w.outputs + kPanel - 1) / kPanel;
  return static_cast<size_t>(kPoints * panels * (1 + w.channels) * kPanel) * sizeof(float);
}

void winograd_weights(const Winograd& w) {
  const ptrdiff_t panels = (w.outputs + kPanel - 1) / kPanel, tap = w.channels * kPanel;
  const ptrdiff_t plane = panels * (1 + w.channels) * kPanel;
  for (ptrdiff_t p = w.first; p < w.last; ++p) {
    const float* from = w.packed + (p * (1 + 9 * w.channels) + 1) * kPanel;
    float* to = w.weights + p * (1 + w.channels) * kPanel;
    for (int point = 0; point < kPoints; ++point) memset(to + point * plane, 0, kPanel * sizeof(float));
    to += kPanel;
    for (ptrdiff_t at = 0; at < tap; at += kLanes) {
      Floats rows[3][kIn];
      for (int i = 0; i < 3; ++i) {
        const Floats g[3] = {load(from + (3 * i) * tap + at), load(from + (3 * i + 1) * tap + at),
                             load(from + (3 * i + 2) * tap + at)};
        transform_weights(g, rows[i]);
      }
      for (int j = 0; j < kIn; ++j) {
        const Floats g[3] = {rows[0][j], rows[1][j], rows[2][j]};
        Floats u[kIn];
        transform_weights(g, u);
        for (int i = 0; i < kIn; ++i) store(to + (i * kIn + j) * plane + at, u[i]);
      }
    }
  }
}

ptrdiff_t winograd_tiles(const Winograd& w) {
  return w.batch * tiles_of(w.geometry.out_height) * tiles_of(w.geometry.out_width);
}

size_t winograd_scratch(const Winograd& w) {
  return product_scratch(product_of(w, kTiles)) +
         static_cast<size_t>(kPoints * (input_plane(w) + output_plane(w))) * sizeof(float);
}

bool winograd(const Winograd& w) {
  float* in = static_cast<float*>(w.scratch);
  float* out = in + kPoints * input_plane(w);
  const ptrdiff_t panels = (w.outputs + kPanel - 1) / kPanel;
  bool tame = true;
  for (ptrdiff_t first = w.first; first < w.last; first += kTiles) {
    const ptrdiff_t count = min_of(kTiles, w.last - first);
    input_of_block(w, first, count, in);
    Product p = product_of(w, count);
    p.scratch = out + kPoints * output_plane(w);
    for (int point = 0; point < kPoints; ++point) {
      p.input = in + point * input_plane(w);
      p.packed = w.weights + point * panels * (1 + w.channels) * kPanel;
      p.output = out + point * output_plane(w);
      product(p);
    }
    with_activation(w.epilogue.activation, [&](auto which) {
      constexpr Activation chosen = static_cast<Activation>(static_cast<int>(decltype(which)()));
      tame &= output_of_block<chosen>(w, first, count, out);
    });
  }
  return tame;
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
