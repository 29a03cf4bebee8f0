// Complex numbers: one more compute type, always of two doubles.
//
// load_block and store_block convert from and to complex64, complex128 and, for
// operands of mixed dtypes, real elements; elementwise functors are compiled for it
// where their domain is Number or FloatingNumber (elementwise.h).
#pragma once

#include "kernels/common/convert.h"
#include "kernels/common/math.h"

namespace penlight {

struct Complex {
  double re, im;
  Complex() = default;
  constexpr Complex(double real, double imaginary = 0) : re(real), im(imaginary) {}
};

inline Complex operator-(Complex a) { return {-a.re, -a.im}; }
inline Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
inline Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
inline Complex operator*(Complex a, Complex b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
inline bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
inline bool operator!=(Complex a, Complex b) { return !(a == b); }

// Scaled by the larger part of the divisor, whose square may not be a number.
inline Complex operator/(Complex a, Complex b) {
  if (math::fabs(b.re) >= math::fabs(b.im)) {
    if (b.re == 0 && b.im == 0) return {a.re / math::fabs(b.re), a.im / math::fabs(b.im)};
    const double ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
    return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
  }
  const double ratio = b.re / b.im, scale = 1 / (b.re * ratio + b.im);
  return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

namespace math {

inline bool is_nan(Complex x) { return is_nan(x.re) || is_nan(x.im); }
inline double abs(Complex x) { return hypot(x.re, x.im); }
inline Complex exp(Complex x) {
  const double scale = exp(x.re);
  return x.im == 0 ? Complex(scale, x.im) : Complex(scale * cos(x.im), scale * sin(x.im));
}
inline Complex log(Complex x) { return {log(abs(x)), atan2(x.im, x.re)}; }
inline Complex sin(Complex x) { return {sin(x.re) * cosh(x.im), cos(x.re) * sinh(x.im)}; }
inline Complex cos(Complex x) { return {cos(x.re) * cosh(x.im), -sin(x.re) * sinh(x.im)}; }

inline Complex sinh(Complex x) { return {sinh(x.re) * cos(x.im), cosh(x.re) * sin(x.im)}; }
inline Complex cosh(Complex x) { return {cosh(x.re) * cos(x.im), sinh(x.re) * sin(x.im)}; }
inline Complex tanh(Complex x) {
  if (fabs(x.re) > 20) return {copysign(1.0, x.re), 0};  // what is missing is below 1e-17
  const double scale = cosh(2 * x.re) + cos(2 * x.im);
  return {sinh(2 * x.re) / scale, sin(2 * x.im) / scale};
}
inline Complex tan(Complex x) {
  const Complex turned = tanh(Complex(-x.im, x.re));
  return {turned.im, -turned.re};
}
inline Complex log2(Complex x) { return log(x) * Complex(1.44269504088896340736); }
inline Complex log10(Complex x) { return log(x) * Complex(0.43429448190325182765); }

// The root with a real part that is not negative.
inline Complex sqrt(Complex x) {
  if (x.re == 0 && x.im == 0) return {0, x.im};
  const double part = sqrt((math::fabs(x.re) + abs(x)) * 0.5), other = x.im / (2 * part);
  return x.re >= 0 ? Complex(part, other) : Complex(math::fabs(other), copysign(part, x.im));
}

inline Complex pow(Complex base, Complex exponent) {
  if (exponent.re == 0 && exponent.im == 0) return 1;
  if (base.re == 0 && base.im == 0) return exponent.re > 0 ? Complex(0) : base / base;
  return exp(exponent * log(base));
}

}  // namespace math

PENLIGHT_BY_DTYPES_BEGIN
constexpr bool kComplexSelected =
    dtype_selected(ScalarType::ComplexFloat) || dtype_selected(ScalarType::ComplexDouble);
PENLIGHT_BY_DTYPES_END

template <>
inline constexpr bool is_floating_type<Complex> = true;

template <>
struct ScalarTypeOf<Complex> {
  static constexpr ScalarType value = ScalarType::ComplexDouble;
};

template <>
void load_block<Complex>(Complex* to, ScalarType type, const void* from, dim_t stride, dim_t count);

// What is stored to a real dtype is the real part.
template <>
void store_block<Complex>(ScalarType type, void* to, dim_t stride, const Complex* from, dim_t count);

// The real (0) or imaginary (1) parts of a complex tensor, as a tensor over its memory.
class ComplexPart {
 public:
  ComplexPart(const Tensor& of, int part) : impl_(*of.unsafeGetTensorImpl()) {
    impl_.dtype = of.dtype() == ScalarType::ComplexDouble ? ScalarType::Double : ScalarType::Float;
    impl_.data = static_cast<char*>(impl_.data) + static_cast<size_t>(part) * element_size(impl_.dtype);
    impl_.strides = strides_;
    impl_.dynamism = Dynamism::Static;
    for (int d = 0; d < impl_.dim; ++d) strides_[d] = 2 * of.stride(d);
    tensor_ = Tensor(&impl_);
  }
  ComplexPart(const ComplexPart&) = delete;
  Tensor& tensor() { return tensor_; }

 private:
  TensorImpl impl_;
  dim_t strides_[kMaxDim];
  Tensor tensor_;
};

}  // namespace penlight
