// One call of an operator of eager PyTorch: its arguments as the kernel sees them, its results as torch does.
#pragma once

#include <penlight/library.h>
#include <stddef.h>
#include <stdint.h>

#include "shape_rule.h"
#include "torch_shim.h"

namespace penlight::hosted {

constexpr size_t kMaxResults = 16;

// What one trampoline serves.
struct Slot {
  char* name;  // in torch, "myop::linear@CPU"
  char* kernel_name;
  const char* letters;  // of the kernel
  size_t count;
  size_t results;               // that are allocated here, or given
  int32_t dtypes[kMaxResults];  // of those; -1: as the first tensor, -2 - i: as argument i says
  uint32_t allowed;             // dtypes of tensors, a bit each; 0: all
  // Where the kernel stands: its library may get another table (a plug-in built anew).
  const KernelLibrary* library;
  size_t index;
  ShapeRule rule;
  uint64_t changed_lists;  // a bit for each argument that is one
  bool changes;            // arguments
  bool raises;             // errors of Python's
  bool given;              // results are: the out form
  bool prepared;           // a front comes before it
  bool faked;              // whose results a fake function tells

  // The operator's own arguments; results follow.
  size_t own() const { return count - results; }
  bool gives_list() const { return results == 1 && letters[count - 1] == 'L'; }
};

enum class NumberKind : uint8_t { Int, Double, Bool };

// What a front (torch_front.cpp) says of a call that comes to its trampoline next.
struct Prepared {
  static constexpr size_t kMaxNumbers = 64, kMaxResults = 512;
  bool ready;
  NumberKind numbers[kMaxNumbers];  // of the arguments that are Scalars, whose bits come as ints
  size_t result_count;
  int64_t results[kMaxResults];  // as ExpectedResults are
};
Prepared& prepared_call();  // of this thread

// What the last call of this thread failed of.
struct Failure {
  const Slot* slot;
  Status status;
  Message message;
  char arguments[4096];  // for whoever writes the error's text; pl_torch_failure says how they are spelled
};
Failure& last_failure();
// Writes there what a call was: arguments, results, and what was expected of those.
void describe(const Slot& slot, Value* const* args, const ExpectedResults* expected = nullptr);

// Calls the kernel of `slot` with what lies on torch's stack, which it takes, and puts the results
// there. Of a failure `message` has the reason. It leaves nothing behind that torch's exceptions,
// which run no destructor of ours, would lose.
Status serve(const Slot& slot, StableValue* stack, uint64_t arguments, uint64_t results, Message& message);

}  // namespace penlight::hosted
