// The memory of a method: all of it given by the caller, nothing allocated here.
#pragma once

#include <penlight/context.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

// One planned region. Its size is MethodMeta::arena_size(); 16-byte aligned.
struct Arena {
  void* data;
  size_t size;
  // State in this arena has its initial values already, put there by another
  // method that shares it: loading leaves them alone.
  bool holds_state;
};

struct MemoryManager {
  // For what the method itself keeps: MethodMeta::method_bytes().
  ArenaAllocator* method_allocator;
  // Planned regions, in the order of MethodMeta::arena_size(); memory id 1 first.
  Arena* arenas;
  size_t arena_count;
  // For kernels. `allocate` may be null: kernels that ask for scratch then fail.
  ScratchSource scratch;
  // Of random operators, for methods that share it; null: the method has its own.
  RandomState* random = nullptr;
  // Threads for kernels that split their work; none: all is done by who runs the method.
  Workers workers = {nullptr, nullptr, 1};
};

// Scratch from a fixed region, for programs without a heap.
ScratchSource scratch_from(ArenaAllocator& arena);

}  // namespace penlight
