// Which instruction set this process computes with.
#pragma once

#include "vector/routines.h"

namespace penlight::optimized {

// The widest that was compiled in and that this processor and system have; found
// out at the first call.
const Routines& routines();

}  // namespace penlight::optimized
