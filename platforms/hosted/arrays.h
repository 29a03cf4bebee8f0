// Row-major arrays of a small program: filled, read from files, written to files.
//
// Nothing but the C library, and of it as little as possible: this is linked into
// binaries whose size counts.
#pragma once

#include <penlight/message.h>
#include <penlight/program.h>
#include <penlight/scalar_type.h>
#include <penlight/status.h>
#include <penlight/tensor.h>

namespace penlight::embedded {

// Zeroed memory at a multiple of 64 bytes; null when there is not enough. Kept
// until the program ends.
void* allocate(size_t bytes);

struct HostArray {
  ScalarType dtype;
  size_t dim;
  dim_t sizes[kMaxDim];
  uint8_t* data;

  size_t numel() const;
  bool allocate();  // for dtype and sizes
};

enum class Fill { Random, Ones, Zeros };

// Floats from [-1, 1), integers 0 or 1, as penlight-runner makes them from a seed.
void fill(HostArray& array, Fill how, uint64_t seed);

// A .npy file, or with any other name the bare elements, for which `array` says
// dtype and sizes.
Status read_array(const char* path, HostArray& array, Message& message);
Status write_npy(const char* path, const HostArray& array, Message& message);

// A copy whose elements lie in `order`, outermost dimension first; null when there
// is not enough memory.
void* in_dim_order(const HostArray& array, const uint8_t* order);
// A row-major copy of a tensor.
bool copy_tensor(const Tensor& tensor, HostArray& array);

// Element `index` as text of at most kElementText characters: integers whole, floats with nine digits.
constexpr size_t kElementText = 48;
void element_text(const HostArray& array, size_t index, char* text, size_t size);

}  // namespace penlight::embedded
