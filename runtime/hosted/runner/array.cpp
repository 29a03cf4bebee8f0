#include "array.h"

#include <string.h>

namespace penlight::runner {

namespace {

// Calls `visit` with a pointer to element `index` of its own type.
template <class Visit>
void at_element(void* data, ScalarType dtype, size_t index, Visit visit) {
  switch (dtype) {
#define PENLIGHT_ELEMENT(type) return visit(static_cast<type*>(data) + index);
    case ScalarType::Byte:
      PENLIGHT_ELEMENT(uint8_t)
    case ScalarType::Char:
      PENLIGHT_ELEMENT(int8_t)
    case ScalarType::Short:
      PENLIGHT_ELEMENT(int16_t)
    case ScalarType::Int:
      PENLIGHT_ELEMENT(int32_t)
    case ScalarType::Long:
      PENLIGHT_ELEMENT(int64_t)
    case ScalarType::Half:
      PENLIGHT_ELEMENT(Half)
    case ScalarType::Float:
      PENLIGHT_ELEMENT(float)
    case ScalarType::Double:
      PENLIGHT_ELEMENT(double)
    case ScalarType::Bool:
      PENLIGHT_ELEMENT(bool)
    case ScalarType::BFloat16:
      PENLIGHT_ELEMENT(BFloat16)
    case ScalarType::UInt16:
      PENLIGHT_ELEMENT(uint16_t)
    case ScalarType::UInt32:
      PENLIGHT_ELEMENT(uint32_t)
    case ScalarType::UInt64:
      PENLIGHT_ELEMENT(uint64_t)
#undef PENLIGHT_ELEMENT
    default:  // shown as bytes
      return visit(static_cast<uint8_t*>(data) + index * element_size(dtype));
  }
}

double to_double(Half value) { return static_cast<float>(value); }
double to_double(BFloat16 value) { return static_cast<float>(value); }
template <class T>
double to_double(T value) {
  return static_cast<double>(value);
}

void from_double(Half& to, double value) { to = Half(static_cast<float>(value)); }
void from_double(BFloat16& to, double value) { to = BFloat16(static_cast<float>(value)); }
void from_double(bool& to, double value) { to = value != 0; }
template <class T>
void from_double(T& to, double value) {
  to = static_cast<T>(value);
}

// splitmix64 (Steele, Lea and Flood 2014): a good stream from any seed.
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Walks an array in row-major order of `sizes`, giving the offset by `strides`.
template <class Visit>
void walk(const dim_t* sizes, const dim_t* strides, size_t dim, size_t numel, Visit visit) {
  dim_t index[kMaxDim] = {};
  size_t offset = 0;
  for (size_t i = 0; i < numel; ++i) {
    visit(i, offset);
    for (size_t d = dim; d-- > 0;) {
      offset += static_cast<size_t>(strides[d]);
      if (++index[d] < sizes[d]) break;
      offset -= static_cast<size_t>(strides[d] * sizes[d]);
      index[d] = 0;
    }
  }
}

}  // namespace

size_t HostArray::numel() const {
  size_t count = 1;
  for (size_t d = 0; d < dim; ++d) count *= static_cast<size_t>(sizes[d]);
  return count;
}

bool HostArray::allocate(ScalarType type, size_t rank, const dim_t* shape) {
  dtype = type;
  dim = rank;
  size_t count = element_size(type);
  for (size_t d = 0; d < rank; ++d) {
    sizes[d] = shape[d];
    if (shape[d] > 0 && count > SIZE_MAX / 2 / static_cast<size_t>(shape[d])) return false;
    count *= static_cast<size_t>(shape[d]);
  }
  return bytes.allocate(count);
}

double element(const void* data, ScalarType dtype, size_t index) {
  double value = 0;
  at_element(const_cast<void*>(data), dtype, index, [&](auto* item) { value = to_double(*item); });
  return value;
}

void set_element(void* data, ScalarType dtype, size_t index, double value) {
  at_element(data, dtype, index, [&](auto* item) { from_double(*item, value); });
}

void fill(HostArray& array, Fill how, uint64_t seed) {
  uint64_t state = seed;
  const ScalarType part = part_of(array.dtype);
  const size_t parts = is_complex(array.dtype) ? 2 : 1;
  const size_t count = array.numel() * parts;
  for (size_t i = 0; i < count; ++i) {
    double value = how == Fill::Ones && i % parts == 0 ? 1 : 0;
    if (how == Fill::Random) {
      const uint64_t bits = next_random(state);
      value =
          is_floating(part) ? static_cast<double>(bits >> 11) * 0x1p-52 - 1 : static_cast<double>(bits >> 63);
    }
    set_element(array.bytes.data(), part, i, value);
  }
}

bool to_dim_order(HostArray& array, const uint8_t* order) {
  bool row_major = true;
  dim_t strides[kMaxDim];
  dim_t next = 1;
  for (size_t d = array.dim; d-- > 0;) {
    row_major &= order[d] == d;
    strides[order[d]] = next;
    next *= array.sizes[order[d]];
  }
  if (row_major) return true;
  hosted::Region moved;
  if (!moved.allocate(array.bytes.size())) return false;
  const size_t item = element_size(array.dtype);
  walk(array.sizes, strides, array.dim, array.numel(), [&](size_t from, size_t to) {
    memcpy(moved.data() + to * item, array.bytes.data() + from * item, item);
  });
  array.bytes.swap(moved);
  return true;
}

bool copy_output(const Tensor& tensor, HostArray& array) {
  if (!array.allocate(tensor.scalar_type(), static_cast<size_t>(tensor.dim()), tensor.sizes().data()))
    return false;
  const size_t item = tensor.element_size();
  const uint8_t* data = tensor.const_data_ptr<uint8_t>();
  walk(array.sizes, tensor.strides().data(), array.dim, array.numel(),
       [&](size_t to, size_t from) { memcpy(array.bytes.data() + to * item, data + from * item, item); });
  return true;
}

}  // namespace penlight::runner
