// Which instruction set this process computes with.
#pragma once

#include "vector/routines.h"

namespace penlight::optimized {

// The widest that was compiled in and that this processor and system have; found
// out at the first call.
const Routines& routines();

// Takes another one for all calls that follow: "base", "avx2", "avx512". False when
// it was not compiled in or the processor lacks it.
bool select_isa(const char* name);

}  // namespace penlight::optimized
