// Filling a view with one value.
#pragma once

#include "kernels/common/convert.h"
#include "kernels/common/view.h"

namespace penlight {

// The value of a tensor with one element.
inline Scalar item_of(const Tensor& tensor) {
  if (tensor.scalar_type() == ScalarType::Bool) return Scalar(*tensor.const_data_ptr<bool>());
  if (is_floating(tensor.scalar_type())) {
    return Scalar(load_element<double>(tensor.scalar_type(), tensor.const_data_ptr()));
  }
  return Scalar(load_element<int64_t>(tensor.scalar_type(), tensor.const_data_ptr()));
}

// The bytes of `value` as an element of `dtype`, converted as convert.h does.
inline bool scalar_item(KernelContext& ctx, Scalar value, ScalarType dtype, char* item) {
  const auto put = [item](auto element) { memcpy(item, &element, sizeof element); };
  const int64_t integer =
      value.isFloatingPoint() ? detail::truncate_to_int64(value.to<double>()) : value.to<int64_t>();
  switch (dtype) {
    case ScalarType::Bool:
      put(value.isFloatingPoint() ? value.to<double>() != 0 : integer != 0);
      break;
    case ScalarType::Byte:
      put(static_cast<uint8_t>(integer));
      break;
    case ScalarType::Char:
      put(static_cast<int8_t>(integer));
      break;
    case ScalarType::Short:
    case ScalarType::UInt16:
      put(static_cast<uint16_t>(integer));
      break;
    case ScalarType::Int:
    case ScalarType::UInt32:
      put(static_cast<uint32_t>(integer));
      break;
    case ScalarType::Long:
    case ScalarType::UInt64:
      put(integer);
      break;
    case ScalarType::Half:
      put(Half(value.to<float>()));
      break;
    case ScalarType::BFloat16:
      put(BFloat16(value.to<float>()));
      break;
    case ScalarType::Float:
      put(value.to<float>());
      break;
    case ScalarType::Double:
      put(value.to<double>());
      break;
    case ScalarType::ComplexFloat: {
      const float parts[2] = {value.to<float>(), 0};
      memcpy(item, parts, sizeof parts);
      break;
    }
    case ScalarType::ComplexDouble: {
      const double parts[2] = {value.to<double>(), 0};
      memcpy(item, parts, sizeof parts);
      break;
    }
    default:
      return ctx.refuse(Status::NotSupported, "no scalar of dtype {}", dtype_name(dtype));
  }
  return true;
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
      if (sizes[side] == 0) continue;
      View slab = to;
      slab.data += starts[side] * to.strides[d];
      slab.sizes[d] = sizes[side];
      fill_view(element_size, item, slab);
    }
    to.data += before[d] * to.strides[d];
    to.sizes[d] = from.sizes[d];
  }
  move_view(element_size, from, to);
}

}  // namespace penlight
