// Runs a program that nobody trusts, as far as it goes: loads it, prepares every
// method, gives made-up inputs, runs, reads outputs and state. Whatever the file
// says, this must come back with a status.
#pragma once

#include <penlight/backend.h>
#include <penlight/module.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "hosted/linked_libraries.h"

namespace penlight_hostile {

using namespace penlight;

// Above this a file asks for more than a fuzzing run gives it, not for too much.
constexpr size_t kMostBytes = size_t{64} << 20;
constexpr uint64_t kMostJumps = 64;

// Allocated one by one with exactly the size that the runtime was told, so that a
// sanitizer sees the first byte behind.
struct Inputs {
  static constexpr size_t kMost = 64;
  Argument list[kMost];
  void* memory[kMost] = {};
  size_t count = 0;

  ~Inputs() {
    for (void* block : memory) free(block);
  }

  bool make(const MethodMeta& meta) {
    count = meta.input_count();
    if (count > kMost) return false;
    for (size_t i = 0; i < count; ++i) {
      TensorInfo info;
      if (meta.input_tensor(i, info) == Status::Ok) {
        if (info.nbytes > kMostBytes) return false;
        memory[i] = malloc(info.nbytes ? info.nbytes : 1);
        memset(memory[i], 0, info.nbytes);
        TensorArgument tensor{memory[i], info.dtype, info.dim, {}};
        for (size_t d = 0; d < info.dim; ++d) tensor.sizes[d] = info.sizes[d];
        list[i] = Argument(tensor);
      } else {
        list[i] = Argument();
        meta.input_number(i, list[i].value);
      }
    }
    return true;
  }
};

inline bool affordable(const MethodMeta& meta) {
  size_t total = meta.method_bytes();
  for (size_t i = 0; i < meta.arena_count(); ++i) {
    const size_t size = meta.arena_size(i);
    if (size > kMostBytes || (total += size) > kMostBytes) return false;
  }
  for (size_t i = 0; i < meta.output_count(); ++i) {
    TensorInfo info;
    if (meta.output_tensor(i, info) == Status::Ok && info.nbytes > kMostBytes) return false;
  }
  return total <= kMostBytes;
}

// Touches every byte that the runtime says is there.
inline uint64_t checksum(const Tensor& tensor) {
  uint64_t sum = 0;
  if (tensor.nbytes() > kMostBytes || !tensor.const_data_ptr()) return 0;
  const uint8_t* bytes = tensor.const_data_ptr<uint8_t>();
  for (size_t i = 0; i < tensor.nbytes(); ++i) sum += bytes[i];
  return sum;
}

// The backend that seeds/delegate.pte names: reads all it is given and copies its first
// argument to its last, as far as both reach.
inline void register_test_backend() {
  static Backend backend = {
      "test_copy",
      [](const BackendInit& init, void** handle) {
        uint64_t sum = 0;
        for (const uint8_t byte : init.processed) sum += byte;
        for (const CompileSpec& spec : init.specs) {
          sum += strlen(spec.key);
          for (const uint8_t byte : spec.value) sum += byte;
        }
        uint64_t* kept = init.allocator->allocate_array<uint64_t>(1);
        if (!kept) return Status::OutOfMemory;
        *kept = sum;
        *handle = kept;
        return Status::Ok;
      },
      [](KernelContext& ctx, void* handle, Value** args, size_t count) {
        if (count < 2 || args[0]->tag != Tag::Tensor || args[count - 1]->tag != Tag::Tensor) {
          ctx.fail(Status::BackendFailed, "{} arguments, {} in all", count, *static_cast<uint64_t*>(handle));
          return Status::BackendFailed;
        }
        const Tensor from = args[0]->as_tensor, to = args[count - 1]->as_tensor;
        const size_t size = from.nbytes() < to.nbytes() ? from.nbytes() : to.nbytes();
        if (size && from.const_data_ptr() && to.const_data_ptr())
          memmove(to.mutable_data_ptr(), from.const_data_ptr(), size);
        return Status::Ok;
      },
      nullptr, nullptr};
  register_backend(backend);
}

// Gives back how many methods ran. `weights` are the bytes of a .ptd file, or null.
inline int run_program(const void* bytes, size_t size, const KernelRegistry& registry,
                       const void* weights = nullptr, size_t weights_size = 0) {
  register_test_backend();
  ModuleOptions options;
  options.registry = &registry;
  BufferLoader loader(weights, weights_size);
  TensorFile tensors;
  if (weights) {
    if (tensors.load(loader, nullptr) == Status::Ok) {
      for (size_t i = 0; i < tensors.size() && i < 64; ++i) tensors.key(i);
    }
    options.data = &tensors;
  }
  Module module;
  if (module.open(bytes, size, options) != Status::Ok) return 0;
  int ran = 0;
  const size_t count = module.method_count();
  for (size_t i = 0; i < count && i < 8; ++i) {
    MethodMeta meta;
    const char* name = module.method_name(i);
    if (!name || module.method_meta(name, meta) != Status::Ok || !affordable(meta)) return ran;
    ArrayRef<uint8_t> data;
    (void)module.program().named_data(name, data);
  }
  for (size_t i = 0; i < count && i < 8; ++i) {
    MethodMeta meta;
    Inputs inputs;
    const char* name = module.method_name(i);
    if (module.method_meta(name, meta) != Status::Ok || !inputs.make(meta)) continue;
    for (int round = 0; round < 2; ++round) {
      const Outputs outputs = module.run(name, inputs.list, inputs.count, kMostJumps);
      if (!outputs.ok()) break;
      ran += round == 0;
      for (size_t k = 0; k < outputs.size(); ++k) {
        if (outputs[k].tag == Tag::Tensor) checksum(outputs.tensor(k));
      }
    }
  }
  for (size_t i = 0; i < module.state_count(); ++i) checksum(module.state(i).tensor);
  module.reset_state();
  return ran;
}

}  // namespace penlight_hostile
