// What the optimized kernels compute, element by element in double, and how far from it
// float32 may be.
//
// A sum of n products of floats, in any order, is off by at most n * 2^-24 times the sum
// of the products' magnitudes: that is the bound, not a tolerance that was tried out.
#pragma once

#include <math.h>

#include "call.h"

namespace penlight_test {

// A value, and how far a result of float32 arithmetic may be from it.
struct Exact {
  double value = 0, bound = 0;
};

class Sum {
 public:
  void add(double x) {
    value_ += x;
    magnitude_ += fabs(x);
    ++terms_;
  }
  void add(double x, double y) { add(x * y); }
  Exact get() const { return {value_, (terms_ + 2) * 6e-8 * magnitude_ + 1e-37}; }

 private:
  double value_ = 0, magnitude_ = 0, terms_ = 0;
};

constexpr int kActivationCount = 11;

// The numbers are those of the file format (kernels/optimized/vector/routines.h).
inline Exact activated(int activation, double low, double high, Exact sum) {
  const double x = sum.value;
  const double gate = x + 3 < 0 ? 0 : x + 3 > 6 ? 1 : (x + 3) / 6;
  const double table[kActivationCount] = {
      x,
      x < 0 ? 0 : x,
      x < low    ? low
      : x > high ? high
                 : x,
      1 / (1 + exp(-x)),
      tanh(x),
      x / (1 + exp(-x)),
      0.5 * x * (1 + erf(x * 0.70710678118654752)),
      0.5 * x * (1 + tanh(0.79788456080286536 * (x + 0.044715 * x * x * x))),
      gate,
      x * gate,
      x < 0 ? x * low : x,
  };
  // None is steeper than this; those with an exponential have an error of their own.
  const double steepness = activation == 10 ? (fabs(low) > 1 ? fabs(low) : 1) : 1.5;
  const double own = activation < 3 ? 0 : 5e-7 * (fabs(x) > 1 && activation >= 5 ? fabs(x) : 1);
  // What becomes of an infinity, as 0 by a ReLU, has no error.
  const bool is_finite = fabs(x) < HUGE_VAL;
  return {activation == 0 ? x : table[activation], is_finite ? steepness * sum.bound + own : 0};
}

struct Geometry {
  dim_t taps[2], stride[2], pad[2], dilation[2];
  dim_t groups;
  dim_t more[2];  // zeros behind than before, in padding
};

// weight: [outputs][channels of a group][tap of the rows][tap of the columns].
inline Exact convolve(const Array& input, const float* data, const float* weight, dim_t outputs,
                      const Geometry& g, dim_t image, dim_t output, dim_t row, dim_t column) {
  const dim_t per_group = input.size(1) / g.groups, group = output / (outputs / g.groups);
  Sum sum;
  for (dim_t i = 0; i < g.taps[0]; ++i) {
    const dim_t h = row * g.stride[0] - g.pad[0] + i * g.dilation[0];
    if (h < 0 || h >= input.size(2)) continue;
    for (dim_t j = 0; j < g.taps[1]; ++j) {
      const dim_t w = column * g.stride[1] - g.pad[1] + j * g.dilation[1];
      if (w < 0 || w >= input.size(3)) continue;
      for (dim_t c = 0; c < per_group; ++c) {
        sum.add(static_cast<double>(data[input.at(image, group * per_group + c, h, w)]),
                static_cast<double>(weight[((output * per_group + c) * g.taps[0] + i) * g.taps[1] + j]));
      }
    }
  }
  return sum.get();
}

inline double largest(const Array& input, const float* data, const Geometry& g, dim_t image, dim_t channel,
                      dim_t row, dim_t column) {
  double most = -HUGE_VAL;
  for (dim_t i = 0; i < g.taps[0]; ++i) {
    const dim_t h = row * g.stride[0] - g.pad[0] + i * g.dilation[0];
    if (h < 0 || h >= input.size(2)) continue;
    for (dim_t j = 0; j < g.taps[1]; ++j) {
      const dim_t w = column * g.stride[1] - g.pad[1] + j * g.dilation[1];
      if (w < 0 || w >= input.size(3)) continue;
      const double x = static_cast<double>(data[input.at(image, channel, h, w)]);
      if (x > most || x != x) most = x;
      if (x != x) return x;
    }
  }
  return most;
}

// One row of attention. The scores, at most 512, are of keys that the query sees; of
// no key at all, the row is zero, or NaN without a safe softmax.
struct Attended {
  double scores[512];
  double factor, error;  // 1 / sum of the exponentials; bound of a score's error

  void soften(dim_t keys, bool safe) {
    double most = -HUGE_VAL, total = 0;
    for (dim_t k = 0; k < keys; ++k) {
      if (!(scores[k] <= most)) most = scores[k];
      if (most != most) break;
    }
    if (most == -HUGE_VAL) most = 0;
    for (dim_t k = 0; k < keys; ++k) total += scores[k] = exp(scores[k] - most);
    factor = total == 0 ? (safe ? 0 : NAN) : 1 / total;
  }
};

// weight [outputs][depth], of which step k of the sum is at order(k), as panels of 16 outputs. Biases of -0
// are 0, as the compiler packs them.
template <class Order>
void pack_panels(const float* weight, const float* bias, dim_t outputs, dim_t depth, Order order, float* to) {
  for (dim_t first = 0; first < outputs; first += 16, to += (1 + depth) * 16) {
    for (dim_t k = -1; k < depth; ++k) {
      for (dim_t j = 0; j < 16; ++j) {
        const dim_t n = first + j;
        const float value = n >= outputs ? 0 : k < 0 ? bias[n] + 0.0f : weight[n * depth + order(k)];
        to[(k + 1) * 16 + j] = value;
      }
    }
  }
}

}  // namespace penlight_test
