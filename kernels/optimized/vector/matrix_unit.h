// The tiles of Intel's matrix unit (AMX): eight registers of up to 16 rows of 64 bytes.
//
// In assembly, not by the compiler's functions: those of GCC do not say that they read memory, so that what
// was stored before may not be there yet. Who uses tiles configures them, in each thread, and releases them.
#pragma once

#include "routines.h"
#include "simd.h"

#if defined(PENLIGHT_HAS_AMX) && defined(__AVX512F__)

namespace penlight::optimized {
namespace PENLIGHT_ISA {

namespace {

constexpr ptrdiff_t kTileLine = 64;  // bytes of a row

// `rows` rows in tiles [0, 6), as many as a tile has in 6 and 7.
inline void configure_tiles(ptrdiff_t rows) {
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t line[16];
    uint8_t rows[16];
  } of{};
  static_assert(sizeof of == 64);
  of.palette = 1;
  for (int i = 0; i < 8; ++i) {
    of.line[i] = kTileLine;
    of.rows[i] = static_cast<uint8_t>(i < 6 ? rows : kSplitRows);
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(of) : "memory");
}

inline void release_tiles() { __asm__ volatile("tilerelease" ::: "memory"); }

// Rows lie `step` bytes apart; 0: all are the same.
template <int tile>
PENLIGHT_INLINE void load_tile(const void* from, ptrdiff_t step) {
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(step), "i"(tile) : "memory");
}

template <int tile>
PENLIGHT_INLINE void store_tile_register(void* to, ptrdiff_t step) {
  __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(step), "i"(tile) : "memory");
}

// Adds to float32 `sums` the products of bfloat16 `rows` with `columns`, which lie in pairs of rows.
template <int sums, int rows, int columns>
PENLIGHT_INLINE void multiply_tiles() {
  __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(sums), "i"(rows), "i"(columns));
}

}  // namespace

}  // namespace PENLIGHT_ISA
}  // namespace penlight::optimized

#endif
