// Method: one entry point of a program, ready to run in memory that its user gave.
//
//   Program program;            program.load(loader, &message)
//   MethodMeta meta;            program.method_meta("forward", meta, &message)
//   ... give meta.method_bytes() and each meta.arena_size(i) ...
//   Method method;              method.load(program, "forward", memory, &message)
//   method.set_input(0, ...);   method.execute();   method.output(0)
//
// A method may be used by one thread at a time; several methods of one program
// may run at once when they share no arena.
#pragma once

#include <penlight/backend.h>
#include <penlight/context.h>
#include <penlight/data_map.h>
#include <penlight/memory.h>
#include <penlight/message.h>
#include <penlight/program.h>
#include <penlight/registry.h>
#include <penlight/trace.h>
#include <penlight/value.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

// A tensor passed in by the user, laid out in the dim order the program expects.
struct InputTensor {
  const void* data;
  const dim_t* sizes;
  size_t dim;
  ScalarType dtype;
};

struct Instruction {
  BoxedKernel call;
  Value** args;
  uint32_t kind;
  uint32_t arg_count;
  uint32_t target;  // operator, delegate or jump destination
  uint32_t choice;  // how many kernels declined before the present one
};

struct Delegate {
  const Backend* backend;
  void* handle;
};

// A tensor that keeps its content between calls.
struct StateTensor {
  const char* name;
  Tensor tensor;
  uint64_t initial_offset;  // of its initial value in the file
  bool has_initial;
};

class Method {
 public:
  Method();
  ~Method();
  Method(const Method&) = delete;
  Method& operator=(const Method&) = delete;

  // Builds the method in `memory`, which must outlive it like `program`. Every
  // kernel is looked up in `registry` (the default one when null) and every
  // argument checked against the kernel's signature.
  Status load(const Program& program, const char* name, const MemoryManager& memory, Message* message,
              const KernelRegistry* registry = nullptr, const DataMap* external = nullptr);

  size_t input_count() const { return input_count_; }
  size_t output_count() const { return output_count_; }
  const Value& input(size_t index) const { return values_[inputs_[index]]; }
  // As it lies there, written or not.
  const Value& output(size_t index) const { return values_[outputs_[index]]; }

  // Copies the data when the input is planned, else keeps the address until the
  // run is over.
  Status set_input(size_t index, const InputTensor& tensor, Message* message);
  // Int, Bool, Double or None.
  Status set_input(size_t index, const Value& value, Message* message);
  // Whether the inputs set last go together: a size may be within its bound and yet less than the
  // model was traced for, no multiple of what it needs, or unlike that of another input. For
  // callers that do not choose the sizes themselves, before execute(); Module calls it.
  Status check_inputs(Message* message);
  // Where an output without planned memory is to be written; `size` in bytes.
  Status set_output_data(size_t index, void* data, size_t size, Message* message);

  // Runs all instructions. At most `max_jumps` backward jumps are taken.
  Status execute(Message* message, uint64_t max_jumps = UINT64_MAX);

  // Valid after a run that succeeded, until the next call; InvalidState before.
  Status output(size_t index, Value& value, Message* message) const;

  // State: buffers that the method changes. Content is kept between runs.
  size_t state_count() const { return state_count_; }
  const StateTensor& state(size_t index) const { return state_[index]; }
  // Puts back the initial values.
  Status reset_state(Message* message);

  // Random operators begin anew, as determined by `seed` (0 when never called).
  void seed(uint64_t seed) { context_.random() = {seed, 0}; }

  void set_tracer(EventTracer* tracer) { tracer_ = tracer; }
  const char* name() const { return name_; }

  // For tools: the instructions as loaded.
  size_t instruction_count() const { return instruction_count_; }
  const Instruction& instruction(size_t index) const { return instructions_[index]; }
  // Operator ("aten::add.out") or backend of an instruction, written to `buffer`.
  void instruction_name(size_t index, char* buffer, size_t size) const;

 private:
  friend class MethodLoader;
  Status check_guards(Message* message);  // of check_inputs(), on several sizes at a time
  Status run_kernel(size_t index, Message* message);
  Status run_delegate(size_t index, Message* message);
  Status reset_state(size_t index, Message* message);
  Status explain(size_t index, Status status, Message* message) const;
  bool jump_condition(const Value& value) const;
  void forget_views();

  const Program* program_;
  const char* name_;
  const KernelRegistry* registry_;
  EventTracer* tracer_;
  Value* values_;
  const TensorInfo* input_info_;
  uint32_t* inputs_;
  uint32_t* outputs_;
  uint8_t* input_set_;
  Instruction* instructions_;
  Delegate* delegates_;
  StateTensor* state_;
  size_t value_count_, input_count_, output_count_, instruction_count_, delegate_count_, state_count_;
  uint32_t plan_;
  bool ran_;
  bool has_views_;
  bool limits_known_, guards_known_;
  ArrayRef<uint8_t> limits_, guards_;  // for check_inputs()
  KernelContext context_;
};

}  // namespace penlight
