// The loops of dense_loops.h, for one width of vector.
#pragma once

#include "dense_loops.h"

namespace penlight {

// V: a vector type, `type`, of `lanes` doubles; load(), store(), and both for fewer than all lanes; sum();
// and the `rows` and `vectors` of the tile of a product that its registers hold.
template <class V>
struct DenseLoopsOf {
  using Vector = typename V::type;
  static constexpr ptrdiff_t lanes = V::lanes;

  // Arguments are copied: what is stored could be any of those that are referred to, which would be read
  // again.
  static void update(const RowUpdate& given) {
    if (given.second) {
      update_all<true, true>(given);
    } else if (given.sums) {
      update_all<false, true>(given);
    } else {
      update_all<false, false>(given);
    }
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

  static void turn(const RowTurns& given) {
    const RowTurns p = given;
    ptrdiff_t j = 0;
    for (; j + 2 * lanes <= p.columns; j += 2 * lanes) turn_columns<2, false>(p, j, 2 * lanes);
    for (; j + lanes <= p.columns; j += lanes) turn_columns<1, false>(p, j, lanes);
    if (j < p.columns) turn_columns<1, true>(p, j, p.columns - j);
  }

  static void reflect(const RowReflections& given) {
    const RowReflections p = given;
    constexpr int most = V::rows < 8 ? 4 : 8;  // rows, factors and a vector are in registers
    ptrdiff_t i = 0;
    for (; i + most <= p.rows; i += most) reflect_rows<most>(p, i);
    if (most > 4 && i + 4 <= p.rows) {
      reflect_rows<4>(p, i);
      i += 4;
    }
    for (; i + 2 <= p.rows; i += 2) reflect_rows<2>(p, i);
    if (i < p.rows) reflect_rows<1>(p, i);
  }

  static void dots(const Rows& a, ptrdiff_t rows, ptrdiff_t columns, const double* x, double* sums) {
    constexpr int together = 4;
    ptrdiff_t i = 0;
    for (; i + together <= rows; i += together) dot_rows<together>(a, i, columns, x, sums);
    for (; i < rows; ++i) dot_rows<1>(a, i, columns, x, sums);
  }

  static constexpr DenseLoops table() { return {update, multiply, turn, reflect, dots}; }

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

  template <bool both, bool sum>
  static void update_all(const RowUpdate& given) {
    const RowUpdate p = given;
    constexpr int together = 4;
    ptrdiff_t i = 0;
    for (; i + together <= p.rows; i += together) update_rows<together, both, sum>(p, i);
    for (; i < p.rows; ++i) update_rows<1, both, sum>(p, i);
  }

  template <int count, bool both, bool sum>
  static inline __attribute__((always_inline)) void update_rows(const RowUpdate& p, ptrdiff_t i) {
    Vector first[count], second[count], with[count];
    for (int r = 0; r < count; ++r) {
      first[r] = splat(p.p[i + r]);
      second[r] = both ? splat(p.q[i + r]) : Vector{};
      with[r] = sum ? splat(p.with[i + r]) : Vector{};
    }
    double* const a = p.a.data + i * p.a.stride;
    ptrdiff_t j = 0;
    for (; j + lanes <= p.columns; j += lanes)
      update_vector<count, both, sum, false>(p, a, j, lanes, first, second, with);
    if (j < p.columns) update_vector<count, both, sum, true>(p, a, j, p.columns - j, first, second, with);
  }

  // All rows are read before one is written: a store delays loads from places 4 KB apart.
  template <int count, bool both, bool sum, bool some>
  static inline __attribute__((always_inline)) void update_vector(const RowUpdate& p, double* a, ptrdiff_t j,
                                                                  ptrdiff_t left, const Vector* first,
                                                                  const Vector* second, const Vector* with) {
    const Vector x = load<some>(p.first + j, left);
    Vector rows[count];
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) rows[r] = load<some>(a + r * p.a.stride + j, left) - first[r] * x;
    if constexpr (both) {
      const Vector y = load<some>(p.second + j, left);
#pragma GCC unroll 4
      for (int r = 0; r < count; ++r) rows[r] -= second[r] * y;
    }
#pragma GCC unroll 4
    for (int r = 0; r < count; ++r) store<some>(a + r * p.a.stride + j, rows[r], left);
    if constexpr (sum) {
      Vector total = load<some>(p.sums + j, left);
#pragma GCC unroll 4
      for (int r = 0; r < count; ++r) total += with[r] * rows[r];
      store<some>(p.sums + j, total, left);
    }
  }

