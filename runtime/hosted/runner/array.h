// A row-major array on the heap, as it is read from a .npy file, filled with
// numbers, or copied from an output.
#pragma once

#include <penlight/message.h>
#include <penlight/module.h>
#include <penlight/program.h>
#include <penlight/scalar_type.h>

#include "hosted/heap.h"

namespace penlight::runner {

struct HostArray {
  ScalarType dtype = ScalarType::Float;
  size_t dim = 0;
  dim_t sizes[kMaxDim] = {};
  hosted::Region bytes;

  size_t numel() const;
  // Zeroed memory for these sizes; false when the machine does not give it.
  bool allocate(ScalarType type, size_t rank, const dim_t* shape);
};

// Element `index` as a number, of a type that is not complex; integers above 2^53 lose digits.
double element(const void* data, ScalarType dtype, size_t index);
void set_element(void* data, ScalarType dtype, size_t index, double value);

enum class Fill { Random, Ones, Zeros };

// Floats and both parts of complex numbers from [-1, 1), integers 0 or 1 (which index
// whatever they may index). A complex one has no imaginary part.
void fill(HostArray& array, Fill how, uint64_t seed);

// Rewrites a row-major array so that its bytes lie in `order`, outermost first.
bool to_dim_order(HostArray& array, const uint8_t* order);

// A row-major copy of an output.
bool copy_output(const Tensor& tensor, HostArray& array);

// numpy's file format. Reading takes either byte order and both orders of
// dimensions; AccessFailed and InvalidArgument say what is wrong.
Status read_npy(const char* path, HostArray& array, Message& message);
Status write_npy(const char* path, const HostArray& array, Message& message);

}  // namespace penlight::runner
