// numpy's .npy: magic, version, length of a header that is a Python dict literal,
// then the elements.
#include <errno.h>
#include <penlight/file_loader.h>
#include <stdio.h>
#include <string.h>

#include "array.h"

namespace penlight::runner {

namespace {

struct DtypeCode {
  const char* code;  // numpy's, without byte order
  ScalarType dtype;
};

constexpr DtypeCode kCodes[] = {
    {"u1", ScalarType::Byte},         {"i1", ScalarType::Char},
    {"i2", ScalarType::Short},        {"i4", ScalarType::Int},
    {"i8", ScalarType::Long},         {"f2", ScalarType::Half},
    {"f4", ScalarType::Float},        {"f8", ScalarType::Double},
    {"b1", ScalarType::Bool},         {"u2", ScalarType::UInt16},
    {"u4", ScalarType::UInt32},       {"u8", ScalarType::UInt64},
    {"c8", ScalarType::ComplexFloat}, {"c16", ScalarType::ComplexDouble},
    {"V2", ScalarType::BFloat16},  // how ml_dtypes saves it
};

// The text behind `'key':`; null when there is none.
const char* after_key(const char* header, const char* key) {
  const char* found = strstr(header, key);
  if (!found) return nullptr;
  found += strlen(key);
  while (*found == ' ' || *found == ':' || *found == '\'') ++found;
  return found;
}

bool parse_shape(const char* text, size_t& dim, dim_t* sizes) {
  if (*text++ != '(') return false;
  dim = 0;
  for (;;) {
    while (*text == ' ' || *text == ',') ++text;
    if (*text == ')') return true;
    if (*text < '0' || *text > '9' || dim == kMaxDim) return false;
    int64_t size = 0;
    for (; *text >= '0' && *text <= '9'; ++text) {
      if (size > (int64_t{1} << 50)) return false;
      size = size * 10 + (*text - '0');
    }
    sizes[dim++] = static_cast<dim_t>(size);
  }
}

void swap_bytes(uint8_t* data, size_t count, size_t item) {
  for (size_t i = 0; i < count; ++i, data += item) {
    for (size_t a = 0, b = item - 1; a < b; ++a, --b) {
      const uint8_t kept = data[a];
      data[a] = data[b];
      data[b] = kept;
    }
  }
}

}  // namespace

Status read_npy(const char* path, HostArray& array, Message& message) {
  MappedFile file;
  if (const Status status = file.open(path, &message); status != Status::Ok) return status;
  const uint8_t* bytes = static_cast<const uint8_t*>(file.data());
  if (file.size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0) {
    message.set("{} is not a .npy file", path);
    return Status::InvalidArgument;
  }
  const size_t prefix = bytes[6] == 1 ? 10 : 12;
  const size_t length = bytes[6] == 1 ? bytes[8] | bytes[9] << 8
                                      : bytes[8] | bytes[9] << 8 | bytes[10] << 16 | size_t{bytes[11]} << 24;
  char header[4096];
  if (length >= sizeof header || prefix + length > file.size) {
    message.set("{} has a header of {} bytes, which cannot be", path, length);
    return Status::InvalidArgument;
  }
  memcpy(header, bytes + prefix, length);
  header[length] = '\0';

  const char* descr = after_key(header, "'descr'");
  const char* fortran = after_key(header, "'fortran_order'");
  const char* shape = after_key(header, "'shape'");
  size_t dim = 0;
  dim_t sizes[kMaxDim];
  if (!descr || !fortran || !shape || !parse_shape(shape, dim, sizes)) {
    message.set("{} has a header that cannot be read: {}", path, header);
    return Status::InvalidArgument;
  }
  const DtypeCode* found = nullptr;
  for (const DtypeCode& code : kCodes) {
    const size_t letters = strlen(code.code);
    if (*descr && strncmp(descr + 1, code.code, letters) == 0 && descr[1 + letters] == '\'') found = &code;
  }
  if (!found) {
    char name[24];
    snprintf(name, sizeof name, "%.*s", static_cast<int>(strcspn(descr, "'")), descr);
    message.set("{} holds elements of type {}, which tensors cannot have", path, name);
    return Status::InvalidArgument;
  }

  const bool column_major = strncmp(fortran, "True", 4) == 0;
  // Column-major is row-major of the reversed sizes.
  dim_t stored[kMaxDim];
  for (size_t d = 0; d < dim; ++d) stored[d] = column_major ? sizes[dim - 1 - d] : sizes[d];
  HostArray raw;
  if (!raw.allocate(found->dtype, dim, stored)) {
    message.set("{} needs more memory than there is", path);
    return Status::OutOfMemory;
  }
  const size_t item = element_size(found->dtype);
  const size_t count = raw.numel();
  if (file.size - prefix - length < count * item) {
    message.set("{} is truncated: {} bytes of elements, {} are needed", path, file.size - prefix - length,
                count * item);
    return Status::InvalidArgument;
  }
  if (count) memcpy(raw.bytes.data(), bytes + prefix + length, count * item);
  if (descr[0] == '>') {
    const size_t part = element_size(part_of(found->dtype));
    swap_bytes(raw.bytes.data(), count * item / part, part);
  }

  array.dtype = found->dtype;
  array.dim = dim;
  if (column_major) {
    uint8_t order[kMaxDim];
    for (size_t d = 0; d < dim; ++d) order[d] = static_cast<uint8_t>(dim - 1 - d);
    if (!to_dim_order(raw, order)) return Status::OutOfMemory;
  }
  for (size_t d = 0; d < dim; ++d) array.sizes[d] = sizes[d];
  array.bytes.swap(raw.bytes);
  return Status::Ok;
}

Status write_npy(const char* path, const HostArray& array, Message& message) {
  const char* code = nullptr;
  for (const DtypeCode& known : kCodes) {
    if (known.dtype == array.dtype) code = known.code;
  }
  if (!code) {
    message.set("{} cannot be saved: numpy has no type for {}", path, dtype_name(array.dtype));
    return Status::NotSupported;
  }
  char header[1024];
  const char order = element_size(array.dtype) == 1 ? '|' : '<';
  int used =
      snprintf(header, sizeof header, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order, code);
  for (size_t d = 0; d < array.dim; ++d) {
    used += snprintf(header + used, sizeof header - static_cast<size_t>(used), "%lld,%s",
                     static_cast<long long>(array.sizes[d]), d + 1 < array.dim ? " " : "");
  }
  used += snprintf(header + used, sizeof header - static_cast<size_t>(used), "), }");
  // Elements start at a multiple of 64 bytes.
  while ((10 + used + 1) % 64 != 0) header[used++] = ' ';
  header[used++] = '\n';

  // Under another name first: nobody finds half a file, and what was there stays if this fails.
  char part[4096];
  if (snprintf(part, sizeof part, "%s.part", path) >= static_cast<int>(sizeof part)) {
    message.set("cannot write {}: {}", path, strerror(ENAMETOOLONG));
    return Status::AccessFailed;
  }
  FILE* file = fopen(part, "wb");
  const uint8_t start[] = {
      0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, static_cast<uint8_t>(used & 255), static_cast<uint8_t>(used >> 8)};
  const size_t size = array.numel() * element_size(array.dtype);
  bool written = file && fwrite(start, 1, sizeof start, file) == sizeof start &&
                 fwrite(header, 1, static_cast<size_t>(used), file) == static_cast<size_t>(used) &&
                 fwrite(array.bytes.data(), 1, size, file) == size;
  int reason = errno;
  if (file && fclose(file) != 0 && written) {
    written = false;
    reason = errno;
  }
  if (written && rename(part, path) != 0) {
    written = false;
    reason = errno;
  }
  if (written) return Status::Ok;
  if (file) remove(part);
  message.set("cannot write {}: {}", path, strerror(reason));
  return Status::AccessFailed;
}

}  // namespace penlight::runner
