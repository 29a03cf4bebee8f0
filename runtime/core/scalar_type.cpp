#include <penlight/scalar_type.h>

namespace penlight {

namespace {

// Indexed by the ScalarType's number.
constexpr uint8_t kSizes[30] = {1, 1, 2, 4, 8, 2, 4, 8, 4, 8, 16, 1, 1, 1, 4,
                                2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1,  1, 2, 4, 8};

constexpr char kNames[30][16] = {"uint8",           "int8",
                                 "int16",           "int32",
                                 "int64",           "float16",
                                 "float32",         "float64",
                                 "complex32",       "complex64",
                                 "complex128",      "bool",
                                 "qint8",           "quint8",
                                 "qint32",          "bfloat16",
                                 "quint4x2",        "quint2x4",
                                 "bits1x8",         "bits2x4",
                                 "bits4x2",         "bits8",
                                 "bits16",          "float8_e5m2",
                                 "float8_e4m3fn",   "float8_e5m2fnuz",
                                 "float8_e4m3fnuz", "uint16",
                                 "uint32",          "uint64"};

}  // namespace

size_t element_size(ScalarType type) {
  const uint8_t number = static_cast<uint8_t>(type);
  return number < 30 ? kSizes[number] : 0;
}

const char* dtype_name(ScalarType type) {
  const uint8_t number = static_cast<uint8_t>(type);
  return number < 30 ? kNames[number] : "?";
}

}  // namespace penlight
