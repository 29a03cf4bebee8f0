// The loops that factorisations of matrices spend their time in, for one width of vector.
//
// Matrices are of doubles and lie row by row, so that all of these go along rows. The algorithms call
// them by a table, DenseLoops: each library has one of its own vectors.
#pragma once

#include <stddef.h>
#include <string.h>

namespace penlight {

// Part of a matrix: row i begins at data + i * stride.
struct Rows {
  double* data;
  ptrdiff_t stride;
};

// `count` factors, one for each row, that lie `step` apart.
struct Factors {
  const double* data;
  ptrdiff_t step;
  // Files for different instruction sets include this: the linker is to find no copy of it.
  inline __attribute__((always_inline)) double operator[](ptrdiff_t i) const { return data[i * step]; }
};

// Each row of a matrix loses p[i] * first + q[i] * second; then `sums` gain with[i] * row.
struct RowUpdate {
  Rows a;
  ptrdiff_t rows, columns;
  Factors p;
  const double* first;
  Factors q;
  const double* second;  // null: there is none
  Factors with;
  double* sums;  // null: none are wanted
};

// c += factor * a b, of [rows, depth] and [depth, columns]; element [i, k] of a is at data + i * row + k *
// step.
struct RowProduct {
  Rows c;
  ptrdiff_t rows, columns, depth;
  const double* a;
  ptrdiff_t row, step;
  const double* b;
  ptrdiff_t b_stride;
  double factor;
};

// Neighbouring rows k and k + 1 turn, for k from 0: into c x + s y and c y - s x.
struct RowTurns {
  Rows a;
  ptrdiff_t turns, columns;
  const double *cosines, *sines;
};

struct DenseLoops {
  void (*update)(const RowUpdate&);
  void (*multiply)(const RowProduct&);
  void (*turn)(const RowTurns&);
  // sums[i] = row i of `a`, with `x`.
  void (*dots)(const Rows& a, ptrdiff_t rows, ptrdiff_t columns, const double* x, double* sums);
};

// V: a vector type, `type`, of `lanes` doubles; load(), store(), and both for fewer than all lanes; and the
// `rows` and `vectors` of the tile of a product that its registers hold.
template <class V>
struct DenseLoopsOf {
  using Vector = typename V::type;
  static constexpr ptrdiff_t lanes = V::lanes;

  static void update(const RowUpdate& p) {
    constexpr int together = 4;
    ptrdiff_t i = 0;
    for (; i + together <= p.rows; i += together) update_rows<together>(p, i);
    for (; i < p.rows; ++i) update_rows<1>(p, i);
  }

  static void multiply(const RowProduct& p) {
    constexpr ptrdiff_t width = V::vectors * lanes;
    for (ptrdiff_t j = 0; j < p.columns;) {
      const ptrdiff_t left = p.columns - j;
      if (left >= width) {
        multiply_columns<V::vectors, false>(p, j, width);
        j += width;
      } else if (left >= lanes) {
        multiply_columns<1, false>(p, j, lanes);
        j += lanes;
      } else {
        multiply_columns<1, true>(p, j, left);
        j += left;
      }
    }
  }

  static void turn(const RowTurns& p) {
    ptrdiff_t j = 0;
    for (; j + 2 * lanes <= p.columns; j += 2 * lanes) turn_columns<2, false>(p, j, 2 * lanes);
    for (; j + lanes <= p.columns; j += lanes) turn_columns<1, false>(p, j, lanes);
    if (j < p.columns) turn_columns<1, true>(p, j, p.columns - j);
  }

  static void dots(const Rows& a, ptrdiff_t rows, ptrdiff_t columns, const double* x, double* sums) {
    constexpr int together = 4;
    ptrdiff_t i = 0;
    for (; i + together <= rows; i += together) dot_rows<together>(a, i, columns, x, sums);
    for (; i < rows; ++i) dot_rows<1>(a, i, columns, x, sums);
  }

  static constexpr DenseLoops table() { return {update, multiply, turn, dots}; }

 private:
  template <bool some>
  static inline __attribute__((always_inline)) Vector load(const double* from, ptrdiff_t count) {
    return some ? V::load_some(from, count) : V::load(from);
  }
  template <bool some>
  static inline __attribute__((always_inline)) void store(double* to, Vector value, ptrdiff_t count) {
    if (some) {
      V::store_some(to, value, count);
    } else {
      V::store(to, value);
    }
  }
  static inline __attribute__((always_inline)) Vector splat(double value) { return value - Vector{}; }

