// Orthogonal polynomials, by the recurrence that each family has.
#include "kernels/common/elementwise.h"

namespace penlight::portable {

namespace {

enum Family : uint8_t { Chebyshev, Hermite, HermiteOfProbability, Laguerre, Legendre };

// The polynomial of degree n at x, rounded down; 0 below degree 0.
struct Polynomial {
  Family family;
  double first_slope, first_offset;  // of the polynomial of degree 1
  bool shifted;                      // from [0, 1] to [-1, 1]

  // In double, as the terms of a step may cancel. What is too large for T is infinite from there on, as
  // in ATen: it decides between infinity and NaN.
  template <class T>
  T operator()(T x_, T degree) const {
    const double given = static_cast<double>(x_), x = shifted ? given + given - 1 : given;
    const int64_t n = convert<int64_t>(static_cast<double>(degree));
    if (n <= 0) return n < 0 ? T(0) : T(1);
    constexpr int64_t kMost = 1 << 20;  // so that a wild number does not run for years
    double before = 1, value = first_slope * x + first_offset;
    for (int64_t k = 1; k < n && value == value; ++k) {
      if (k > kMost) return static_cast<T>(__builtin_nan(""));
      const double next = step(x, static_cast<double>(k), value, before);
      const double kept = static_cast<double>(static_cast<T>(next));
      before = value;
      value = kept - kept == 0.0 ? next : kept;
    }
    return static_cast<T>(value);
  }

 private:
  // From degrees k and k - 1 to k + 1.
  double step(double x, double k, double value, double before) const {
    if (family == Chebyshev) return 2 * x * value - before;
    if (family == Hermite) return 2 * x * value - 2 * k * before;
    if (family == HermiteOfProbability) return x * value - k * before;
    const double slope = family == Laguerre ? 2 * k + 1 - x : (2 * k + 1) * x;  // else Legendre's
    return (slope * value - k * before) / (k + 1);
  }
};

}  // namespace

PENLIGHT_MAP_2(special_chebyshev_polynomial_t_out, Floating, Polynomial{Chebyshev, 1, 0, false})
PENLIGHT_MAP_2(special_chebyshev_polynomial_u_out, Floating, Polynomial{Chebyshev, 2, 0, false})
PENLIGHT_MAP_2(special_chebyshev_polynomial_v_out, Floating, Polynomial{Chebyshev, 2, -1, false})
PENLIGHT_MAP_2(special_chebyshev_polynomial_w_out, Floating, Polynomial{Chebyshev, 2, 1, false})
PENLIGHT_MAP_2(special_hermite_polynomial_h_out, Floating, Polynomial{Hermite, 2, 0, false})
PENLIGHT_MAP_2(special_hermite_polynomial_he_out, Floating, Polynomial{HermiteOfProbability, 1, 0, false})
PENLIGHT_MAP_2(special_laguerre_polynomial_l_out, Floating, Polynomial{Laguerre, -1, 1, false})
PENLIGHT_MAP_2(special_legendre_polynomial_p_out, Floating, Polynomial{Legendre, 1, 0, false})
PENLIGHT_MAP_2(special_shifted_chebyshev_polynomial_t_out, Floating, Polynomial{Chebyshev, 1, 0, true})
PENLIGHT_MAP_2(special_shifted_chebyshev_polynomial_u_out, Floating, Polynomial{Chebyshev, 2, 0, true})
PENLIGHT_MAP_2(special_shifted_chebyshev_polynomial_v_out, Floating, Polynomial{Chebyshev, 2, -1, true})
PENLIGHT_MAP_2(special_shifted_chebyshev_polynomial_w_out, Floating, Polynomial{Chebyshev, 2, 1, true})

}  // namespace penlight::portable
