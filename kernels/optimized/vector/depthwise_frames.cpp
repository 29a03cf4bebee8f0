// Depthwise windows over videos: over time as well as over images.
//
// A tile holds a few channels of as many neighbouring frames as a window reaches over, a band of
// lines and a segment of columns of each, with zeros around the image. One frame of the result
// after the other is computed from it, so each frame is copied once; it takes the place of one
// that no later window reads. Taps before the first frame and after the last are left out.
#include "depthwise.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Elements of a tile: part of the second cache, whose lines come as fast as they are used.
constexpr ptrdiff_t kTile = 48 * 1024;
constexpr ptrdiff_t kTogether = 2, kFewestColumns = 2 * kColumns;

struct Plan {
  ptrdiff_t rows, columns;         // of the result: of a band, and of a segment
  ptrdiff_t lines, width, frames;  // that the tile holds
};

ptrdiff_t reach_of(ptrdiff_t count, ptrdiff_t stride, ptrdiff_t taps, ptrdiff_t dilation) {
  return (count - 1) * stride + (taps - 1) * dilation + 1;
}

Plan plan_of(const DepthwiseFrames& v) {
  const Geometry& g = v.image.geometry;
  const auto lines_of = [&](ptrdiff_t rows) { return reach_of(rows, g.stride_h, g.taps_h, g.dilation_h); };
  const auto width_of = [&](ptrdiff_t columns) {
    return reach_of(columns, g.stride_w, g.taps_w, g.dilation_w);
  };
  Plan plan{};
  plan.frames = min_of(reach_of(1, 1, v.taps, v.dilation), v.frames);
  const ptrdiff_t pixels = kTile / kBlock / plan.frames;
  plan.rows = min_of(kTogether, g.out_height);
  ptrdiff_t segments = 1;
  do {
    plan.columns = round_up((g.out_width + segments - 1) / segments, kColumns);
    ++segments;
  } while (plan.columns > kFewestColumns && width_of(plan.columns) > pixels / lines_of(plan.rows));
  plan.width = width_of(plan.columns);
  const ptrdiff_t room = (pixels / plan.width - lines_of(1)) / g.stride_h + 1;
  plan.rows = max_of(plan.rows, min_of(room, g.out_height));
  plan.lines = lines_of(plan.rows);
  return plan;
}

struct Tile {
  Plan plan;
  const float** frames;                  // those that one window reads
  float* weights;                        // bias, then taps
  float* pixels;                         // plan.frames of plan.lines of plan.width, kBlock channels each
  ptrdiff_t channel;                     // the first of them
  ptrdiff_t row, rows, column, columns;  // of the result
};

ptrdiff_t taps_of(const DepthwiseFrames& v) {
  return v.taps * v.image.geometry.taps_h * v.image.geometry.taps_w;
}

// The band of one frame.
void copy_frame(const DepthwiseFrames& v, const Tile& tile, const float* frame, float* to) {
  const Geometry& g = v.image.geometry;
  const ptrdiff_t top = tile.row * g.stride_h - g.pad_h, left = tile.column * g.stride_w - g.pad_w;
  const ptrdiff_t width = tile.plan.width, pixel = pixel_of(v.image);
  const ptrdiff_t first = min_of(max_of(-left, 0), width);
  const ptrdiff_t last = max_of(min_of(g.width - left, width), first);
  const ptrdiff_t lines = reach_of(tile.rows, g.stride_h, g.taps_h, g.dilation_h);
  for (ptrdiff_t y = top; y < top + lines; ++y, to += width * kBlock) {
    if (y < 0 || y >= g.height || first == last) {
      clear(to, width);
      continue;
    }
    clear(to, first);
    copy_block(v.image, frame + (y * g.width + left + first) * pixel, last - first, tile.channel,
               to + first * kBlock);
    clear(to + last * kBlock, width - last);
  }
}

// Adds `rows` times kColumns windows to `sums`. Neighbours are `pixel` and `line` elements apart,
// weights of neighbouring taps `tap`. Each line is loaded once for all rows whose windows it lies
// in, and nothing is asked on the way.
template <int taps, int stride, int rows>
PENLIGHT_INLINE void add_windows(const float* corner, ptrdiff_t pixel, ptrdiff_t line, const float* weights,
                                 ptrdiff_t tap, Floats (&sums)[rows][kColumns]) {
  constexpr int inputs = (kColumns - 1) * stride + taps, lines = (rows - 1) * stride + taps;
  repeat<lines>([&](auto i) __attribute__((always_inline)) {
    const float* from = corner + i * line;
    Floats x[inputs];
    repeat<inputs>([&](auto u) __attribute__((always_inline)) {
      x[u] = load(from + u * pixel);
      keep_in_register(x[u]);
    });
    repeat<rows>([&](auto r) __attribute__((always_inline)) {
      constexpr int th = decltype(i)() - decltype(r)() * stride;
      if constexpr (th >= 0 && th < taps) {
        repeat<taps>([&](auto tw) __attribute__((always_inline)) {
          const Floats weight = load(weights + (th * taps + tw) * tap);
          repeat<kColumns>([&](auto j)
                               __attribute__((always_inline)) { sums[r][j] += x[j * stride + tw] * weight; });
        });
      }
    });
  });
}

