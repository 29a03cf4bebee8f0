// Largest value and mean of each window, over channels-last images and over planes.
#include "pool.h"

#include "windows.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kNear = 1 << 16;  // elements, a quarter of a megabyte

// A NaN is larger than everything, as in PyTorch.
struct Larger {
  static constexpr float kStart = -__builtin_inff();
  PENLIGHT_INLINE Floats of(Floats most, Floats x) { return select((x > most) | (x != x), x, most); }
};

// Where there is none, which is a quarter of the work.
struct LargerNumber {
  static constexpr float kStart = -__builtin_inff();
  PENLIGHT_INLINE Floats of(Floats most, Floats x) { return at_least(x, most); }
};

struct Sum {
  static constexpr float kStart = 0.0f;
  PENLIGHT_INLINE Floats of(Floats sum, Floats x) { return sum + x; }
};

// Is everything that the windows of these rows reach finite?
bool are_finite(const MaxPool& p) {
  const Geometry& g = p.geometry;
  const ptrdiff_t line = g.width * p.pixel, last = p.last_row - 1;
  const ptrdiff_t top = p.first_row % g.out_height * g.stride_h - g.pad_h;
  const ptrdiff_t bottom = last % g.out_height * g.stride_h - g.pad_h + (g.taps_h - 1) * g.dilation_h + 1;
  const ptrdiff_t begin = p.first_row / g.out_height * g.height + min_of(max_of(top, 0), g.height);
  const ptrdiff_t end = last / g.out_height * g.height + max_of(min_of(bottom, g.height), 0);
  const float* const x = p.input + begin * line;
  const ptrdiff_t count = (end - begin) * line;
  constexpr int kSums = 8;   // so many that none waits for the one before it
  Floats zeros[kSums] = {};  // or NaN
  ptrdiff_t i = 0;
  for (; i + kSums * kLanes <= count; i += kSums * kLanes) {
    repeat<kSums>([&](auto u)
                      __attribute__((always_inline)) { zeros[u] += load(x + i + u * kLanes) * Floats{}; });
  }
  for (; i < count; i += kLanes) zeros[0] += load_part(x + i, count - i) * Floats{};
  repeat<kSums - 1>([&](auto u) __attribute__((always_inline)) { zeros[0] += zeros[u + 1]; });
  return sum_lanes(zeros[0]) == 0.0f;
}

// The taps of a window that are inside of the image, of some vectors of channels.
struct Pixels {
  const float* first;
  ptrdiff_t rows, columns, row_step, column_step;
};

// Of windows that have `taps` rows and columns inside, where that is not 0.
template <class Operation, int vectors, int taps>
PENLIGHT_INLINE void max_of_pixels(const Pixels& x, ptrdiff_t channel, float* out) {
  Floats most[vectors];
  repeat<vectors>([&](auto v) __attribute__((always_inline)) { most[v] = splat(Operation::kStart); });
  const auto take = [&](const float* from) __attribute__((always_inline)) {
    repeat<vectors>([&](auto v) __attribute__((always_inline)) {
      most[v] = Operation::of(most[v], load(from + v * kLanes));
    });
  };
  const float* row = x.first + channel;
  if constexpr (taps > 0) {
    repeat<taps>([&](auto) __attribute__((always_inline)) {
      repeat<taps>([&](auto tw) __attribute__((always_inline)) { take(row + tw * x.column_step); });
      row += x.row_step;
    });
  } else {
    for (ptrdiff_t th = 0; th < x.rows; ++th, row += x.row_step) {
      const float* from = row;
      for (ptrdiff_t tw = 0; tw < x.columns; ++tw, from += x.column_step) take(from);
    }
  }
  repeat<vectors>([&](auto v) __attribute__((always_inline)) { store(out + channel + v * kLanes, most[v]); });
}

template <class Operation>
PENLIGHT_INLINE void max_of_some(const Pixels& x, ptrdiff_t channel, ptrdiff_t some, float* out) {
  Floats most = splat(Operation::kStart);
  for (ptrdiff_t th = 0; th < x.rows; ++th) {
    const float* row = x.first + th * x.row_step + channel;
    for (ptrdiff_t tw = 0; tw < x.columns; ++tw) {
      most = Operation::of(most, load_some(row + tw * x.column_step, some));
    }
  }
  store_some(out + channel, most, some);
}

