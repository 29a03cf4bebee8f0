// Largest value and mean of each window, over channels-last images and over planes.
#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kNear = 1 << 16;  // elements, a quarter of a megabyte

// The taps of one axis that lie inside the input.
struct Taps {
  ptrdiff_t first, last;
};

Taps taps_inside(ptrdiff_t begin, ptrdiff_t taps, ptrdiff_t dilation, ptrdiff_t size) {
  Taps inside;
  inside.first = begin >= 0 ? 0 : (-begin + dilation - 1) / dilation;
  inside.last = begin >= size ? 0 : (size - begin + dilation - 1) / dilation;
  if (inside.last > taps) inside.last = taps;
  return inside;
}

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
  Floats zeros[4] = {};  // or NaN
  for (ptrdiff_t i = 0; i < count; i += 4 * kLanes) {
    repeat<4>([&](auto u) __attribute__((always_inline)) {
      const ptrdiff_t left = count - i - u * kLanes;
      zeros[u] += load_part(x + i + u * kLanes, max_of(left, 0)) * Floats{};
    });
  }
  return sum_lanes(zeros[0] + zeros[1] + zeros[2] + zeros[3]) == 0.0f;
}

// The taps of a window that are inside of the image, of some vectors of channels.
struct Pixels {
  const float* first;
  ptrdiff_t rows, columns, row_step, column_step;
};

template <class Operation, int vectors>
PENLIGHT_INLINE void max_of_pixels(const Pixels& x, ptrdiff_t channel, float* out) {
  Floats most[vectors];
  repeat<vectors>([&](auto v) __attribute__((always_inline)) { most[v] = splat(Operation::kStart); });
  const float* row = x.first + channel;
  for (ptrdiff_t th = 0; th < x.rows; ++th, row += x.row_step) {
    const float* from = row;
    for (ptrdiff_t tw = 0; tw < x.columns; ++tw, from += x.column_step) {
      repeat<vectors>([&](auto v) __attribute__((always_inline)) {
        most[v] = Operation::of(most[v], load(from + v * kLanes));
      });
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
      ptrdiff_t c = 0;
      for (; c + 4 * kLanes <= p.pixel; c += 4 * kLanes) max_of_pixels<Operation, 4>(window, c, out);
      for (; c + kLanes <= p.pixel; c += kLanes) max_of_pixels<Operation, 1>(window, c, out);
      if (c < p.pixel) max_of_some<Operation>(window, c, p.pixel - c, out);
    }
  }
}

// `rows` rows, `pitch` elements apart, added up or whatever else is done to them.
template <class Operation>
void fold_rows(const float* from, ptrdiff_t rows, ptrdiff_t pitch, ptrdiff_t count, float* to) {
  const Floats start = splat(Operation::kStart);
  ptrdiff_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    Floats found[4] = {start, start, start, start};
    for (ptrdiff_t y = 0; y < rows; ++y) {
      repeat<4>([&](auto u) __attribute__((always_inline)) {
        found[u] = Operation::of(found[u], load(from + y * pitch + i + u * kLanes));
      });
    }
    repeat<4>([&](auto u) __attribute__((always_inline)) { store(to + i + u * kLanes, found[u]); });
  }
  for (; i < count; i += kLanes) {
    Floats found = start;
    for (ptrdiff_t y = 0; y < rows; ++y) {
      found = Operation::of(found, load_part(from + y * pitch + i, count - i));
    }
    store_part(to + i, found, count - i);
  }
}

// What is around the rows that fold_rows() puts into a line.
void pad_line(float* line, ptrdiff_t size, ptrdiff_t before, ptrdiff_t count, float value) {
  for (ptrdiff_t i = 0; i < before; ++i) line[i] = value;
  for (ptrdiff_t i = before + count; i < size; ++i) line[i] = value;
}

struct Even {
  static constexpr int of(int lane) { return 2 * lane; }
};

// Every `stride`th element.
class Strided {
 public:
  explicit Strided(ptrdiff_t stride) : stride_(stride) {
    int32_t steps[kLanes];
    for (int32_t i = 0; i < kLanes; ++i) steps[i] = i * static_cast<int32_t>(stride);
    places_ = load_ints(steps);
  }
  __attribute__((always_inline)) Floats load_from(const float* line) const {
    if (stride_ == 1) return load(line);
    if (stride_ == 2) return shuffle<Even>(load(line), load(line + kLanes));
    return gather(line, places_);
  }

 private:
  ptrdiff_t stride_;
  Ints places_;
};

template <class Operation>
void max_planes(const MaxPool& p) {
  const Geometry& g = p.geometry;
  const Strided every(g.stride_w);
  pad_line(p.line, p.line_size, g.pad_w, g.width, Operation::kStart);
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const float* plane = p.input + r / g.out_height * g.height * g.width;
    const ptrdiff_t top = r % g.out_height * g.stride_h - g.pad_h;
    const Taps rows = taps_inside(top, g.taps_h, g.dilation_h, g.height);
    fold_rows<Operation>(plane + (top + rows.first * g.dilation_h) * g.width, rows.last - rows.first,
                         g.dilation_h * g.width, g.width, p.line + g.pad_w);
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

void average_pixels(const AveragePool& p, float size, float* out) {
  const Geometry& g = p.geometry;
  for (ptrdiff_t w = 0; w < g.out_width; ++w, out += p.pixel) {
    const Floats divisor = splat(size * p.sizes[w]);
    const float* line = p.line + w * g.stride_w * p.pixel;
    for (ptrdiff_t c = 0; c < p.pixel; c += kLanes) {
      Floats sum = {};
      for (ptrdiff_t t = 0; t < g.taps_w; ++t) sum += load(line + t * p.pixel + c);
      store_part(out + c, sum / divisor, p.pixel - c);
    }
  }
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
  const ptrdiff_t row = g.width * p.pixel, before = g.pad_w * p.pixel;
  pad_line(p.line, p.line_size, before, row, Sum::kStart);
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const float* image = p.input + r / g.out_height * g.height * row;
    const ptrdiff_t top = r % g.out_height * g.stride_h - g.pad_h;
    const ptrdiff_t first = max_of(top, 0), last = min_of(top + g.taps_h, g.height);
    fold_rows<Sum>(image + first * row, last - first, row, row, p.line + before);
    const ptrdiff_t rows = p.count_padding ? min_of(top + g.taps_h, g.height + g.pad_h) - top : last - first;
    const float size = p.divisor != 0.0f ? p.divisor : static_cast<float>(rows);
    float* out = p.output + r * g.out_width * p.pixel;
    if (p.pixel == 1) {
      average_plane(p, size, out);
    } else {
      average_pixels(p, size, out);
    }
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
