// Fourier transforms of lines of float32 or complex64, however they lie in memory.
//
// Lanes of a vector are lines. Where there are few lines, or long ones, a line of n * m elements is
// done as m lines of n elements, whose results are turned, and n lines of m (Gentleman and Sande):
// each of the two has lines enough. Real lines of an even length are complex ones of half the length.
#pragma once

#include <penlight/kernel.h>
#include <string.h>

#include "isa.h"
#include "packed.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kFewLines = 8;      // of which each is worth splitting,
constexpr dim_t kFewConvolved = 4;  // or of a convolution,
constexpr dim_t kSplitFrom = 128;   // if it has so many points, and
constexpr dim_t kPerLine = 64;      // so many for each line
constexpr dim_t kLongLine = 4096;   // points, of all lanes more than a cache holds
constexpr dim_t kMostPoints = 1 << 15;
constexpr double kTau = 6.283185307179586476925;

size_t as_size(dim_t count) { return static_cast<size_t>(count); }

// The greatest divisor up to the root.
dim_t middle_divisor(dim_t n) {
  dim_t best = 1;
  for (dim_t d = 2; d * d <= n; ++d) {
    if (n % d == 0) best = d;
  }
  return best;
}

bool has_large_factor(dim_t n) {
  for (dim_t p = 2; p <= kLargestFactor && n > 1;) {
    if (n % p == 0) {
      n /= p;
    } else {
      ++p;
    }
  }
  return n > 1;
}

// e ^ (-2 pi i k / order) of the first `count` k.
struct Roots {
  double *re, *im;
};

// Those from each power of two on are that one's root times the earlier ones.
bool make_roots(KernelContext& ctx, dim_t count, dim_t order, Roots& roots) {
  roots.re = ctx.allocate_scratch_array<double>(as_size(2 * count));
  if (!roots.re) return false;
  roots.im = roots.re + count;
  roots.re[0] = 1;
  roots.im[0] = 0;
  for (dim_t from = 1; from < count; from *= 2) {
    const double angle = kTau * static_cast<double>(from) / static_cast<double>(order);
    const double re = __builtin_cos(angle), im = -__builtin_sin(angle);
    for (dim_t k = 0; k < from && from + k < count; ++k) {
      roots.re[from + k] = re * roots.re[k] - im * roots.im[k];
      roots.im[from + k] = re * roots.im[k] + im * roots.re[k];
    }
  }
  return true;
}

// As pairs of float32; null, with the failure recorded, where there is no memory.
float* make_pairs(KernelContext& ctx, dim_t count) {
  Roots exact;
  float* pairs = ctx.allocate_scratch_array<float>(as_size(2 * count));
  if (!pairs || !make_roots(ctx, count, count, exact)) return nullptr;
  for (dim_t k = 0; k < count; ++k) {
    pairs[2 * k] = static_cast<float>(exact.re[k]);
    pairs[2 * k + 1] = static_cast<float>(exact.im[k]);
  }
  return pairs;
}

bool make_chirp(KernelContext& ctx, Fourier& job);

// The points that buffers have to hold.
dim_t points_of(const Fourier& job) {
  const dim_t counts[] = {job.padded, job.in_count, job.out_count};
  dim_t most = job.length + 1;
  for (const dim_t count : counts) {
    if (count > most) most = count;
  }
  return most;
}

// Transforms `blocks` blocks of the lines that the job says, in lanes, with tables made here.
bool transform_lanes(KernelContext& ctx, Fourier job, dim_t blocks) {
  job.roots = make_pairs(ctx, job.packed ? 2 * job.length : job.length);
  if (!job.roots) return false;
  if (has_large_factor(job.length)) {
    if (!make_chirp(ctx, job)) return false;
    job.padded_roots = make_pairs(ctx, job.padded);
    if (!job.padded_roots) return false;
  }
  const dim_t count = blocks * ((job.lines + kFourierLines - 1) / kFourierLines), points = points_of(job);
  const dim_t floats = (2 * points + kPastPoints) * kPanel;
  const double operations = 60.0 * static_cast<double>(kFourierLines * points);
  const dim_t parts = parts_of(ctx, operations * static_cast<double>(count), count);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, as_size(2 * floats) * sizeof(float), memory)) return false;
  ctx.parallel(as_size(parts), [&](size_t index) {
    Fourier mine = job;
    const Range range = range_of(index, parts, count);
    mine.first = range.first;
    mine.last = range.last;
    mine.scratch = static_cast<float*>(memory.of(index));
    mine.spare = mine.scratch + floats;
    routines().fourier(mine);
  });
  return true;
}

// Points of the transforms that a line is done with: with a large prime factor, of a convolution.
dim_t transformed(dim_t length) {
  if (!has_large_factor(length)) return length;
  dim_t padded = 1;
  while (padded < 2 * length - 1) padded *= 2;
  return padded;
}

