// The loops of linear algebra, in vectors of doubles.
#include "kernels/common/dense_loops_of.h"
#include "simd.h"

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

struct DenseVector {
  using type = HalfDoubles;
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
  PENLIGHT_INLINE double sum(type value) {
    // By memory: GCC 12 warns of what extracts half of a vector.
    double x[lanes];
    memcpy(x, &value, sizeof value);
    return ((x[0] + x[4]) + (x[2] + x[6])) + ((x[1] + x[5]) + (x[3] + x[7]));
  }
#elif defined(__AVX__)
  // Masks of as many floats, two of which make a double.
  PENLIGHT_INLINE type load_some(const double* from, ptrdiff_t count) {
    return (type)_mm256_maskload_pd(from, PENLIGHT_ISA::mask_of(2 * count));
  }
  PENLIGHT_INLINE void store_some(double* to, type value, ptrdiff_t count) {
    _mm256_maskstore_pd(to, PENLIGHT_ISA::mask_of(2 * count), (__m256d)value);
  }
  PENLIGHT_INLINE double sum(type value) { return (value[0] + value[2]) + (value[1] + value[3]); }
#else
  static_assert(lanes == 2, "of two lanes, some are one");
  PENLIGHT_INLINE type load_some(const double* from, ptrdiff_t) { return type{*from}; }
  PENLIGHT_INLINE void store_some(double* to, type value, ptrdiff_t) { *to = value[0]; }
  PENLIGHT_INLINE double sum(type value) { return value[0] + value[1]; }
#endif
};

}  // namespace

extern const DenseLoops dense;
const DenseLoops dense = DenseLoopsOf<DenseVector>::table();

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized
