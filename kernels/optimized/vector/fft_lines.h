// Lines that lie in memory in any way, as points with a line in each lane, and back.
#pragma once

#include <string.h>

#include "dots.h"
#include "fft_passes.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

struct Evens {
  static constexpr int of(int lane) { return 2 * lane; }
};
struct Odds {
  static constexpr int of(int lane) { return 2 * lane + 1; }
};
struct Reversed {
  static constexpr int of(int lane) { return kLanes - 1 - lane; }
};

// Pairs of memory as points, one to a lane.
PENLIGHT_INLINE Points load_pairs(const float* from, ptrdiff_t left) {
  const Floats a = load_part(from, 2 * left), b = load_part(from + kLanes, 2 * left - kLanes);
  return {shuffle<Evens>(a, b), shuffle<Odds>(a, b)};
}
PENLIGHT_INLINE void store_pairs(float* to, Points x, ptrdiff_t left) {
  store_part(to, lower(x.re, x.im), 2 * left);
  store_part(to + kLanes, upper(x.re, x.im), 2 * left - kLanes);
}

// What of a line is where: `count` floats of `width` side by side, `step` apart. Of real elements that
// are not packed only every other vector is meant, which is a `gap` of 2.
struct Shape {
  ptrdiff_t count, width, gap;
  ptrdiff_t line, step, lines;
};

constexpr ptrdiff_t kFewFloats = 2;  // at the end of a spectrum, that are not worth a square

// Floats that lie side by side, in all lines.
void read_rows(const Shape& s, const float* from, float* to) {
  const float* rows[kLanes];
  float rest[kLanes * kLanes];
  for (ptrdiff_t i = 0; i < kLanes; ++i) rows[i] = from + min_of(i, s.lines - 1) * s.line;
  for (ptrdiff_t c = 0; c < s.count; c += kLanes) {
    if (s.count - c <= kFewFloats) {
      for (; c < s.count; ++c) {
        for (ptrdiff_t i = 0; i < s.lines; ++i) to[c * s.gap * kLanes + i] = from[i * s.line + c];
      }
      return;
    }
    if (s.count - c < kLanes) {
      for (ptrdiff_t i = 0; i < kLanes; ++i) {
        store(rest + i * kLanes, load_some(rows[i], s.count - c));
        rows[i] = rest + i * kLanes;
      }
    }
    Floats x[kLanes];
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) {
      x[i] = load(rows[i]);
      rows[i] += kLanes;
    });
    transpose(x);
    repeat<kLanes>([&](auto i)
                       __attribute__((always_inline)) { store(to + (c + i) * s.gap * kLanes, x[i]); });
  }
}

void write_rows(const Shape& s, const float* from, float* to, Floats scale) {
  float rest[kLanes * kLanes];
  for (ptrdiff_t c = 0; c < s.count; c += kLanes) {
    if (s.count - c <= kFewFloats) {
      for (ptrdiff_t i = 0; i < s.lines; ++i) {
        for (ptrdiff_t k = c; k < s.count; ++k) {
          to[i * s.line + k] = from[k * s.gap * kLanes + i] * scale[0];
        }
      }
      return;
    }
    const bool whole = s.lines == kLanes && s.count - c >= kLanes;
    Floats x[kLanes];
    repeat<kLanes>(
        [&](auto i) __attribute__((always_inline)) { x[i] = load(from + (c + i) * s.gap * kLanes) * scale; });
    transpose(x);
    float* const rows = whole ? to + c : rest;
    const ptrdiff_t pitch = whole ? s.line : kLanes;
    repeat<kLanes>([&](auto i) __attribute__((always_inline)) { store(rows + i * pitch, x[i]); });
    if (whole) continue;
    for (ptrdiff_t i = 0; i < s.lines; ++i) {
      store_part(to + i * s.line + c, load(rest + i * kLanes), s.count - c);
    }
  }
}

void read_lines(const Shape& s, const float* from, float* to) {
  if (s.step == s.width) return read_rows(s, from, to);
  const ptrdiff_t pitch = s.gap * kLanes;
  if (s.line != s.width) {
    for (ptrdiff_t c = 0; c < s.count; ++c, to += pitch) {
      const float* at = from + c / s.width * s.step + c % s.width;
      for (ptrdiff_t i = 0; i < s.lines; ++i, at += s.line) to[i] = *at;
    }
  } else if (s.width == 1) {
    for (ptrdiff_t c = 0; c < s.count; ++c) store(to + c * pitch, load_part(from + c * s.step, s.lines));
  } else {
    for (ptrdiff_t c = 0; c < s.count; c += 2, to += kPoint, from += s.step) {
      store_points(to, kInOrder, load_pairs(from, s.lines));
    }
  }
}

void write_lines(const Shape& s, const float* from, float* to, Floats scale) {
  if (s.step == s.width) return write_rows(s, from, to, scale);
  const ptrdiff_t pitch = s.gap * kLanes;
  if (s.line != s.width) {
    for (ptrdiff_t c = 0; c < s.count; ++c, from += pitch) {
      float* at = to + c / s.width * s.step + c % s.width;
      for (ptrdiff_t i = 0; i < s.lines; ++i, at += s.line) *at = from[i] * scale[0];
    }
  } else if (s.width == 1) {
    for (ptrdiff_t c = 0; c < s.count; ++c) {
      store_part(to + c * s.step, load(from + c * pitch) * scale, s.lines);
    }
  } else {
    for (ptrdiff_t c = 0; c < s.count; c += 2, from += kPoint, to += s.step) {
      store_pairs(to, load_points(from, kInOrder) * scale, s.lines);
    }
  }
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
