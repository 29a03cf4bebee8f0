// Which instruction set this process computes with.
#pragma once

#include "vector/routines.h"

#if defined(PENLIGHT_HAS_AMX) && defined(PENLIGHT_WITH_AVX512)
#define PENLIGHT_WITH_AMX
#endif

namespace penlight::optimized {

// The widest that was compiled in and that this processor and system have; found
// out at the first call.
const Routines& routines();

// Does a load take time from multiplications, although ports of its own execute it? Intel's cores with
// vectors of 512 bits do 24 multiplications of registers in 12.6 cycles, beside 14 loads in 14 and beside 24
// in 17; AMD's do not. Kernels choose by it what has fewer loads, even for more multiplications.
bool loads_delay_products();

// Has it a unit that multiplies matrices of bfloat16, AMX of Intel's processors?
#if defined(PENLIGHT_WITH_AMX)
bool has_matrix_unit();
#else
inline bool has_matrix_unit() { return false; }
#endif

}  // namespace penlight::optimized
