// The largest value of each window and where it is, over channels-last images and over planes and volumes.
#include "pool.h"
#include "windows.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr float kLeast = -__builtin_inff();

// The first of the largest values, but the last NaN.
PENLIGHT_INLINE void take_larger(Floats x, Ints place, Floats& most, Ints& at) {
  const Ints is_larger = (x > most) | (x != x);
  most = select(is_larger, x, most);
  at = is_larger ? place : at;
}

// The taps along one axis of the windows at `place`, in elements of the input.
struct Inside {
  ptrdiff_t first, count;
};

Inside inside(ptrdiff_t place, ptrdiff_t stride, ptrdiff_t pad, ptrdiff_t taps, ptrdiff_t dilation,
              ptrdiff_t size) {
  const ptrdiff_t begin = place * stride - pad;
  const Taps found = taps_inside(begin, taps, dilation, size);
  return {begin + found.first * dilation, found.last - found.first};
}

// The windows of one row, from one row of the input.
void take_line(const MaxPlaces& p, const Strided& every, ptrdiff_t place) {
  const Geometry& g = p.geometry;
  for (ptrdiff_t w = 0; w < g.out_width; w += kLanes) {
    const float* line = p.line + w * g.stride_w;
    Ints at = load_ints(p.at + w);
    Floats most = load(p.most + w);
    Ints places = every.places + splat_int(static_cast<int32_t>(place + w * g.stride_w));
    for (ptrdiff_t t = 0; t < g.taps_w; ++t) {
      take_larger(every.load_from(line + t * g.dilation_w), places, most, at);
      places += splat_int(static_cast<int32_t>(g.dilation_w));
    }
    store(p.most + w, most);
    memcpy(p.at + w, &at, sizeof at);
  }
}

void places_in_planes(const MaxPlaces& p) {
  const Geometry& g = p.geometry;
  const Depth& d = p.depth;
  const Strided every(g.stride_w);
  pad_line(p.line, p.line_size, g.pad_w, g.width, kLeast);
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const ptrdiff_t plane = r / g.out_height;
    const Inside rows = inside(r % g.out_height, g.stride_h, g.pad_h, g.taps_h, g.dilation_h, g.height);
    const Inside planes = inside(plane % d.out, d.stride, d.pad, d.taps, d.dilation, d.size);
    const float* const volume = p.input + plane / d.out * d.size * g.height * g.width;
    const ptrdiff_t first = (planes.first * g.height + rows.first) * g.width;
    for (ptrdiff_t w = 0; w < g.out_width; w += kLanes) {
      const Ints at = load_ints(p.columns + w) + splat_int(static_cast<int32_t>(first));
      memcpy(p.at + w, &at, sizeof at);
      store(p.most + w, splat(kLeast));
    }
    for (ptrdiff_t z = 0; z < planes.count; ++z) {
      for (ptrdiff_t y = 0; y < rows.count; ++y) {
        const ptrdiff_t place = first + (z * d.dilation * g.height + y * g.dilation_h) * g.width;
        for (ptrdiff_t i = 0; i < g.width; i += kLanes) {
          store_part(p.line + g.pad_w + i, load_part(volume + place + i, g.width - i), g.width - i);
        }
        take_line(p, every, place - g.pad_w);
      }
    }
    for (ptrdiff_t w = 0; w < g.out_width; w += kLanes) {
      store_part(p.output + r * g.out_width + w, load(p.most + w), g.out_width - w);
      store_as_longs(p.places + r * g.out_width + w, load_ints(p.at + w), g.out_width - w);
    }
  }
}

void places_in_pixels(const MaxPlaces& p) {
  const Geometry& g = p.geometry;
  for (ptrdiff_t r = p.first_row; r < p.last_row; ++r) {
    const float* const image = p.input + r / g.out_height * g.height * g.width * p.pixel;
    const Inside rows = inside(r % g.out_height, g.stride_h, g.pad_h, g.taps_h, g.dilation_h, g.height);
    for (ptrdiff_t w = 0; w < g.out_width; ++w) {
      const Inside columns = inside(w, g.stride_w, g.pad_w, g.taps_w, g.dilation_w, g.width);
      const ptrdiff_t first = rows.first * g.width + columns.first, to = (r * g.out_width + w) * p.pixel;
      for (ptrdiff_t c = 0; c < p.pixel; c += kLanes) {
        Floats most = splat(kLeast);
        Ints at = splat_int(static_cast<int32_t>(first));
        for (ptrdiff_t y = 0; y < rows.count; ++y) {
          for (ptrdiff_t x = 0; x < columns.count; ++x) {
            const ptrdiff_t place = first + y * g.dilation_h * g.width + x * g.dilation_w;
            take_larger(load_part(image + place * p.pixel + c, p.pixel - c),
                        splat_int(static_cast<int32_t>(place)), most, at);
          }
        }
        store_part(p.output + to + c, most, p.pixel - c);
        store_as_longs(p.places + to + c, at, p.pixel - c);
      }
    }
  }
}

}  // namespace

void max_places(const MaxPlaces& p) { p.line ? places_in_planes(p) : places_in_pixels(p); }

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