// Is the job done line by line?
bool is_split(const Fourier& job, dim_t blocks) {
  const dim_t points = transformed(job.length);
  const bool few = job.lines <= (points > job.length ? kFewConvolved : kFewLines) && points >= kSplitFrom &&
                   points >= kPerLine * job.lines;
  if (blocks > 1 || (!few && points < kLongLine)) return false;
  if ((job.real_in || job.real_out) && job.from.step != (job.real_in ? 1 : 2)) return false;
  const dim_t n = middle_divisor(points);
  return n * n * 16 >= points;
}

bool fits(const Fourier& job, dim_t blocks) {
  return is_split(job, blocks) || (points_of(job) <= kMostPoints && transformed(job.length) <= kMostPoints);
}

// Transforms lines of n * m points: lines of n that begin side by side, and then, of what those
// gave, lines of m.
bool transform_split(KernelContext& ctx, const Fourier& job) {
  const dim_t length = job.length, n = middle_divisor(length), m = length / n;
  Roots exact;
  float* between = ctx.allocate_scratch_array<float>(as_size(2 * length * job.lines));
  if (!between || !make_roots(ctx, round_to_panel(m), length, exact)) return false;
  Fourier columns = job;
  columns.output = between;
  columns.from = {job.from.line, job.from.step, m * job.from.step};
  columns.to = {2 * length, 2, 2 * m};
  columns.lines = m;
  columns.length = columns.in_count = columns.out_count = n;
  columns.real_out = false;
  columns.scale = 1;
  columns.turn_re = exact.re;
  columns.turn_im = exact.im;
  Fourier rows = job;
  rows.input = between;
  rows.from = {2 * length, 2 * m, 2};
  rows.to = {job.to.line, job.to.step, n * job.to.step};
  rows.lines = n;
  rows.length = rows.in_count = rows.out_count = m;
  rows.real_in = false;
  return transform_lanes(ctx, columns, job.lines) && transform_lanes(ctx, rows, job.lines);
}

// Dense complex lines to others.
bool transform_dense(KernelContext& ctx, const float* input, float* output, dim_t lines, dim_t length,
                     bool backward, float scale) {
  Fourier job{};
  job.input = input;
  job.output = output;
  job.from = job.to = {0, 2 * length, 2};
  job.lines = lines;
  job.length = job.in_count = job.out_count = length;
  job.backward = backward;
  job.scale = scale;
  return is_split(job, 1) ? transform_split(ctx, job) : transform_lanes(ctx, job, 1);
}

bool make_chirp(KernelContext& ctx, Fourier& job) {
  const dim_t n = job.length, padded = transformed(n);
  Roots exact;
  float* chirp = ctx.allocate_scratch_array<float>(as_size(2 * n));
  float* line = ctx.allocate_scratch_array<float>(as_size(2 * padded));
  float* filter = ctx.allocate_scratch_array<float>(as_size(2 * padded));
  if (!ctx.ok() || !make_roots(ctx, 2 * n, 2 * n, exact)) return false;
  memset(line, 0, as_size(2 * padded) * sizeof(float));
  for (dim_t k = 0, square = 0; k < n; ++k) {
    const dim_t mirrored = k > 0 ? padded - k : 0;
    chirp[2 * k] = static_cast<float>(exact.re[square]);
    chirp[2 * k + 1] = static_cast<float>(exact.im[square]);
    line[2 * k] = line[2 * mirrored] = chirp[2 * k];
    line[2 * k + 1] = line[2 * mirrored + 1] = -chirp[2 * k + 1];
    square = (square + 2 * k + 1) % (2 * n);  // of k + 1
  }
  job.chirp = chirp;
  job.filter = filter;
  job.padded = padded;
  return transform_dense(ctx, line, filter, 1, padded, false, 1 / static_cast<float>(padded));
}

struct Pair {
  float re, im;
};

Pair operator*(Pair a, const float* b) { return {a.re * b[0] - a.im * b[1], a.re * b[1] + a.im * b[0]}; }