template <class Operation, int taps>
void max_of_channels(const Pixels& x, ptrdiff_t channels, float* out) {
  ptrdiff_t c = 0;
  for (; c + 4 * kLanes <= channels; c += 4 * kLanes) max_of_pixels<Operation, 4, taps>(x, c, out);
  for (; c + kLanes <= channels; c += kLanes) max_of_pixels<Operation, 1, taps>(x, c, out);
  if (c < channels) max_of_some<Operation>(x, c, channels - c, out);
}

// Channel by channel.
template <class Operation>
void max_pixels(const MaxPool& p) {
  const Geometry& g = p.geometry;
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const float* image = p.input + r / g.out_height * g.height * g.width * p.pixel;
    const ptrdiff_t top = r % g.out_height * g.stride_h - g.pad_h;
    const Taps rows = taps_inside(top, g.taps_h, g.dilation_h, g.height);
    for (ptrdiff_t w = 0; w < g.out_width; ++w) {
      const ptrdiff_t left = w * g.stride_w - g.pad_w;
      const Taps columns = taps_inside(left, g.taps_w, g.dilation_w, g.width);
      float* out = p.output + (r * g.out_width + w) * p.pixel;
      const Pixels window = {
          image +
              ((top + rows.first * g.dilation_h) * g.width + left + columns.first * g.dilation_w) * p.pixel,
          rows.last - rows.first, columns.last - columns.first, g.dilation_h * g.width * p.pixel,
          g.dilation_w * p.pixel};
      if (!kFewTiles && window.rows == 3 && window.columns == 3) {
        max_of_channels<Operation, 3>(window, p.pixel, out);
      } else {
        max_of_channels<Operation, 0>(window, p.pixel, out);
      }
    }
  }
}

// Rows that windows reach: `rows`, `pitch` elements apart, of each of `planes`.
struct Reach {
  const float* from;
  ptrdiff_t planes, plane_pitch, rows, pitch;
};

template <class Operation, int vectors>
PENLIGHT_INLINE void fold_some(const Reach& x, ptrdiff_t at, ptrdiff_t left, float* to) {
  Floats found[vectors];
  repeat<vectors>([&](auto u) __attribute__((always_inline)) { found[u] = splat(Operation::kStart); });
  for (ptrdiff_t z = 0; z < x.planes; ++z) {
    const float* from = x.from + z * x.plane_pitch + at;
    for (ptrdiff_t y = 0; y < x.rows; ++y, from += x.pitch) {
      repeat<vectors>([&](auto u) __attribute__((always_inline)) {
        found[u] = Operation::of(found[u], load_part(from + u * kLanes, left - u * kLanes));
      });
    }
  }
  repeat<vectors>([&](auto u) __attribute__((always_inline)) {
    store_part(to + at + u * kLanes, found[u], left - u * kLanes);
  });
}

// They are added up, or whatever else is done to them.
template <class Operation>
void fold_rows(const Reach& x, ptrdiff_t count, float* to) {
  ptrdiff_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) fold_some<Operation, 4>(x, i, 4 * kLanes, to);
  for (; i < count; i += kLanes) fold_some<Operation, 1>(x, i, count - i, to);
}

template <class Operation>
void max_planes(const MaxPool& p) {
  const Geometry& g = p.geometry;
  const Strided every(g.stride_w);
  pad_line(p.line, p.line_size, g.pad_w, g.width, Operation::kStart);
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const float* plane = p.input + r / g.out_height * g.height * g.width;
    const ptrdiff_t top = r % g.out_height * g.stride_h - g.pad_h;
    const Taps rows = taps_inside(top, g.taps_h, g.dilation_h, g.height);
    const float* const first = plane + (top + rows.first * g.dilation_h) * g.width;
    fold_rows<Operation>({first, 1, 0, rows.last - rows.first, g.dilation_h * g.width}, g.width,
                         p.line + g.pad_w);
    float* out = p.output + r * g.out_width;
    for (ptrdiff_t w = 0; w < g.out_width; w += kLanes) {
      const float* line = p.line + w * g.stride_w;
      Floats most = every.load_from(line);
      for (ptrdiff_t t = 1; t < g.taps_w; ++t) {
        most = Operation::of(most, every.load_from(line + t * g.dilation_w));
      }
      store_part(out + w, most, g.out_width - w);
    }
  }
}

// One row of a plane from the sums of its rows.
void average_plane(const AveragePool& p, float size, float* out) {
  const Geometry& g = p.geometry;
  const Strided every(g.stride_w);
  for (ptrdiff_t w = 0; w < g.out_width; w += kLanes) {
    const float* line = p.line + w * g.stride_w;
    Floats sum = {};
    for (ptrdiff_t t = 0; t < g.taps_w; ++t) sum += every.load_from(line + t);
    store_part(out + w, sum / (splat(size) * load(p.sizes + w)), g.out_width - w);
  }
}

