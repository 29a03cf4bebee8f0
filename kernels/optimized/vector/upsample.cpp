// Resampling of images. Bilinear: a row of the input is blended along itself once, and each row of
// the output is a blend of two such rows, whose elements lie alike whatever the order of channels.
// Nearest: rows that come from one row of the input are copies of the first of them.
#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

PENLIGHT_INLINE Floats blend(Floats a, Floats b, Floats rest) { return a * (splat(1.0f) - rest) + b * rest; }

// Columns [begin, end) of one row of the input, with some more up to a full vector.
void blend_columns(const Resample& p, const float* line, ptrdiff_t begin, ptrdiff_t end, float* to) {
  if (p.pixel == 1) {
    for (ptrdiff_t w = begin; w < end; w += kLanes) {
      store(to + w - begin, blend(gather(line, load_ints(p.columns.first + w)),
                                  gather(line, load_ints(p.columns.second + w)), load(p.columns.rest + w)));
    }
    return;
  }
  for (ptrdiff_t w = begin; w < end; ++w, to += p.pixel) {
    const float *a = line + p.columns.first[w] * p.pixel, *b = line + p.columns.second[w] * p.pixel;
    const Floats rest = splat(p.columns.rest[w]);
    ptrdiff_t c = 0;
    for (; c + kLanes <= p.pixel; c += kLanes) store(to + c, blend(load(a + c), load(b + c), rest));
    if (c < p.pixel) {
      const ptrdiff_t left = p.pixel - c;
      store_some(to + c, blend(load_some(a + c, left), load_some(b + c, left), rest), left);
    }
  }
}

void blend_rows(const float* a, const float* b, float rest, ptrdiff_t count, float* to) {
  const Floats rests = splat(rest);
  ptrdiff_t i = 0;
  for (; i + 4 * kLanes <= count; i += 4 * kLanes) {
    repeat<4>([&](auto u) __attribute__((always_inline)) {
      const ptrdiff_t at = i + u * kLanes;
      store(to + at, blend(load(a + at), load(b + at), rests));
    });
  }
  for (; i < count; i += kLanes) {
    store_part(to + i, blend(load_part(a + i, count - i), load_part(b + i, count - i), rests), count - i);
  }
}

void copy_columns(const Resample& p, const float* line, float* to) {
  if (p.pixel == 1) {
    for (ptrdiff_t w = 0; w < p.out_width; w += kLanes) {
      store_part(to + w, gather(line, load_ints(p.columns.first + w)), p.out_width - w);
    }
    return;
  }
  for (ptrdiff_t w = 0; w < p.out_width; ++w, to += p.pixel) {
    const float* from = line + p.columns.first[w] * p.pixel;
    for (ptrdiff_t c = 0; c < p.pixel; c += kLanes) {
      store_part(to + c, load_part(from + c, p.pixel - c), p.pixel - c);
    }
  }
}

void nearest(const Resample& p) {
  const ptrdiff_t in_row = p.in_width * p.pixel, out_row = p.out_width * p.pixel;
  ptrdiff_t before = -1;
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const ptrdiff_t row = r / p.out_height * p.in_height + p.rows.first[r % p.out_height];
    float* to = p.output + r * out_row;
    if (row == before) {
      memcpy(to, to - out_row, static_cast<size_t>(out_row) * sizeof(float));
    } else {
      copy_columns(p, p.input + row * in_row, to);
    }
    before = row;
  }
}

void bilinear(const Resample& p) {
  const ptrdiff_t in_row = p.in_width * p.pixel, out_row = p.out_width * p.pixel;
  const ptrdiff_t run = round_up(p.block * p.pixel, kPanel);
  for (ptrdiff_t first = p.first_row; first < p.last_row;) {
    const ptrdiff_t image = first / p.out_height;
    const ptrdiff_t last = min_of(p.last_row, (image + 1) * p.out_height);
    const float* from = p.input + image * p.in_height * in_row;
    for (ptrdiff_t begin = 0; begin < p.out_width; begin += p.block) {
      const ptrdiff_t end = min_of(begin + p.block, p.out_width);
      ptrdiff_t held[2] = {-1, -1};
      // Two neighbours are never both even or both odd.
      const auto blended = [&](ptrdiff_t y) {
        float* to = p.scratch + (y & 1) * run;
        if (held[y & 1] != y) blend_columns(p, from + y * in_row, begin, end, to);
        held[y & 1] = y;
        return to;
      };
      for (ptrdiff_t r = first; r < last; ++r) {
        const ptrdiff_t h = r - image * p.out_height;
        const float *a = blended(p.rows.first[h]), *b = blended(p.rows.second[h]);
        blend_rows(a, b, p.rows.rest[h], (end - begin) * p.pixel, p.output + r * out_row + begin * p.pixel);
      }
    }
    first = last;
  }
}

}  // namespace

void resample(const Resample& p) {
  if (p.columns.rest) {
    bilinear(p);
  } else {
    nearest(p);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
