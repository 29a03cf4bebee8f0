// One Tensor table of a plan, read and checked.
#pragma once

#include <penlight/program.h>

#include "program/flatbuffer.h"

namespace penlight {

// What the file says of a tensor beyond TensorInfo.
struct TensorPlace {
  uint32_t data_index;  // of its bytes in the constant or mutable segment; 0: none
  uint32_t memory_id;   // 1-based; 0: not planned
  uint64_t offset;      // in that arena
  bool external;        // its bytes come from a data map, by name
  bool in_state;        // it is state, or shares the bytes of state
};

// Null when the table makes sense, else what is wrong with it.
const char* read_tensor(const flatbuffer::Table& table, TensorInfo& info, TensorPlace& place);

// True when the tensor keeps its content between runs.
inline bool is_state(const TensorInfo& info, const TensorPlace& place) {
  return place.memory_id != 0 && !place.external && (place.data_index != 0 || info.name != nullptr);
}

// Bytes of a tensor of these sizes; false when that does not fit an address.
bool tensor_bytes(const int32_t* sizes, size_t dim, size_t item, size_t* bytes);

}  // namespace penlight