// Of frame `out` of all videos of the result, `rows` rows of the tile from `row` on, by the
// frames of taps [first, last). `taps` and `stride` are those of an image, or 0 for any.
template <int rows, int taps, int stride>
__attribute__((noinline)) void some_rows(const DepthwiseFrames& v, const Tile& tile, ptrdiff_t out,
                                         ptrdiff_t row, ptrdiff_t first, ptrdiff_t last) {
  const Depthwise& p = v.image;
  const Geometry& g = p.geometry;
  const ptrdiff_t line = tile.plan.width * kBlock, pixel = kBlock, window = g.taps_h * g.taps_w * kBlock;
  const ptrdiff_t out_size = g.out_width * p.channels;
  for (ptrdiff_t group = 0; group < tile.columns; group += kColumns) {
    // The last few columns are computed with some before them once more, to the same values.
    const ptrdiff_t column = max_of(min_of(group, tile.columns - kColumns), 0);
    const ptrdiff_t corner = row * g.stride_h * line + column * g.stride_w * pixel;
    const ptrdiff_t wide = min_of(tile.columns - column, kColumns);
    for (ptrdiff_t c = 0; c < kBlock && tile.channel + c < p.last_channel; c += kLanes) {
      Floats sums[rows][kColumns];
      const Floats bias = load(tile.weights + c);
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        repeat<kColumns>([&](auto j) __attribute__((always_inline)) { sums[r][j] = bias; });
      });
      const float* weights = tile.weights + kBlock + first * window + c;
      for (ptrdiff_t t = first; t < last; ++t, weights += window) {
        const float* from = tile.frames[t] + corner + c;
        if constexpr (taps > 0) {
          add_windows<taps, stride, rows>(from, pixel, line, weights, kBlock, sums);
          continue;
        }
        const float* at = weights;
        for (ptrdiff_t th = 0; th < g.taps_h; ++th, from += g.dilation_h * line) {
          for (ptrdiff_t tw = 0; tw < g.taps_w; ++tw, at += kBlock) {
            const Floats weight = load(at);
            const float* x = from + tw * g.dilation_w * pixel;
            repeat<rows>([&](auto r) __attribute__((always_inline)) {
              repeat<kColumns>([&](auto j) __attribute__((always_inline)) {
                sums[r][j] += load(x + r * g.stride_h * line + j * g.stride_w * pixel) * weight;
              });
            });
          }
        }
      }
      const ptrdiff_t left = p.last_channel - tile.channel - c;
      repeat<rows>([&](auto r) __attribute__((always_inline)) {
        const ptrdiff_t at = out * g.out_height + tile.row + row + r;
        ptrdiff_t to = at * out_size + (tile.column + column) * p.channels + tile.channel + c;
        const float* residual = p.epilogue.residual ? p.epilogue.residual + to : nullptr;
        if (wide == kColumns) {
          finish<kColumns>(p.epilogue, residual, p.output + to, p.channels, left, sums[r]);
          return;
        }
        for (ptrdiff_t j = 0; j < wide; ++j, to += p.channels) {
          Floats one[1] = {sums[r][j]};
          finish<1>(p.epilogue, residual ? residual + j * p.channels : nullptr, p.output + to, p.channels,
                    left, one);
        }
      });
    }
  }
}

template <int taps, int stride>
void all_rows(const DepthwiseFrames& v, const Tile& tile, ptrdiff_t out, ptrdiff_t first, ptrdiff_t last) {
  ptrdiff_t row = 0;
  for (; row + kTogether <= tile.rows; row += kTogether) {
    some_rows<kTogether, taps, stride>(v, tile, out, row, first, last);
  }
  if (row < tile.rows) some_rows<1, taps, stride>(v, tile, out, row, first, last);
}

// The first tap of a window, `dilation` frames apart, that reaches frame `frame` from `from`.
ptrdiff_t tap_at(ptrdiff_t frame, ptrdiff_t from, const DepthwiseFrames& v) {
  return from >= frame ? 0 : min_of((frame - from + v.dilation - 1) / v.dilation, v.taps);
}

