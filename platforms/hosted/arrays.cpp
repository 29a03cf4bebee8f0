#include "arrays.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

namespace penlight::embedded {

namespace {

// numpy's code without byte order.
struct Code {
  char text[4];
  ScalarType dtype;
};
constexpr Code kCodes[] = {
    {"f4", ScalarType::Float},          {"i8", ScalarType::Long},     {"i4", ScalarType::Int},
    {"u1", ScalarType::Byte},           {"i1", ScalarType::Char},     {"b1", ScalarType::Bool},
    {"f2", ScalarType::Half},           {"V2", ScalarType::BFloat16},  // as ml_dtypes saves it
    {"f8", ScalarType::Double},         {"i2", ScalarType::Short},    {"u2", ScalarType::UInt16},
    {"u4", ScalarType::UInt32},         {"u8", ScalarType::UInt64},   {"c8", ScalarType::ComplexFloat},
    {"c16", ScalarType::ComplexDouble},
};

// Integers of every width, as the 64 bits they are stored from and read to.
void put_integer(uint8_t* to, size_t item, uint64_t value) {
  for (size_t i = 0; i < item; ++i) to[i] = static_cast<uint8_t>(value >> (8 * i));
}

int64_t get_integer(const uint8_t* from, size_t item, bool sign) {
  uint64_t value = 0;
  for (size_t i = 0; i < item; ++i) value |= uint64_t{from[i]} << (8 * i);
  if (sign && item < 8 && (value >> (8 * item - 1)) != 0) value |= ~uint64_t{0} << (8 * item);
  return static_cast<int64_t>(value);
}

void put_float(uint8_t* to, ScalarType dtype, double value) {
  const float single = static_cast<float>(value);
  const Half half(single);
  const BFloat16 brain(single);
  if (dtype == ScalarType::Double) memcpy(to, &value, sizeof value);
  if (dtype == ScalarType::Float) memcpy(to, &single, sizeof single);
  if (dtype == ScalarType::Half) memcpy(to, &half, sizeof half);
  if (dtype == ScalarType::BFloat16) memcpy(to, &brain, sizeof brain);
}

double get_float(const uint8_t* from, ScalarType dtype) {
  double value = 0;
  float single = 0;
  Half half(0.0f);
  BFloat16 brain(0.0f);
  if (dtype == ScalarType::Double) memcpy(&value, from, sizeof value);
  if (dtype == ScalarType::Float) memcpy(&single, from, sizeof single);
  if (dtype == ScalarType::Half) memcpy(&half, from, sizeof half);
  if (dtype == ScalarType::BFloat16) memcpy(&brain, from, sizeof brain);
  if (dtype == ScalarType::Half) single = static_cast<float>(half);
  if (dtype == ScalarType::BFloat16) single = static_cast<float>(brain);
  return dtype == ScalarType::Double ? value : static_cast<double>(single);
}

// splitmix64 (Steele, Lea and Flood 2014).
uint64_t next_random(uint64_t& state) {
  uint64_t z = state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// Calls visit(i, offset) in row-major order of `sizes`; offsets by `strides`.
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

// The text behind `'key':`; null when there is none.
const char* after_key(const char* header, const char* key) {
  const char* found = strstr(header, key);
  if (!found) return nullptr;
  found += strlen(key);
  while (*found == ' ' || *found == ':' || *found == '\'') ++found;
  return found;
}

bool parse_shape(const char* text, HostArray& array) {
  if (*text++ != '(') return false;
  array.dim = 0;
  for (;;) {
    while (*text == ' ' || *text == ',') ++text;
    if (*text == ')') return true;
    char* end;
    const long size = strtol(text, &end, 10);
    if (end == text || size < 0 || array.dim == kMaxDim) return false;
    array.sizes[array.dim++] = static_cast<dim_t>(size);
    text = end;
  }
}

// Dtype and sizes from a .npy header; the file then stands at the elements.
bool read_header(FILE* file, HostArray& array) {
  uint8_t prefix[12];
  char header[4096];
  if (fread(prefix, 1, 10, file) != 10 || memcmp(prefix, "\x93NUMPY", 6) != 0) return false;
  size_t length = prefix[8] | size_t{prefix[9]} << 8;
  if (prefix[6] > 1) {
    if (fread(prefix + 10, 1, 2, file) != 2) return false;
    length |= size_t{prefix[10]} << 16 | size_t{prefix[11]} << 24;
  }
  if (length >= sizeof header || fread(header, 1, length, file) != length) return false;
  header[length] = '\0';
  const char* descr = after_key(header, "'descr'");
  const char* fortran = after_key(header, "'fortran_order'");
  const char* shape = after_key(header, "'shape'");
  if (!descr || !fortran || !shape || *descr == '>' || *fortran != 'F') return false;
  for (const Code& code : kCodes) {
    const size_t letters = strlen(code.text);
    if (strncmp(descr + 1, code.text, letters) != 0 || descr[1 + letters] != '\'') continue;
    array.dtype = code.dtype;
    return parse_shape(shape, array);
  }
  return false;
}

}  // namespace

void* allocate(size_t bytes) {
  if (bytes > SIZE_MAX - 64) return nullptr;
  uint8_t* raw = static_cast<uint8_t*>(calloc(1, bytes + 64));
  return raw ? raw + (64 - reinterpret_cast<uintptr_t>(raw) % 64) : nullptr;
}

size_t HostArray::numel() const {
  size_t count = 1;
  for (size_t d = 0; d < dim; ++d) count *= static_cast<size_t>(sizes[d]);
  return count;
}

bool HostArray::allocate() {
  size_t bytes = element_size(dtype);
  for (size_t d = 0; d < dim; ++d) {
    if (sizes[d] > 0 && bytes > SIZE_MAX / 2 / static_cast<size_t>(sizes[d])) return false;
    bytes *= static_cast<size_t>(sizes[d]);
  }
  data = static_cast<uint8_t*>(embedded::allocate(bytes));
  return data != nullptr;
}

void fill(HostArray& array, Fill how, uint64_t seed) {
  uint64_t state = seed;
  const ScalarType part = part_of(array.dtype);
  const size_t item = element_size(part), parts = is_complex(array.dtype) ? 2 : 1;
  const size_t count = array.numel() * parts;
  for (size_t i = 0; i < count; ++i) {
    uint8_t* to = array.data + i * item;
    const uint64_t bits = how == Fill::Random ? next_random(state) : 0;
    const int one = how == Fill::Ones && i % parts == 0 ? 1 : 0;
    if (is_floating(part)) {
      const double random = static_cast<double>(bits >> 11) * 0x1p-52 - 1;
      put_float(to, part, how == Fill::Random ? random : one);
    } else {
      put_integer(to, item, one ? 1 : bits >> 63);
    }
  }
}

Status read_array(const char* path, HostArray& array, Message& message) {
  const size_t length = strlen(path);
  const bool npy = length > 4 && strcmp(path + length - 4, ".npy") == 0;
  FILE* file = fopen(path, "rb");
  if (!file) {
    message.set("cannot open {}: {}", path, strerror(errno));
    return Status::AccessFailed;
  }
  Status status = Status::Ok;
  if (npy && !read_header(file, array)) {
    message.set("{} is no .npy file of numbers in row-major, little-endian order", path);
    status = Status::InvalidArgument;
  } else if (!array.allocate()) {
    message.set("{} needs more memory than there is", path);
    status = Status::OutOfMemory;
  } else {
    const size_t bytes = array.numel() * element_size(array.dtype);
    const size_t read = fread(array.data, 1, bytes, file);
    if (read != bytes || fgetc(file) != EOF) {
      message.set("{} does not hold exactly {} bytes of elements", path, bytes);
      status = Status::InvalidArgument;
    }
  }
  fclose(file);
  return status;
}

Status write_npy(const char* path, const HostArray& array, Message& message) {
  const char* code = nullptr;
  for (const Code& known : kCodes) {
    if (known.dtype == array.dtype) code = known.text;
  }
  if (!code) {
    message.set("{} cannot be saved: numpy has no type for {}", path, dtype_name(array.dtype));
    return Status::NotSupported;
  }
  char header[1024];
  const size_t item = element_size(array.dtype);
  int used = snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                      item == 1 ? '|' : '<', code);
  for (size_t d = 0; d < array.dim; ++d) {
    used += snprintf(header + used, sizeof header - static_cast<size_t>(used), "%ld,",
                     static_cast<long>(array.sizes[d]));
  }
  used += snprintf(header + used, sizeof header - static_cast<size_t>(used), "), }");
  while ((10 + used + 1) % 64 != 0) header[used++] = ' ';
  header[used++] = '\n';
  const uint8_t start[] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<uint8_t>(used & 255), static_cast<uint8_t>(used >> 8)};
  FILE* file = fopen(path, "wb");
  bool written = file && fwrite(start, 1, sizeof start, file) == sizeof start;
  written = written && fwrite(header, 1, static_cast<size_t>(used), file) == static_cast<size_t>(used);
  written = written && fwrite(array.data, item, array.numel(), file) == array.numel();
  if (file && fclose(file) != 0) written = false;
  if (written) return Status::Ok;
  message.set("cannot write {}: {}", path, strerror(errno));
  return Status::AccessFailed;
}

