// The instruction set of the optimized kernels, for Python.
#include <penlight/libraries.h>

#include "c_api.h"

const char* pl_isa(void) { return penlight::optimized_isa(); }

int32_t pl_select_isa(const char* name) { return penlight::select_optimized_isa(name) ? 1 : 0; }