// Lines of a length with a large prime factor, as convolutions with a chirp. Backward is forward with
// real and imaginary parts in each other's place.
bool convolve(KernelContext& ctx, Fourier job) {
  if (!make_chirp(ctx, job)) return false;
  const dim_t all = job.lines * job.padded;
  float* signal = ctx.allocate_scratch_array<float>(as_size(2 * all));
  float* spectrum = ctx.allocate_scratch_array<float>(as_size(2 * all));
  if (!ctx.ok()) return false;
  memset(signal, 0, as_size(2 * all) * sizeof(float));
  for (dim_t line = 0; line < job.lines; ++line) {
    float* to = signal + 2 * line * job.padded;
    const float* from = job.input + line * job.from.line;
    for (dim_t k = 0; k < job.length; ++k, to += 2, from += job.from.step) {
      const float re = from[0], im = job.real_in ? 0 : from[1];
      const Pair x = (job.backward ? Pair{im, re} : Pair{re, im}) * (job.chirp + 2 * k);
      to[0] = x.re;
      to[1] = x.im;
    }
  }
  if (!transform_dense(ctx, signal, spectrum, job.lines, job.padded, false, 1)) return false;
  for (dim_t line = 0; line < job.lines; ++line) {
    float* at = spectrum + 2 * line * job.padded;
    for (dim_t k = 0; k < job.padded; ++k, at += 2) {
      const Pair x = Pair{at[0], at[1]} * (job.filter + 2 * k);
      at[0] = x.re;
      at[1] = x.im;
    }
  }
  if (!transform_dense(ctx, spectrum, signal, job.lines, job.padded, true, job.scale)) return false;
  for (dim_t line = 0; line < job.lines; ++line) {
    const float* from = signal + 2 * line * job.padded;
    float* to = job.output + line * job.to.line;
    for (dim_t k = 0; k < job.length; ++k, from += 2, to += job.to.step) {
      const Pair x = Pair{from[0], from[1]} * (job.chirp + 2 * k);
      to[0] = job.backward ? x.im : x.re;
      if (!job.real_out) to[1] = job.backward ? x.re : x.im;
    }
  }
  return true;
}

bool transform_each(KernelContext& ctx, const Fourier& job) {
  return has_large_factor(job.length) ? convolve(ctx, job) : transform_split(ctx, job);
}

// Elements [first, count) of lines as the conjugates of those that mirror them.
void mirror_lines(float* x, dim_t lines, dim_t first, dim_t count) {
  for (dim_t line = 0; line < lines; ++line, x += 2 * count) {
    for (dim_t k = first; k < count; ++k) {
      x[2 * k] = x[2 * (count - k)];
      x[2 * k + 1] = -x[2 * (count - k) + 1];
    }
  }
}

// Copies the first elements of lines, complex ones.
void copy_lines(const float* from, dim_t from_line, float* to, dim_t to_line, dim_t lines, dim_t count) {
  for (dim_t line = 0; line < lines; ++line) {
    memcpy(to + line * to_line, from + line * from_line, as_size(2 * count) * sizeof(float));
  }
}

// As transform_each(), of real lines that are not packed: their spectra are whole ones there.
bool transform_whole(KernelContext& ctx, const Fourier& job) {
  if (job.real_in && job.out_count == job.length) return transform_each(ctx, job);
  const dim_t whole = 2 * job.length;
  float* spectra = ctx.allocate_scratch_array<float>(as_size(whole * job.lines));
  if (!spectra) return false;
  Fourier mine = job;
  if (job.real_in) {
    mine.output = spectra;
    mine.to.line = whole;
    if (!transform_each(ctx, mine)) return false;
    copy_lines(spectra, whole, job.output, job.to.line, job.lines, job.out_count);
    return true;
  }
  mine.input = spectra;
  mine.from.line = whole;
  copy_lines(job.input, job.from.line, spectra, whole, job.lines, job.in_count);
  for (dim_t line = 0; line < job.lines; ++line) spectra[line * whole + 1] = 0;
  mirror_lines(spectra, job.lines, job.in_count, job.length);
  return transform_each(ctx, mine);
}

// As transform_each(), of packed lines.
bool transform_packed(KernelContext& ctx, const Fourier& job) {
  const bool join = job.real_out;
  const dim_t line = 2 * job.length;
  float* between = ctx.allocate_scratch_array<float>(as_size(line * job.lines));
  Roots exact;
  if (!between || !make_roots(ctx, kPanel + 1, line, exact)) return false;
  Fourier mine = job;
  mine.packed = mine.real_in = mine.real_out = false;
  mine.from.step = mine.to.step = 2;
  Fold fold{};
  fold.half = job.length;
  fold.join = join;
  fold.turn_re = exact.re;
  fold.turn_im = exact.im;
  if (join) {
    mine.input = fold.output = between;
    mine.from.line = fold.to = line;
    fold.input = job.input;
    fold.from = job.from.line;
    fold.scale = 1;
  } else {
    fold.input = mine.output = between;
    fold.from = mine.to.line = line;
    fold.output = job.output;
    fold.to = job.to.line;
    fold.scale = job.scale;
    mine.scale = 1;
    if (!transform_each(ctx, mine)) return false;
  }
  in_parts(ctx, job.lines, 4.0 * static_cast<double>(line), [&](Range range) {
    Fold part = fold;
    part.first = range.first;
    part.last = range.last;
    routines().fold(part);
  });
  if (join) return transform_each(ctx, mine);
  mirror_lines(job.output, job.lines, job.length + 1, job.out_count);
  return true;
}

// Transforms `blocks` blocks of the lines that the job says.
bool transform(KernelContext& ctx, const Fourier& job, dim_t blocks) {
  if (!is_split(job, blocks)) return transform_lanes(ctx, job, blocks);
  if (job.packed) return transform_packed(ctx, job);
  return job.real_in || job.real_out ? transform_whole(ctx, job) : transform_each(ctx, job);
}

}  // namespace

}  // namespace penlight::optimized
