// The instruction set of the optimized kernels, for Python.
#include "c_api.h"
#include "kernels/optimized/isa.h"

const char* pl_isa(void) { return penlight::optimized::routines().name; }

int32_t pl_select_isa(const char* name) { return penlight::optimized::select_isa(name) ? 1 : 0; }
