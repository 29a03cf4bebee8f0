// The block conversions of convert.h: 3 compute types x 13 element types.
#include "kernels/common/convert.h"

namespace penlight {

namespace {

// Nothing computes with the last three, but they are converted.
using Numbers = DtypeSet<float, double, Half, BFloat16, uint8_t, int8_t, int16_t, int32_t, int64_t, bool,
                         uint16_t, uint32_t, uint64_t>;

// Whole blocks of a fixed length are what compilers turn into vector code at -O2.
constexpr int kUnit = 16;

// convert() by the bits of 16-bit floats: compilers do not make vectors of structs.
template <class C, class T>
inline C load_one(const T& from) {
  if constexpr (same_type<T, Half>) {
    return convert<C>(detail::half_to_float(from.bits));
  } else if constexpr (same_type<T, BFloat16>) {
    return convert<C>(detail::float_from_bits(static_cast<uint32_t>(from.bits) << 16));
  } else if constexpr (same_type<T, bool>) {
    // Any byte but 0 is true: what a file or a caller calls a bool may hold others.
    return static_cast<C>(reinterpret_cast<const uint8_t&>(from) != 0 ? 1 : 0);
  } else {
    return convert<C>(from);
  }
}

template <class C, class T>
inline void store_one(T& to, C from) {
  if constexpr (same_type<T, Half>) to.bits = detail::float_to_half(static_cast<float>(from));
  if constexpr (same_type<T, BFloat16>) to.bits = detail::float_to_bfloat16(static_cast<float>(from));
  if constexpr (!is_16_bit_float<T>) to = convert<T>(from);
}

template <class C, class T>
void load_typed(C* to, const T* from, dim_t stride, dim_t count) {
  dim_t i = 0;
  if (stride == 1) {
    for (; i + kUnit <= count; i += kUnit) {
      PENLIGHT_INDEPENDENT
      for (int k = 0; k < kUnit; ++k) to[i + k] = load_one<C>(from[i + k]);
    }
  }
  for (; i < count; ++i) to[i] = load_one<C>(from[i * stride]);
}

template <class C, class T>
void store_typed(T* to, dim_t stride, const C* from, dim_t count) {
  dim_t i = 0;
  if (stride == 1) {
    for (; i + kUnit <= count; i += kUnit) {
      PENLIGHT_INDEPENDENT
      for (int k = 0; k < kUnit; ++k) store_one(to[i + k], from[i + k]);
    }
  }
  for (; i < count; ++i) store_one(to[i * stride], from[i]);
}

}  // namespace

template <class C>
void load_block(C* to, ScalarType type, const void* from, dim_t stride, dim_t count) {
  auto body = [&](auto tag) {
    using T = typename decltype(tag)::type;
    load_typed(to, static_cast<const T*>(from), stride, count);
  };
  detail::dispatch_any(Numbers{}, type, body);
}

template <class C>
void store_block(ScalarType type, void* to, dim_t stride, const C* from, dim_t count) {
  auto body = [&](auto tag) {
    using T = typename decltype(tag)::type;
    store_typed(static_cast<T*>(to), stride, from, count);
  };
  detail::dispatch_any(Numbers{}, type, body);
}

#define PENLIGHT_BLOCKS(C)                                                \
  template void load_block<C>(C*, ScalarType, const void*, dim_t, dim_t); \
  template void store_block<C>(ScalarType, void*, dim_t, const C*, dim_t);
PENLIGHT_BLOCKS(float)
PENLIGHT_BLOCKS(double)
PENLIGHT_BLOCKS(int64_t)
#undef PENLIGHT_BLOCKS

}  // namespace penlight