// All frames of one video, of the tile's channels, rows and columns.
void segment(const DepthwiseFrames& v, const Tile& tile, ptrdiff_t video) {
  const Geometry& g = v.image.geometry;
  const ptrdiff_t frame = g.height * g.width * pixel_of(v.image);
  const ptrdiff_t room = tile.plan.lines * tile.plan.width * kBlock;
  const bool usual = kUnrolled && has_code(g.taps_w, g.stride_w) && g.taps_h == g.taps_w &&
                     g.stride_h == g.stride_w && g.dilation_h == 1 && g.dilation_w == 1;
  const bool is_3 = g.taps_w == 3, is_1 = g.stride_w == 1;
  const auto compute = !usual ? all_rows<0, 0>
                       : is_3 ? (is_1 ? all_rows < kUnrolled ? 3 : 0,
                                 1 >
                             : all_rows < kUnrolled ? 3
                                                    : 0,
                                 2 >)
                              : (is_1 ? all_rows < kUnrolled ? 5 : 0,
                                 1 >
                             : all_rows < kUnrolled ? 5
                                                    : 0,
                                 2 >);
  ptrdiff_t have = 0;  // the frame after the last that was copied
  for (ptrdiff_t out = 0; out < v.out_frames; ++out) {
    const ptrdiff_t from = out * v.stride - v.pad;
    const ptrdiff_t first = tap_at(0, from, v), last = max_of(first, tap_at(v.frames, from, v));
    have = max_of(have, from);  // later windows may read what this one reads nothing of
    for (ptrdiff_t t = first; t < last; ++t) {
      const ptrdiff_t at = from + t * v.dilation;
      for (; have <= at; ++have) {
        const float* image = v.image.input + (video * v.frames + have) * frame;
        copy_frame(v, tile, image, tile.pixels + have % tile.plan.frames * room);
      }
      tile.frames[t] = tile.pixels + at % tile.plan.frames * room;
    }
    compute(v, tile, video * v.out_frames + out, first, last);
  }
}

// A vector of channels of one pixel of the result after the other, taps outside left out.
template <bool spread>
void by_pixels(const DepthwiseFrames& v, const Tile& tile, ptrdiff_t video) {
  const Depthwise& p = v.image;
  const Geometry& g = p.geometry;
  const ptrdiff_t padded = round_up(p.channels, kPanel), pixel = pixel_of(p);
  const ptrdiff_t end = min_of(p.last_channel, tile.channel + kBlock);
  for (ptrdiff_t out = 0; out < v.out_frames; ++out) {
    for (ptrdiff_t row = p.first_row; row < p.last_row; ++row) {
      for (ptrdiff_t column = 0; column < g.out_width; ++column) {
        for (ptrdiff_t c = tile.channel; c < end; c += kLanes) {
          Source source;
          if constexpr (spread) source = source_of(p, c);
          Floats sums[1] = {load(p.packed + c)};
          const float* weights = p.packed + padded + c;
          for (ptrdiff_t t = 0; t < v.taps; ++t) {
            const ptrdiff_t frame = out * v.stride - v.pad + t * v.dilation;
            for (ptrdiff_t i = 0; i < g.taps_h * g.taps_w; ++i, weights += padded) {
              const ptrdiff_t y = row * g.stride_h - g.pad_h + i / g.taps_w * g.dilation_h;
              const ptrdiff_t x = column * g.stride_w - g.pad_w + i % g.taps_w * g.dilation_w;
              const bool inside =
                  frame >= 0 && frame < v.frames && y >= 0 && y < g.height && x >= 0 && x < g.width;
              if (!inside) continue;
              const float* at = p.input + (((video * v.frames + frame) * g.height + y) * g.width + x) * pixel;
              if constexpr (spread) {
                sums[0] += load_spread(at, source) * load(weights);
              } else {
                sums[0] += load_part(at + c, end - c) * load(weights);
              }
            }
          }
          const ptrdiff_t place = ((video * v.out_frames + out) * g.out_height + row) * g.out_width + column;
          const ptrdiff_t to = place * p.channels + c;
          finish<1>(p.epilogue, p.epilogue.residual ? p.epilogue.residual + to : nullptr, p.output + to,
                    p.channels, end - c, sums);
        }
      }
    }
  }
}

}  // namespace

size_t depthwise_frames_scratch(const DepthwiseFrames& v) {
  const Plan plan = plan_of(v);
  const size_t elements =
      static_cast<size_t>((1 + taps_of(v) + plan.frames * plan.lines * plan.width) * kBlock);
  return elements * sizeof(float) + static_cast<size_t>(v.taps) * sizeof(float*);
}

void depthwise_frames(const DepthwiseFrames& v) {
  const Depthwise& p = v.image;
  const ptrdiff_t taps = taps_of(v);
  Tile tile{};
  tile.plan = plan_of(v);
  tile.weights = p.tile;
  tile.pixels = p.tile + (1 + taps) * kBlock;
  tile.frames = reinterpret_cast<const float**>(tile.pixels + tile.plan.frames * tile.plan.lines *
                                                                  tile.plan.width * kBlock);
  for (tile.channel = p.first_channel; tile.channel < p.last_channel; tile.channel += kBlock) {
    const bool finite = copy_weights(p, tile.channel, taps, tile.weights);
    for (ptrdiff_t video = 0; video < v.videos; ++video) {
      if (!finite) {
        if (p.multiplier > 1) {
          by_pixels<true>(v, tile, video);
        } else {
          by_pixels<false>(v, tile, video);
        }
        continue;
      }
      for (tile.row = p.first_row; tile.row < p.last_row; tile.row += tile.rows) {
        tile.rows = min_of(tile.plan.rows, p.last_row - tile.row);
        for (tile.column = 0; tile.column < p.geometry.out_width; tile.column += tile.columns) {
          tile.columns = min_of(tile.plan.columns, p.geometry.out_width - tile.column);
          segment(v, tile, video);
        }
      }
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