  template <int vectors, bool some>
  static void multiply_columns(const RowProduct& given, ptrdiff_t j, ptrdiff_t left) {
    const RowProduct p = given;
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
    constexpr ptrdiff_t width = vectors * lanes;
    static_assert(width <= kPanelColumns, "the panel has room for it");
    double *const columns = p.a.data + j, *at = columns;
    for (ptrdiff_t i = 0; i < p.rows; ++i, at += p.a.stride) {
      for (int v = 0; v < vectors; ++v)
        V::store(p.panel + i * width + v * lanes, load<some>(at + v * lanes, left));
    }
    for (ptrdiff_t k = 0; k < p.count; ++k) {
      const Sweep sweep = p.sweeps[k];
      if (k + 1 < p.count && goes_as_far(sweep, p.sweeps[k + 1])) {
        turn_twice<vectors>(sweep, p.sweeps[++k], p.panel);
      } else {
        turn_once<vectors>(sweep, 0, sweep.turns, p.panel);
      }
    }
    at = columns;
    for (ptrdiff_t i = 0; i < p.rows; ++i, at += p.a.stride) {
      for (int v = 0; v < vectors; ++v)
        store<some>(at + v * lanes, V::load(p.panel + i * width + v * lanes), left);
    }
  }

  // Turns [begin, end) of a sweep.
  template <int vectors>
  static inline __attribute__((always_inline)) void turn_once(const Sweep& sweep, ptrdiff_t begin,
                                                              ptrdiff_t end, double* panel) {
    constexpr ptrdiff_t width = vectors * lanes;
    double* at = panel + (sweep.first + begin) * width;
    Vector x[vectors];
    for (int v = 0; v < vectors; ++v) x[v] = V::load(at + v * lanes);
    for (ptrdiff_t k = begin; k < end; ++k, at += width) {
      const Vector c = splat(sweep.cosines[k]), s = splat(sweep.sines[k]);
      for (int v = 0; v < vectors; ++v) {
        const Vector y = V::load(at + width + v * lanes);
        V::store(at + v * lanes, c * x[v] + s * y);
        x[v] = c * y - s * x[v];
      }
    }
    for (int v = 0; v < vectors; ++v) V::store(at + v * lanes, x[v]);
  }

  // Does a sweep begin where the one before it does, and not end after it?
  static inline __attribute__((always_inline)) bool goes_as_far(const Sweep& before, const Sweep& after) {
    return after.first == before.first && after.turns <= before.turns && after.turns > 1;
  }

  // Two such sweeps at once, the second one row behind the first: rows are read and written once.
  template <int vectors>
  static inline __attribute__((always_inline)) void turn_twice(const Sweep& a, const Sweep& given,
                                                               double* panel) {
    constexpr ptrdiff_t width = vectors * lanes;
    const Sweep b = given;
    double* at = panel + a.first * width;
    Vector x[vectors], behind[vectors];
    for (int v = 0; v < vectors; ++v) {
      const Vector first = V::load(at + v * lanes), y = V::load(at + width + v * lanes);
      const Vector c = splat(a.cosines[0]), s = splat(a.sines[0]);
      behind[v] = c * first + s * y;
      x[v] = c * y - s * first;
    }
    const ptrdiff_t turns = b.turns < a.turns ? b.turns + 1 : a.turns;
    for (ptrdiff_t k = 1; k < turns; ++k, at += width) {
      const Vector c = splat(a.cosines[k]), s = splat(a.sines[k]);
      const Vector d = splat(b.cosines[k - 1]), t = splat(b.sines[k - 1]);
      for (int v = 0; v < vectors; ++v) {
        const Vector y = V::load(at + 2 * width + v * lanes);
        const Vector between = c * x[v] + s * y;
        x[v] = c * y - s * x[v];
        V::store(at + v * lanes, d * behind[v] + t * between);
        behind[v] = d * between - t * behind[v];
      }
    }
    // The second is finished, or has one turn left.
    if (b.turns < a.turns) {
      for (int v = 0; v < vectors; ++v) {
        V::store(at + v * lanes, behind[v]);
        V::store(at + width + v * lanes, x[v]);
      }
      return turn_once<vectors>(a, turns, a.turns, panel);
    }
    const Vector d = splat(b.cosines[turns - 1]), t = splat(b.sines[turns - 1]);
    for (int v = 0; v < vectors; ++v) {
      V::store(at + v * lanes, d * behind[v] + t * x[v]);
      V::store(at + width + v * lanes, d * x[v] - t * behind[v]);
    }
  }

