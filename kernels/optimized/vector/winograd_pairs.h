// The one-dimensional transforms of minimal filters with more taps than three, whose points are 0, infinity
// and pairs of a number and its negative.
//
// With a polynomial S of x^2 whose roots are the other pairs, what the input is at the points p and -p is
// the sum and the difference of x^2 S and p x S, taken as coefficients of the input. So are the weights those
// of even and of odd taps, and the outputs those of sums and differences of the products.
#pragma once

#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

// Positive points, as many as kOut outputs of kTaps taps have pairs. Those of seven taps were searched for
// among small fractions: powers of two lie too far apart, and lose several times as much.
template <int kOut, int kTaps>
constexpr double kPairs[(kOut + kTaps) / 2 - 1] = {};
template <>
constexpr double kPairs<4, 5>[3] = {1.0, 2.0, 0.5};
template <>
constexpr double kPairs<4, 7>[4] = {2.0, 0.5, 0.75, 1.25};

// What the transforms multiply by. All is exact in single precision but what is for sums.
template <int kOut, int kTaps>
struct PairConstants {
  static constexpr int kPoints = kOut + kTaps - 1, kCount = kPoints / 2 - 1;
  static_assert(kPoints % 2 == 0, "points but 0 and infinity are in pairs");

  float all[kCount + 1];         // the polynomial of x^2 whose roots are all pairs, from x^0 on
  float even[kCount][kCount];    // that of all pairs but one
  float odd[kCount][kCount];     // and so many times the point
  float weights[kCount][kTaps];  // powers of the point
  float sums[kCount][kOut];      // powers of the point, by the products' denominator
  float first;                   // of the sum at 0

  constexpr PairConstants() : all(), even(), odd(), weights(), sums(), first() {
    double whole[kCount + 1] = {1.0};
    for (int i = 0; i < kCount; ++i) multiply(whole, i, kPairs<kOut, kTaps>[i]);
    for (int i = 0; i <= kCount; ++i) all[i] = static_cast<float>(whole[i]);
    first = static_cast<float>(1.0 / whole[0]);
    for (int i = 0; i < kCount; ++i) {
      const double point = kPairs<kOut, kTaps>[i], square = point * point;
      double others[kCount + 1] = {1.0}, at = 0.0;
      for (int j = 0, degree = 0; j < kCount; ++j) {
        if (j != i) multiply(others, degree++, kPairs<kOut, kTaps>[j]);
      }
      for (int j = kCount - 1; j >= 0; --j) at = at * square + others[j];
      for (int j = 0; j < kCount; ++j) {
        even[i][j] = static_cast<float>(others[j]);
        odd[i][j] = static_cast<float>(others[j] * point);
      }
      double power = 1.0;
      for (int j = 0; j < kTaps; ++j, power *= point) {
        weights[i][j] = static_cast<float>(power);
        if (j < kOut) sums[i][j] = static_cast<float>(power / (2.0 * square * at));
      }
    }
  }

 private:
  // A polynomial of x^2 of so high a degree times x^2 - point^2.
  static constexpr void multiply(double (&polynomial)[kCount + 1], int degree, double point) {
    for (int i = degree + 1; i >= 0; --i) {
      polynomial[i] = (i > 0 ? polynomial[i - 1] : 0.0) - point * point * (i <= degree ? polynomial[i] : 0.0);
    }
  }
};

template <int kOut, int kTaps>
struct PairFilter {
  using Constants = PairConstants<kOut, kTaps>;
  static constexpr int kPoints = Constants::kPoints, kCount = Constants::kCount;
  static constexpr Constants kConstants{};

  PENLIGHT_INLINE void weights(const Floats (&g)[kTaps], Floats (&u)[kPoints]) {
    u[0] = g[0];
    repeat<kCount>([&](auto i) __attribute__((always_inline)) {
      Floats even = g[0], odd = splat(kConstants.weights[i][1]) * g[1];
      repeat<kTaps - 2>([&](auto j) __attribute__((always_inline)) {
        Floats& sum = j % 2 == 0 ? even : odd;
        sum += splat(kConstants.weights[i][j + 2]) * g[j + 2];
      });
      u[1 + 2 * i] = even + odd;
      u[2 + 2 * i] = even - odd;
    });
    u[kPoints - 1] = g[kTaps - 1];
  }

  PENLIGHT_INLINE void input(const Floats (&d)[kPoints], Floats (&v)[kPoints]) {
    Floats zero = splat(kConstants.all[0]) * d[0], infinity = splat(kConstants.all[0]) * d[1];
    repeat<kCount>([&](auto j) __attribute__((always_inline)) {
      zero += splat(kConstants.all[j + 1]) * d[2 * j + 2];
      infinity += splat(kConstants.all[j + 1]) * d[2 * j + 3];
    });
    v[0] = zero;
    v[kPoints - 1] = infinity;
    repeat<kCount>([&](auto i) __attribute__((always_inline)) {
      Floats even = splat(kConstants.even[i][0]) * d[2], odd = splat(kConstants.odd[i][0]) * d[1];
      repeat<kCount - 1>([&](auto j) __attribute__((always_inline)) {
        even += splat(kConstants.even[i][j + 1]) * d[2 * j + 4];
        odd += splat(kConstants.odd[i][j + 1]) * d[2 * j + 3];
      });
      v[1 + 2 * i] = even + odd;
      v[2 + 2 * i] = even - odd;
    });
  }

  PENLIGHT_INLINE void output(const Floats (&m)[kPoints], Floats (&y)[kOut]) {
    y[0] = splat(kConstants.first) * m[0];
    repeat<kOut - 1>([&](auto j) __attribute__((always_inline)) { y[j + 1] = Floats{}; });
    y[kOut - 1] += m[kPoints - 1];
    repeat<kCount>([&](auto i) __attribute__((always_inline)) {
      const Floats sum = m[1 + 2 * i] + m[2 + 2 * i], difference = m[1 + 2 * i] - m[2 + 2 * i];
      repeat<kOut>([&](auto j) __attribute__((always_inline)) {
        y[j] += splat(kConstants.sums[i][j]) * (j % 2 == 0 ? sum : difference);
      });
    });
  }
};

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
