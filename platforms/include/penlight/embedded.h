// What a generated file of `penlight build` defines: the model and the kernels of a binary.
#pragma once

#include <penlight/registry.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight::embedded {

// The (first) program that is part of the binary; constant, aligned, used in place.
extern const uint8_t program[];
extern const size_t program_size;

// Tables of the chosen kernels.
extern KernelLibrary* const libraries[];
extern const size_t library_count;

}  // namespace penlight::embedded