  template <int count>
  static void reflect_rows(const RowReflections& given, ptrdiff_t i) {
    const RowReflections p = given;
    for (ptrdiff_t step = 0; step < p.count; ++step) {
      const ptrdiff_t k = p.backward ? p.count - 1 - step : step, columns = p.columns - k;
      if (p.tau[k] != 0)
        reflect_once<count>(p.a.data + i * p.a.stride + k, p.a.stride, columns, p.vectors + k * p.stride + k,
                            p.tau[k]);
    }
  }

  template <int count>
  static inline __attribute__((always_inline)) void reflect_once(double* a, ptrdiff_t stride,
                                                                 ptrdiff_t columns, const double* v,
                                                                 double tau) {
    Vector sums[count] = {};
    ptrdiff_t j = 0;
    for (; j + lanes <= columns; j += lanes) add_products<count, false>(a + j, stride, v + j, lanes, sums);
    if (j < columns) add_products<count, true>(a + j, stride, v + j, columns - j, sums);
    Vector factors[count];
#pragma GCC unroll 8
    for (int r = 0; r < count; ++r) factors[r] = splat(tau * V::sum(sums[r]));
    for (j = 0; j + lanes <= columns; j += lanes)
      subtract<count, false>(a + j, stride, v + j, lanes, factors);
    if (j < columns) subtract<count, true>(a + j, stride, v + j, columns - j, factors);
  }

  template <int count, bool some>
  static inline __attribute__((always_inline)) void add_products(const double* a, ptrdiff_t stride,
                                                                 const double* x, ptrdiff_t left,
                                                                 Vector* sums) {
    const Vector xs = load<some>(x, left);
#pragma GCC unroll 8
    for (int r = 0; r < count; ++r) sums[r] += load<some>(a + r * stride, left) * xs;
  }

  template <int count, bool some>
  static inline __attribute__((always_inline)) void subtract(double* a, ptrdiff_t stride, const double* x,
                                                             ptrdiff_t left, const Vector* factors) {
    const Vector xs = load<some>(x, left);
    Vector rows[count];
#pragma GCC unroll 8
    for (int r = 0; r < count; ++r) rows[r] = load<some>(a + r * stride, left) - factors[r] * xs;
#pragma GCC unroll 8
    for (int r = 0; r < count; ++r) store<some>(a + r * stride, rows[r], left);
  }

  template <int count>
  static inline __attribute__((always_inline)) void dot_rows(const Rows& a, ptrdiff_t i, ptrdiff_t columns,
                                                             const double* x, double* sums) {
    const double* const row = a.data + i * a.stride;
    Vector sum[count] = {};
    ptrdiff_t j = 0;
    for (; j + lanes <= columns; j += lanes) add_products<count, false>(row + j, a.stride, x + j, lanes, sum);
    if (j < columns) add_products<count, true>(row + j, a.stride, x + j, columns - j, sum);
    for (int r = 0; r < count; ++r) sums[i + r] = V::sum(sum[r]);
  }
};

}  // namespace penlight
