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

// Whose cores they are, where vectors of 512 bits are executed differently: in halves by Zen 4 and what is
// not known, in one piece by the others.
enum class Cores : uint8_t { Other, Zen5, Intel };
Cores cores();

// Are tiles of fewer rows and more columns faster? They load less and need fewer pointers, for which there is
// little time beside multiplications that are executed in one piece.
inline bool prefers_wide_tiles() { return cores() != Cores::Other; }

// Does a load take time from multiplications, although ports of its own execute it? Intel's cores with
// vectors of 512 bits do 24 multiplications of registers in 12.6 cycles, beside 14 loads in 14 and beside 24
// in 17; AMD's do not. Kernels choose by it what has fewer loads, even for more multiplications.
inline bool loads_delay_products() { return cores() == Cores::Intel; }

// Does a store take time from multiplications? Zen 5 takes what it stores from the operation that makes it,
// one vector of 512 bits in a cycle; of more that are finished at once, each takes the time of two
// multiplications. Where sums are short, tiles of few of them end with fewer such stores at once.
inline bool stores_delay_products() { return cores() == Cores::Zen5; }

// Are tiles of one vector of columns faster, whose every product reads its element of the input? They take
// the fewest operations. Measured on shared machines with Intel's processors.
inline bool prefers_tall_tiles() { return cores() == Cores::Intel; }

// Is it worth asking for lines of memory before rows of depthwise windows are written there? A store waits
// for its line as a load does. Zen 5 has what it takes to go on meanwhile, and asking takes its time from
// loads.
inline bool fetches_results() { return cores() != Cores::Zen5; }

// Is memory that is written soon worth asking for, a few lines at a time, while there are products? Where
// processors share no cache, to write a line that both have read takes sixteen times as long as one's own.
inline bool asks_for_output() { return cores() == Cores::Zen5; }

// Has it a unit that multiplies matrices of bfloat16, AMX of Intel's processors?
#if defined(PENLIGHT_WITH_AMX)
bool has_matrix_unit();
#else
inline bool has_matrix_unit() { return false; }
#endif

}  // namespace penlight::optimized
