#include "kernels/common/complex.h"

namespace penlight {

namespace {

template <class T>
void load_parts(Complex* to, const T* from, dim_t stride, dim_t count) {
  for (dim_t i = 0; i < count; ++i) to[i] = {from[2 * i * stride], from[2 * i * stride + 1]};
}

template <class T>
void store_parts(T* to, dim_t stride, const Complex* from, dim_t count) {
  for (dim_t i = 0; i < count; ++i) {
    to[2 * i * stride] = static_cast<T>(from[i].re);
    to[2 * i * stride + 1] = static_cast<T>(from[i].im);
  }
}

constexpr dim_t kReals = 64;

}  // namespace

template <>
void load_block<Complex>(Complex* to, ScalarType type, const void* from, dim_t stride, dim_t count) {
  if (type == ScalarType::ComplexFloat) return load_parts(to, static_cast<const float*>(from), stride, count);
  if (type == ScalarType::ComplexDouble) {
    return load_parts(to, static_cast<const double*>(from), stride, count);
  }
  const dim_t step = stride * static_cast<dim_t>(element_size(type));
  for (dim_t done = 0; done < count; done += kReals) {
    const dim_t some = count - done < kReals ? count - done : kReals;
    double reals[kReals];
    load_block(reals, type, static_cast<const char*>(from) + done * step, stride, some);
    for (dim_t i = 0; i < some; ++i) to[done + i] = reals[i];
  }
}

template <>
void store_block<Complex>(ScalarType type, void* to, dim_t stride, const Complex* from, dim_t count) {
  if (type == ScalarType::ComplexFloat) return store_parts(static_cast<float*>(to), stride, from, count);
  if (type == ScalarType::ComplexDouble) return store_parts(static_cast<double*>(to), stride, from, count);
  const dim_t step = stride * static_cast<dim_t>(element_size(type));
  for (dim_t done = 0; done < count; done += kReals) {
    const dim_t some = count - done < kReals ? count - done : kReals;
    double reals[kReals];
    for (dim_t i = 0; i < some; ++i) reals[i] = from[done + i].re;
    store_block(type, static_cast<char*>(to) + done * step, stride, reals, some);
  }
}

}  // namespace penlight