// Of windows that part it.
void average_parts(const AveragePool& p, float size, float* out) {
  for (ptrdiff_t w = 0; w < p.geometry.out_width; w += kLanes) {
    const Ints first = load_ints(p.columns + w);
    const Floats sizes = load(p.sizes + w);
    Floats sum = gather(p.line, first);
    for (ptrdiff_t t = 1; t < p.most_columns; ++t) {
      const Ints has_more = splat(static_cast<float>(t)) < sizes;
      sum += select(has_more, gather(p.line + t, first), Floats{});
    }
    store_part(out + w, sum / (splat(size) * sizes), p.geometry.out_width - w);
  }
}

void average_pixels(const AveragePool& p, float size, float* out) {
  const Geometry& g = p.geometry;
  for (ptrdiff_t w = 0; w < g.out_width; ++w, out += p.pixel) {
    const Floats divisor = splat(size * p.sizes[w]);
    const float* line = p.line + (p.columns ? p.columns[w] : w * g.stride_w) * p.pixel;
    const ptrdiff_t taps = p.columns ? static_cast<ptrdiff_t>(p.sizes[w]) : g.taps_w;
    for (ptrdiff_t c = 0; c < p.pixel; c += kLanes) {
      Floats sum = {};
      for (ptrdiff_t t = 0; t < taps; ++t) sum += load(line + t * p.pixel + c);
      store_part(out + c, sum / divisor, p.pixel - c);
    }
  }
}

// What a window has of one axis, and as how much it counts.
struct Stretch {
  ptrdiff_t first, last, size;
};

Stretch stretch_of(const AveragePool& p, const Depth& axis, ptrdiff_t at) {
  if (p.columns) {
    const ptrdiff_t first = at * axis.size / axis.out,
                    last = ((at + 1) * axis.size + axis.out - 1) / axis.out;
    return {first, last, last - first};
  }
  const ptrdiff_t begin = at * axis.stride - axis.pad, end = begin + axis.taps;
  const ptrdiff_t first = max_of(begin, 0), last = min_of(end, axis.size);
  return {first, last, p.count_padding ? min_of(end, axis.size + axis.pad) - begin : last - first};
}

}  // namespace

void max_pool(const MaxPool& p) {
  // So many rows at once that what they read is still near when it is read again, and more than the lines
  // that the next ones read too.
  const Geometry& g = p.geometry;
  const ptrdiff_t row = max_of(g.stride_h * g.width * p.pixel, 1);
  const ptrdiff_t rows = max_of(kNear / row, 4 * ((g.taps_h - 1) * g.dilation_h / g.stride_h) + 1);
  MaxPool some = p;
  for (; some.first_row < p.last_row; some.first_row = some.last_row) {
    some.last_row = min_of(some.first_row + rows, p.last_row);
    if (are_finite(some)) {
      p.line ? max_planes<LargerNumber>(some) : max_pixels<LargerNumber>(some);
    } else {
      p.line ? max_planes<Larger>(some) : max_pixels<Larger>(some);
    }
  }
}

void average_pool(const AveragePool& p) {
  const Geometry& g = p.geometry;
  const Depth height = {g.height, g.out_height, g.taps_h, g.stride_h, g.pad_h, 1};
  const ptrdiff_t row = g.width * p.pixel, before = g.pad_w * p.pixel, plane = g.height * row;
  pad_line(p.line, p.line_size, before, row, Sum::kStart);
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const ptrdiff_t image = r / g.out_height;
    const Stretch rows = stretch_of(p, height, r % g.out_height);
    const Stretch planes = stretch_of(p, p.depth, image % p.depth.out);
    const float* volume = p.input + image / p.depth.out * p.depth.size * plane;
    fold_rows<Sum>({volume + planes.first * plane + rows.first * row, planes.last - planes.first, plane,
                    rows.last - rows.first, row},
                   row, p.line + before);
    const float size = p.divisor != 0.0f ? p.divisor : static_cast<float>(planes.size * rows.size);
    float* out = p.output + r * g.out_width * p.pixel;
    if (p.pixel > 1) {
      average_pixels(p, size, out);
    } else if (p.columns) {
      average_parts(p, size, out);
    } else {
      average_plane(p, size, out);
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
