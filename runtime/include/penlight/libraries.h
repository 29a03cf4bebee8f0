// The kernel libraries that ship with Penlight.
//
// Their tables are generated from kernels/ops.yaml when they are built; a
// program that links one hands it to a registry:
//
//   registry.add(portable_library);
#pragma once

#include <penlight/registry.h>

namespace penlight {

// Every operator, plain C++.
extern KernelLibrary portable_library;
// Vector code for the operators that matter most; it declines what it does not take.
extern KernelLibrary optimized_library;

// The instruction set that optimized_library computes with, "base", "avx2", "avx512",
// "avx512-zen5" or "avx512-intel", which are "avx512" with the algorithms that are faster on AMD's
// processors from Zen 5 on or on Intel's, or "amx", which is the latter with products by their
// matrix unit: the widest that was compiled in and that processor and system have. Another one can be taken
// while no method runs; false when it was not compiled in or the processor lacks it.
const char* optimized_isa();
bool select_optimized_isa(const char* name);

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
