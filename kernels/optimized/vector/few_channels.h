// Lines of an image of few channels, copied with the padding around them: what a window reads for one
// output lies a fixed distance from what it reads for the next, at every step of the sum.
#pragma once

#include "routines.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

inline ptrdiff_t steps_of(const FewChannels& p) { return p.geometry.taps_h * p.geometry.taps_w * p.channels; }

// Lines of the input that windows of so many rows span.
inline ptrdiff_t lines_of(const Geometry& g, ptrdiff_t rows) {
  return (rows - 1) * g.stride_h + (g.taps_h - 1) * g.dilation_h + 1;
}

// Columns of a line with its padding, under so many outputs.
inline ptrdiff_t columns_under(const Geometry& g, ptrdiff_t outputs) {
  return (outputs - 1) * g.stride_w + (g.taps_w - 1) * g.dilation_w + 1;
}

// Elements from one column of a channel to the next: a line has the channels of each pixel side by side,
// or one channel after the other.
inline ptrdiff_t column_of(const FewChannels& p) { return p.planar ? 1 : p.channels; }

// And from what one output reads to what the next does.
inline ptrdiff_t next_of(const FewChannels& p) { return p.geometry.stride_w * column_of(p); }

// Where each step of the sum reads: lines lie so far apart, and channels of lines that follow each other.
inline void find_steps(const FewChannels& p, ptrdiff_t line, ptrdiff_t plane, ptrdiff_t* offset) {
  const Geometry& g = p.geometry;
  const ptrdiff_t per_column = column_of(p), per_channel = p.planar ? plane : 1;
  for (ptrdiff_t th = 0; th < g.taps_h; ++th) {
    for (ptrdiff_t tw = 0; tw < g.taps_w; ++tw) {
      for (ptrdiff_t c = 0; c < p.channels; ++c) {
        *offset++ = th * g.dilation_h * line + tw * g.dilation_w * per_column + c * per_channel;
      }
    }
  }
}

// The same in copied lines of so many columns, one after the other.
inline void find_steps(const FewChannels& p, ptrdiff_t columns, ptrdiff_t* offset) {
  find_steps(p, columns * p.channels, columns, offset);
}

// As memset and memcpy, of runs so short that a call would take a good part of the time.
inline void clear_run(float* to, ptrdiff_t count) {
  for (ptrdiff_t i = 0; i < count; i += kLanes) store_part(to + i, splat(0.0f), count - i);
}
inline void copy_run(const float* from, ptrdiff_t count, float* to) {
  ptrdiff_t i = 0;
  for (; i + kLanes <= count; i += kLanes) store(to + i, load(from + i));
  if (i < count) store_part(to + i, load_part(from + i, count - i), count - i);
}

// Columns [begin, end) of a line with its padding, `elements` to a column; zeros if it is not inside.
inline void copy_line(const Geometry& g, const float* line, bool inside, ptrdiff_t elements, ptrdiff_t begin,
                      ptrdiff_t end, float* to) {
  const ptrdiff_t first = inside ? min_of(max_of(g.pad_w, begin), end) : end;
  const ptrdiff_t last = inside ? max_of(min_of(g.pad_w + g.width, end), first) : end;
  clear_run(to + begin * elements, (first - begin) * elements);
  if (last > first)
    copy_run(line + (first - g.pad_w) * elements, (last - first) * elements, to + first * elements);
  clear_run(to + last * elements, (end - last) * elements);
}

// Columns [begin, end) of `count` lines of an image from line `top` on, which may lie outside.
inline void copy_lines(const FewChannels& p, ptrdiff_t image, ptrdiff_t top, ptrdiff_t count,
                       ptrdiff_t columns, ptrdiff_t begin, ptrdiff_t end, float* to) {
  const Geometry& g = p.geometry;
  const ptrdiff_t plane = g.height * g.width;
  const float* input = p.input + image * plane * p.channels;
  for (ptrdiff_t h = top; h < top + count; ++h, to += columns * p.channels) {
    const bool inside = h >= 0 && h < g.height;
    const float* from = inside ? input + h * g.width * column_of(p) : input;
    if (!p.planar) copy_line(g, from, inside, p.channels, begin, end, to);
    for (ptrdiff_t c = 0; p.planar && c < p.channels; ++c) {
      copy_line(g, from + c * plane, inside, 1, begin, end, to + c * columns);
    }
  }
}
inline void copy_lines(const FewChannels& p, ptrdiff_t image, ptrdiff_t top, ptrdiff_t count,
                       ptrdiff_t columns, float* to) {
  copy_lines(p, image, top, count, columns, 0, columns, to);
}

// Has such lines closer for when they are copied.
inline void fetch_lines(const FewChannels& p, ptrdiff_t image, ptrdiff_t top, ptrdiff_t count) {
  const Geometry& g = p.geometry;
  const ptrdiff_t plane = g.height * g.width, length = g.width * column_of(p);
  for (ptrdiff_t h = max_of(top, 0); h < min_of(top + count, g.height); ++h) {
    const float* line = p.input + image * plane * p.channels + h * length;
    for (ptrdiff_t c = 0; c < (p.planar ? p.channels : 1); ++c, line += plane) {
      for (ptrdiff_t i = 0; i < length; i += kPanel) __builtin_prefetch(line + i, 0, 2);
    }
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
