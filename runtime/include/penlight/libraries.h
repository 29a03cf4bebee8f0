// The kernel libraries that ship with Penlight.
//
// Their tables are generated from kernels/ops.yaml when they are built; a
// program that links one hands it to a registry:
//
//   registry.add(portable_library);
#pragma once

#include <penlight/registry.h>

namespace penlight {

extern KernelLibrary portable_library;

}  // namespace penlight
