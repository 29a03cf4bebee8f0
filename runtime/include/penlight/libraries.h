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

// What a Module finds kernels in that was given no registry, besides operators that
// registered themselves: the best library first, null after the last.
//
// All that ship, unless a program defines this function itself; then only what its
// list names is linked:
//
//   penlight::KernelLibrary* const* penlight::linked_libraries() {
//     static KernelLibrary* const kLibraries[] = {&my_library, nullptr};
//     return kLibraries;
//   }
KernelLibrary* const* linked_libraries();

}  // namespace penlight
