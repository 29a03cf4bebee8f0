// Fourier transforms of lines that lie in memory in any way, a vector's lanes of them at a time.
#include "fft_lines.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Of two elements with one conjugate pair between them: what a root, times i or -i, makes of them.
PENLIGHT_INLINE void fold_pair(Points& x, Points& mirrored, Points root) {
  const Points even = {x.re + mirrored.re, x.im - mirrored.im};
  const Points odd = Points{x.re - mirrored.re, x.im + mirrored.im} * root;
  x = even + odd;
  mirrored = {even.re - odd.re, odd.im - even.im};
}

// The spectrum, twice, of real lines that were transformed as `half` points; or, to join, the points
// that transformed backward are the lines.
void fold_points(float* x, ptrdiff_t half, const float* roots, bool join) {
  float* const end = x + half * kPoint;
  const Points first = load_points(x, kInOrder);
  if (join) {
    const Points last = load_points(end, kInOrder);
    store_points(x, kInOrder, {first.re + last.re, first.re - last.re});
  } else {
    const Floats two = splat(2.0f);
    store_points(x, kInOrder, {(first.re + first.im) * two, Floats{}});
    store_points(end, kInOrder, {(first.re - first.im) * two, Floats{}});
  }
  for (ptrdiff_t k = 1; 2 * k <= half; ++k) {
    float *const a = x + k * kPoint, *const b = end - k * kPoint;
    Points low = load_points(a, kInOrder), high = load_points(b, kInOrder);
    const float re = roots[2 * k], im = roots[2 * k + 1];
    fold_pair(low, high, {splat(im), splat(join ? re : -re)});
    store_points(b, kInOrder, high);
    store_points(a, kInOrder, low);
  }
}

// Points [first, count) as the conjugates of those that mirror them.
void mirror_points(float* x, ptrdiff_t first, ptrdiff_t count) {
  for (ptrdiff_t k = first; k < count; ++k) {
    const Points other = load_points(x + (count - k) * kPoint, kInOrder);
    store_points(x + k * kPoint, kInOrder, {other.re, -other.im});
  }
}

void multiply_points(float* x, const float* pairs, ptrdiff_t count, Parts parts) {
  for (ptrdiff_t k = 0; k < count; ++k) {
    store_points(x + k * kPoint, parts, load_points(x + k * kPoint, parts) * splat_pair(pairs + 2 * k));
  }
}

// As transform(), with a convolution (Bluestein).
float* transform_chirped(const Fourier& p, float* x, float* other, Parts parts) {
  multiply_points(x, p.chirp, p.length, parts);
  memset(x + p.length * kPoint, 0, static_cast<size_t>((p.padded - p.length) * kPoint) * sizeof(float));
  float* y = transform(x, other, p.padded, p.padded_roots, 1, parts);
  multiply_points(y, p.filter, p.padded, parts);
  y = transform(y, y == x ? other : x, p.padded, p.padded_roots, 1, {parts.im, parts.re});
  multiply_points(y, p.chirp, p.length, parts);
  return y;
}

// Powers of a root are made in double, so that many factors of it do not add up their errors.
struct Turn {
  Doubles re, im;
};
PENLIGHT_INLINE Turn load_turn(const double* re, const double* im) {
  Turn turn;
  memcpy(&turn.re, re, sizeof turn.re);
  memcpy(&turn.im, im, sizeof turn.im);
  return turn;
}
PENLIGHT_INLINE void multiply(Turn& a, const Turn& b) {
  const Doubles re = a.re * b.re - a.im * b.im;
  a.im = a.re * b.im + a.im * b.re;
  a.re = re;
}
PENLIGHT_INLINE Points rounded(const Turn& turn) {
  return {__builtin_convertvector(turn.re, Floats), __builtin_convertvector(turn.im, Floats)};
}

void turn_points(float* x, ptrdiff_t count, Parts parts, const double* re, const double* im) {
  const Turn step = load_turn(re, im);
  Turn turn = step;
  for (ptrdiff_t k = 1; k < count; ++k) {
    store_points(x + k * kPoint, parts, load_points(x + k * kPoint, parts) * rounded(turn));
    multiply(turn, step);
  }
}