void* in_dim_order(const HostArray& array, const uint8_t* order) {
  const size_t item = element_size(array.dtype);
  dim_t strides[kMaxDim], next = 1;
  for (size_t d = array.dim; d-- > 0;) {
    strides[order[d]] = next;
    next *= array.sizes[order[d]];
  }
  uint8_t* moved = static_cast<uint8_t*>(allocate(array.numel() * item));
  if (!moved) return nullptr;
  walk(array.sizes, strides, array.dim, array.numel(),
       [&](size_t from, size_t to) { memcpy(moved + to * item, array.data + from * item, item); });
  return moved;
}

bool copy_tensor(const Tensor& tensor, HostArray& array) {
  array.dtype = tensor.scalar_type();
  array.dim = static_cast<size_t>(tensor.dim());
  for (size_t d = 0; d < array.dim; ++d) array.sizes[d] = tensor.sizes()[d];
  if (!array.allocate()) return false;
  const size_t item = tensor.element_size();
  const uint8_t* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
  walk(array.sizes, tensor.strides().data(), array.dim, array.numel(),
       [&](size_t to, size_t from) { memcpy(array.data + to * item, data + from * item, item); });
  return true;
}

void element_text(const HostArray& array, size_t index, char* text, size_t size) {
  const size_t item = element_size(array.dtype);
  const uint8_t* from = array.data + index * item;
  const ScalarType part = part_of(array.dtype);
  if (is_complex(array.dtype)) {
    snprintf(text, size, "%.9g%+.9gj", get_float(from, part), get_float(from + item / 2, part));
  } else if (is_floating(array.dtype)) {
    snprintf(text, size, "%.9g", get_float(from, array.dtype));
  } else {
    const bool sign = array.dtype == ScalarType::Char || array.dtype == ScalarType::Short ||
                      array.dtype == ScalarType::Int || array.dtype == ScalarType::Long;
    const int64_t value = get_integer(from, item, sign);
    if (sign) {
      snprintf(text, size, "%lld", static_cast<long long>(value));
    } else {
      snprintf(text, size, "%llu", static_cast<unsigned long long>(value));
    }
  }
}

}  // namespace penlight::embedded
