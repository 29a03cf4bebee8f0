// Program: a loaded .pte file, and what it says of its methods.
#pragma once

#include <penlight/array_ref.h>
#include <penlight/loader.h>
#include <penlight/message.h>
#include <penlight/status.h>
#include <penlight/tensor.h>
#include <penlight/value.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

class Program;

// Shape and place of one input, output or state tensor, as planned.
struct TensorInfo {
  ScalarType dtype;
  Dynamism dynamism;
  bool planned;  // its memory is in an arena
  uint32_t dim;
  int32_t sizes[kMaxDim];  // upper bounds when dynamic
  uint8_t dim_order[kMaxDim];
  size_t nbytes;     // at the upper bound
  const char* name;  // fully qualified name of state; null when the file has none
};

// What a method needs, before anything is allocated for it.
class MethodMeta {
 public:
  const char* name() const { return name_; }

  size_t input_count() const { return input_count_; }
  size_t output_count() const { return output_count_; }
  // Tag::None past the end.
  Tag input_tag(size_t index) const;
  Tag output_tag(size_t index) const;
  // InvalidArgument when it is not a tensor.
  Status input_tensor(size_t index, TensorInfo& info) const;
  Status output_tensor(size_t index, TensorInfo& info) const;
  // The number an Int, Bool or Double input was traced with.
  Status input_number(size_t index, Value& value) const;

  // Planned regions and their sizes in bytes.
  size_t arena_count() const { return arena_count_; }
  size_t arena_size(size_t index) const;
  // True when the region holds state only, so that methods may share it.
  bool arena_is_state(size_t index) const;

  // Bytes that the method keeps for itself, from MemoryManager::method_allocator,
  // without what delegates take.
  size_t method_bytes() const { return method_bytes_; }
  size_t instruction_count() const { return instruction_count_; }
  size_t delegate_count() const { return delegate_count_; }
  size_t value_count() const { return value_count_; }

  // Encoded container structure of inputs and outputs; null when absent.
  const char* input_structure() const { return input_structure_; }
  const char* output_structure() const { return output_structure_; }

 private:
  friend class Program;
  Tag tag(bool input, size_t index, size_t* value) const;
  Status tensor(bool input, size_t index, TensorInfo& info) const;

  const Program* program_ = nullptr;
  uint32_t plan_ = 0;
  const char* name_ = nullptr;
  const char* input_structure_ = nullptr;
  const char* output_structure_ = nullptr;
  size_t input_count_ = 0, output_count_ = 0, arena_count_ = 0, method_bytes_ = 0;
  size_t instruction_count_ = 0, delegate_count_ = 0, value_count_ = 0;
};

class Program {
 public:
  constexpr Program() : loader_(nullptr), data_(nullptr), size_(0), segment_base_(0), segment_limit_(0) {}

  // Reads header and program part and checks both; `loader` must outlive the
  // program. InvalidProgram says what is wrong with the file.
  Status load(DataLoader& loader, Message* message);

  size_t method_count() const;
  // Null past the end.
  const char* method_name(size_t index) const;
  // NotFound when there is no such method; InvalidProgram when it is damaged.
  Status method_meta(const char* name, MethodMeta& meta, Message* message) const;

  // Bytes kept in the file under a name. NotFound when there is none.
  Status named_data(const char* key, ArrayRef<uint8_t>& bytes) const { return named_data(key, "", bytes); }
  // Of a name in two parts, one after the other.
  Status named_data(const char* key, const char* rest, ArrayRef<uint8_t>& bytes) const;

  // Bytes of the program part, without segments.
  size_t program_size() const { return size_; }

 private:
  friend class MethodMeta;
  friend class MethodLoader;
  friend class Method;

  bool segment(uint32_t index, uint64_t* offset, uint64_t* size) const;

  DataLoader* loader_;
  const uint8_t* data_;
  size_t size_;
  uint64_t segment_base_;
  uint64_t segment_limit_;  // end of the last byte that segments may use
};

}  // namespace penlight
