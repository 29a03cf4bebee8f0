// Filling a view with one value.
#pragma once

#include "kernels/common/convert.h"
#include "kernels/common/view.h"

namespace penlight {

// The value of a tensor with one element.
inline Scalar item_of(const Tensor& tensor) {
  if (tensor.scalar_type() == ScalarType::Bool) return Scalar(*tensor.const_data_ptr<bool>());
  if (is_floating(tensor.scalar_type())) return Scalar(load_element<double>(tensor, 0));
  return Scalar(load_element<int64_t>(tensor, 0));
}

// The bytes of `value` as an element of `dtype`, converted as convert.h does.
inline bool scalar_item(KernelContext& ctx, Scalar value, ScalarType dtype, char* item) {
  const auto put = [item](const auto& element) {
    memcpy(item, &element, sizeof element);
    return true;
  };
  const float single = value.to<float>(), complex64[] = {single, 0};
  const double wide = value.to<double>(), complex128[] = {wide, 0};
  const int64_t integer = value.isFloatingPoint() ? detail::truncate_to_int64(wide) : value.to<int64_t>();
  if (dtype == ScalarType::Bool) return put(value.isFloatingPoint() ? wide != 0 : integer != 0);
  if (dtype == ScalarType::Half) return put(Half(single));
  if (dtype == ScalarType::BFloat16) return put(BFloat16(single));
  if (dtype == ScalarType::Float) return put(single);
  if (dtype == ScalarType::Double) return put(wide);
  if (dtype == ScalarType::ComplexFloat) return put(complex64);
  if (dtype == ScalarType::ComplexDouble) return put(complex128);
  if (!is_integral(dtype))
    return ctx.refuse(Status::NotSupported, "no scalar of dtype {}", dtype_name(dtype));
  return dispatch_bytes(ctx, dtype,
                        [&](auto tag) { put(static_cast<typename decltype(tag)::type>(integer)); });
}

inline void fill_view(size_t element_size, const char* item, const View& to) {
  dim_t still[kMaxViewDim] = {};
  Mover(element_size, to.dim, to.sizes, still, to.strides).run(item, to.data);
}

// `from` in `to`, before[d] elements from its start in dimension d, and `item` around it.
inline void move_padded(size_t element_size, const View& from, const dim_t* before, const char* item,
                        View to) {
  // Each dimension in turn gives two slabs of the item and leaves the rest.
  for (int d = 0; d < to.dim; ++d) {
    const dim_t starts[] = {0, before[d] + from.sizes[d]}, sizes[] = {before[d], to.sizes[d] - starts[1]};
    for (int side = 0; side < 2; ++side) {
      if (sizes[side] > 0) fill_view(element_size, item, part_of(to, d, starts[side], sizes[side]));
    }
    to = part_of(to, d, before[d], from.sizes[d]);
  }
  move_view(element_size, from, to);
}

}  // namespace penlight
