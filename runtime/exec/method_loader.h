// Builds a Method from a plan, checking all that the plan says.
//
// The same code runs twice: once measuring, when carve() only adds up bytes, and
// once building, when it hands out memory. So MethodMeta::method_bytes() is
// exact by construction.
#pragma once

#include <penlight/method.h>

#include "program/flatbuffer.h"
#include "program/tensor_info.h"

namespace penlight {

class MethodLoader {
 public:
  MethodLoader(const Program& program, uint32_t plan, Message* message);

  // Adds up what build() would carve.
  Status measure(size_t* bytes);
  Status build(Method& method, const MemoryManager& memory, const KernelRegistry& registry,
               const DataMap* external);

 private:
  Status walk();
  Status load_arenas();
  Status load_values();
  Status load_lists();
  Status load_tensor(size_t index, const flatbuffer::Table& table);
  Status place_tensor(size_t index, TensorImpl& impl, const TensorInfo& info, const TensorPlace& place);
  Status load_external(size_t index, TensorImpl& impl, const TensorInfo& info, const TensorPlace& place);
  Status load_ends();
  Status load_delegates();
  Status load_delegate(const flatbuffer::Table& table, Delegate& delegate);
  Status load_instructions();
  Status load_kernel(size_t index, const flatbuffer::Table& content, Instruction& instruction);
  void announce_constants(const Instruction& instruction);
  Status load_move(size_t index, const flatbuffer::Table& content, Instruction& instruction);
  Status load_jump(size_t index, const flatbuffer::Table& content, Instruction& instruction, size_t count);
  Status check_arguments(size_t index, const Kernel& kernel, const Instruction& instruction);
  Status take_arguments(size_t index, const flatbuffer::Vector& list, Instruction& instruction);
  Status load_state();

  template <class T>
  T* carve(size_t count) {
    return static_cast<T*>(carve(count, sizeof(T), alignof(T)));
  }
  void* carve(size_t count, size_t size, size_t alignment);
  template <class... Args>
  Status fail(Status status, const char* format, Args... args) {
    return penlight::fail(message_, status, format, args...);
  }
  Status damaged(const char* what, size_t index);
  bool constant_place(uint32_t table_field, uint32_t data_index, size_t bytes, uint64_t* offset);

  const Program& program_;
  Message* message_;
  flatbuffer::Reader reader_;
  flatbuffer::Table root_, plan_;
  uint32_t plan_index_;

  bool measuring_ = true;
  uint8_t* base_ = nullptr;
  size_t used_ = 0;

  Method* method_ = nullptr;
  const MemoryManager* memory_ = nullptr;
  const KernelRegistry* registry_ = nullptr;
  const DataMap* external_ = nullptr;
  Value* values_ = nullptr;
  size_t value_count_ = 0;
};

// "aten::add.out" from an Operator table; false when it does not fit.
bool operator_name(const flatbuffer::Table& op, char* buffer, size_t size);

enum TensorFlag : uint8_t {
  kConstantTensor = 1,  // its bytes belong to the program
  kUnplacedTensor = 2,  // has no memory until set_output_data() or a view gives it some
  kGivenTensor = 4,     // set_output_data() gave it some: a view of another is copied there
  kViewTensor = 8,      // shares another's memory until the run is over
};

}  // namespace penlight
