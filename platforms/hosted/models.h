// The models of a binary with several, as `penlight build` generates them.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penlight::embedded {

struct Model {
  const char* name;
  const uint8_t* data;  // null when the file is not part of the binary
  size_t size;
};

extern const Model models[];
extern const size_t model_count;

}  // namespace penlight::embedded