  template <int count>
  static inline __attribute__((always_inline)) void update_rows(const RowUpdate& p, ptrdiff_t i) {
    Vector first[count], second[count], with[count];
    for (int r = 0; r < count; ++r) {
      first[r] = splat(p.p[i + r]);
      second[r] = p.second ? splat(p.q[i + r]) : Vector{};
      with[r] = p.sums ? splat(p.with[i + r]) : Vector{};
    }
    double* const a = p.a.data + i * p.a.stride;
    ptrdiff_t j = 0;
    for (; j + lanes <= p.columns; j += lanes)
      update_vector<count, false>(p, a, j, lanes, first, second, with);
    if (j < p.columns) update_vector<count, true>(p, a, j, p.columns - j, first, second, with);
  }

  template <int count, bool some>
  static inline __attribute__((always_inline)) void update_vector(const RowUpdate& p, double* a, ptrdiff_t j,
                                                                  ptrdiff_t left, const Vector* first,
                                                                  const Vector* second, const Vector* with) {
    const Vector x = load<some>(p.first + j, left);
    const Vector y = p.second ? load<some>(p.second + j, left) : Vector{};
    Vector sum = p.sums ? load<some>(p.sums + j, left) : Vector{};
    for (int r = 0; r < count; ++r) {
      double* const at = a + r * p.a.stride + j;
      Vector row = load<some>(at, left) - first[r] * x;
      if (p.second) row -= second[r] * y;
      store<some>(at, row, left);
      if (p.sums) sum += with[r] * row;
    }
    if (p.sums) store<some>(p.sums + j, sum, left);
  }

  template <int vectors, bool some>
  static void multiply_columns(const RowProduct& p, ptrdiff_t j, ptrdiff_t left) {
    ptrdiff_t i = 0;
    for (; i + V::rows <= p.rows; i += V::rows) multiply_tile<V::rows, vectors, some>(p, i, j, left);
    for (; i + 4 <= p.rows; i += 4) multiply_tile<4, vectors, some>(p, i, j, left);
    for (; i < p.rows; ++i) multiply_tile<1, vectors, some>(p, i, j, left);
  }

  template <int rows, int vectors, bool some>
  static inline __attribute__((always_inline)) void multiply_tile(const RowProduct& p, ptrdiff_t i,
                                                                  ptrdiff_t j, ptrdiff_t left) {
    Vector sums[rows][vectors] = {};
    const double *a = p.a + i * p.row, *b = p.b + j;
    for (ptrdiff_t k = 0; k < p.depth; ++k, a += p.step, b += p.b_stride) {
      Vector line[vectors];
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) line[v] = load<some>(b + v * lanes, left);
#pragma GCC unroll 16
      for (int r = 0; r < rows; ++r) {
        const Vector x = splat(a[r * p.row]);
#pragma GCC unroll 4
        for (int v = 0; v < vectors; ++v) sums[r][v] += x * line[v];
      }
    }
    const Vector factor = splat(p.factor);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        double* const to = p.c.data + (i + r) * p.c.stride + j + v * lanes;
        store<some>(to, load<some>(to, left) + factor * sums[r][v], left);
      }
    }
  }

  template <int vectors, bool some>
  static inline __attribute__((always_inline)) void turn_columns(const RowTurns& p, ptrdiff_t j,
                                                                 ptrdiff_t left) {
    double* at = p.a.data + j;
    Vector x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = load<some>(at + v * lanes, left);
    for (ptrdiff_t k = 0; k < p.turns; ++k, at += p.a.stride) {
      const Vector c = splat(p.cosines[k]), s = splat(p.sines[k]);
      for (int v = 0; v < vectors; ++v) {
        const Vector y = load<some>(at + p.a.stride + v * lanes, left);
        store<some>(at + v * lanes, c * x[v] + s * y, left);
        x[v] = c * y - s * x[v];
      }
    }
    for (int v = 0; v < vectors; ++v) store<some>(at + v * lanes, x[v], left);
  }

  template <int count>
  static inline __attribute__((always_inline)) void dot_rows(const Rows& a, ptrdiff_t i, ptrdiff_t columns,
                                                             const double* x, double* sums) {
    const double* const row = a.data + i * a.stride;
    Vector sum[count] = {};
    ptrdiff_t j = 0;
    for (; j + lanes <= columns; j += lanes) {
      const Vector xs = V::load(x + j);
      for (int r = 0; r < count; ++r) sum[r] += V::load(row + r * a.stride + j) * xs;
    }
    if (j < columns) {
      const Vector xs = V::load_some(x + j, columns - j);
      for (int r = 0; r < count; ++r) sum[r] += V::load_some(row + r * a.stride + j, columns - j) * xs;
    }
    for (int r = 0; r < count; ++r) {
      double total = 0;
      for (int lane = 0; lane < lanes; ++lane) total += sum[r][lane];
      sums[i + r] = total;
    }
  }
};

}  // namespace penlight