// Lines [line, line + lines) of a block, at most kLanes.
void transform_lines(const Fourier& p, ptrdiff_t block, ptrdiff_t line, ptrdiff_t lines) {
  float* x = p.scratch;
  const ptrdiff_t in_width = p.real_in ? 1 : 2, out_width = p.real_out ? 1 : 2;
  const ptrdiff_t in_gap = p.real_in && !p.packed ? 2 : 1, out_gap = p.real_out && !p.packed ? 2 : 1;
  const Parts parts = p.backward ? kSwapped : kInOrder;

  read_lines({p.in_count * in_width, in_width, in_gap, p.from.line, p.from.step, lines},
             p.input + block * p.from.block + line * p.from.line, x);
  if (in_gap == 2) {
    for (ptrdiff_t k = 0; k < p.length; ++k) store(x + k * kPoint + kLanes, Floats{});
  }
  if (p.packed && p.real_out) fold_points(x, p.length, p.roots, true);
  if (!p.packed && p.real_out && p.in_count < p.length) {
    store(x + kLanes, Floats{});
    mirror_points(x, p.in_count, p.length);
  }

  x = p.chirp ? transform_chirped(p, x, p.spare, parts)
              : transform(x, p.spare, p.length, p.roots, p.packed ? 2 : 1, parts);
  if (p.turn_re) turn_points(x, p.length, parts, p.turn_re + line, p.turn_im + line);
  if (p.packed && p.real_in) {
    fold_points(x, p.length, p.roots, false);
    mirror_points(x, p.length + 1, p.out_count);
  }

  write_lines({p.out_count * out_width, out_width, out_gap, p.to.line, p.to.step, lines}, x,
              p.output + block * p.to.block + line * p.to.line, splat(p.scale));
}

void fold_line(const Fold& p, const float* x, float* out) {
  const ptrdiff_t half = p.half;
  const float sum = x[0] + (p.join ? x[2 * half] : x[1]), rest = x[0] - (p.join ? x[2 * half] : x[1]);
  if (p.join) {
    out[0] = p.scale * sum;
    out[1] = p.scale * rest;
  } else {
    out[0] = 2 * p.scale * sum;
    out[2 * half] = 2 * p.scale * rest;
    out[1] = out[2 * half + 1] = 0;
  }
  // The root of lane i is that of 1 + i, and goes up by that of kLanes.
  Turn turn = load_turn(p.turn_re + 1, p.turn_im + 1);
  const Turn step = {p.turn_re[kLanes] - Doubles{}, p.turn_im[kLanes] - Doubles{}};
  const Floats scale = splat(p.scale);
  for (ptrdiff_t k = 1; 2 * k <= half; k += kLanes) {
    const ptrdiff_t mirrored = half - k - kLanes + 1;
    Points low = load_pairs(x + 2 * k, kLanes), high = load_pairs(x + 2 * mirrored, kLanes);
    high = {shuffle<Reversed>(high.re, high.re), shuffle<Reversed>(high.im, high.im)};
    const Points root = rounded(turn);
    fold_pair(low, high, {root.im, p.join ? root.re : -root.re});
    high = {shuffle<Reversed>(high.re, high.re), shuffle<Reversed>(high.im, high.im)};
    store_pairs(out + 2 * mirrored, high * scale, kLanes);
    store_pairs(out + 2 * k, low * scale, kLanes);
    multiply(turn, step);
  }
}

}  // namespace

void fourier(const Fourier& p) {
  const ptrdiff_t parts = (p.lines + kFourierLines - 1) / kFourierLines;
  for (ptrdiff_t part = p.first; part < p.last; ++part) {
    const ptrdiff_t begin = part % parts * kFourierLines, end = min_of(begin + kFourierLines, p.lines);
    for (ptrdiff_t line = begin; line < end; line += kLanes) {
      transform_lines(p, part / parts, line, min_of(kLanes, end - line));
    }
  }
}

void fold(const Fold& p) {
  for (ptrdiff_t line = p.first; line < p.last; ++line) {
    fold_line(p, p.input + line * p.from, p.output + line * p.to);
  }
}

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
