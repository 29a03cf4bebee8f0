// exp of many floats at once, for softmax, attention and recurrent gates.
//
// exp(x) = 2^n * exp(r) with n = round(x / ln 2), |r| <= ln 2 / 2, exp(r) by its
// Taylor series to the seventh term: within 2 units in the last place. Meant for
// x <= 0; what would be subnormal (x < -87.3) becomes 0, NaN stays NaN.
#pragma once

#include <math.h>

#include "vector.h"

namespace penlight::portable {

inline Vector<float> exp_nonpositive(Vector<float> x) {
  typedef int32_t Lanes __attribute__((vector_size(16)));
  // Adding and taking away 1.5 * 2^23 rounds to the nearest integer.
  const Vector<float> magic = splat(12582912.0f);
  const Vector<float> n = (x * splat(1.44269504f) + magic) - magic;
  Vector<float> r = x - n * splat(0.693145751953125f);  // ln 2 in two parts
  r = r - n * splat(1.42860677e-6f);
  constexpr float kTaylor[] = {1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1, 1};
  Vector<float> p = splat(kTaylor[0]);
  repeat<7>([&](auto i) { p = p * r + splat(kTaylor[i + 1]); });
  const Lanes in_range = x >= splat(-87.3f);
  const Lanes is_nan = x != x;
  // Out of range n is anything: it is masked before its bits are used.
  const Vector<float> safe = (Vector<float>)((Lanes)n & in_range);
  const Lanes power = (__builtin_convertvector(safe, Lanes) + 127) << 23;
  const Lanes result = (Lanes)(p * (Vector<float>)power) & in_range;
  return (Vector<float>)(result | ((Lanes)x & is_nan));
}

// values[i] = exp(values[i] - shift), shift at least as large as any of them;
// returns the sum.
inline float exp_row(float* values, dim_t count, float shift) {
  const Vector<float> shifts = splat(shift);
  Vector<float> sums{};
  // One place that calls the function above, which is large where there are no vectors.
  for (dim_t i = 0; i < count; i += 4) {
    const dim_t some = count - i;
    float rest[4] = {shift, shift, shift, shift};
    const float* from = values + i;
    if (some < 4) {
      for (dim_t j = 0; j < some; ++j) rest[j] = from[j];
      from = rest;
    }
    const Vector<float> e = exp_nonpositive(load_vector(from) - shifts);
    if (some < 4) {
      float sum = sum_lanes<float>(sums);
      for (dim_t j = 0; j < some; ++j) sum += values[i + j] = e[j];
      return sum;
    }
    store_vector(values + i, e);
    sums += e;
  }
  return sum_lanes<float>(sums);
}

inline double exp_row(double* values, dim_t count, double shift) {
  double sum = 0;
  for (dim_t i = 0; i < count; ++i) sum += values[i] = exp(values[i] - shift);
  return sum;
}

// The largest of count >= 1 values; NaN may be passed over.
template <class T>
inline T max_row(const T* values, dim_t count) {
  T best = values[0];
  for (dim_t i = 1; i < count; ++i) best = values[i] > best ? values[i] : best;
  return best;
}

}  // namespace penlight::portable
