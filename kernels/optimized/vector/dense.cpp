// The loops of linear algebra, in vectors of doubles.
#include "kernels/common/dense_loops.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

struct DenseVector {
  typedef double type __attribute__((vector_size(kLanes * 4)));
  static constexpr int lanes = kLanes / 2, rows = kLanes == 16 ? 8 : kTileRows, vectors = kTileVectors;
  PENLIGHT_INLINE type load(const double* from) {
    type value;
    memcpy(&value, from, sizeof value);
    return value;
  }
  PENLIGHT_INLINE void store(double* to, type value) { memcpy(to, &value, sizeof value); }
#if defined(__AVX512F__)
  PENLIGHT_INLINE __mmask8 mask_of(ptrdiff_t count) { return static_cast<__mmask8>((1u << count) - 1); }
  PENLIGHT_INLINE type load_some(const double* from, ptrdiff_t count) {
    return (type)_mm512_maskz_loadu_pd(mask_of(count), from);
  }
  PENLIGHT_INLINE void store_some(double* to, type value, ptrdiff_t count) {
    _mm512_mask_storeu_pd(to, mask_of(count), (__m512d)value);
  }
#elif defined(__AVX__)
  // Masks of as many floats, two of which make a double.
  PENLIGHT_INLINE type load_some(const double* from, ptrdiff_t count) {
    return (type)_mm256_maskload_pd(from, PENLIGHT_ISA::mask_of(2 * count));
  }
  PENLIGHT_INLINE void store_some(double* to, type value, ptrdiff_t count) {
    _mm256_maskstore_pd(to, PENLIGHT_ISA::mask_of(2 * count), (__m256d)value);
  }
#else
  static_assert(lanes == 2, "of two lanes, some are one");
  PENLIGHT_INLINE type load_some(const double* from, ptrdiff_t) { return type{*from}; }
  PENLIGHT_INLINE void store_some(double* to, type value, ptrdiff_t) { *to = value[0]; }
#endif
};

}  // namespace

extern const DenseLoops dense;
const DenseLoops dense = DenseLoopsOf<DenseVector>::table();

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
