// Large inputs that a run reads where the caller has them: copying an image may take longer
// than the first layers of a small network.
//
// The compiler lists them in the named data "penlight.unshared:METHOD", words of 64 bits: inputs
// that nothing in the program writes to or views. Method::set_input() copies nothing when the
// input lies where it is given; so it is said to lie there, for one run.
#pragma once

#include <penlight/method.h>

#include "heap.h"

namespace penlight {
class Module;
}

namespace penlight::hosted {

class LentInputs {
 public:
  // Of a method as it was loaded. False when there is no memory.
  bool find(const Module& module, Method& method);

  // From before the first input is set until the run is over.
  class Run {
   public:
    explicit Run(const LentInputs& inputs) : inputs_(inputs) {}
    ~Run() { inputs_.take_back(); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // As that of Method.
    Status set_input(size_t index, const InputTensor& tensor, Message* message) const {
      return inputs_.set_input(index, tensor, message);
    }

   private:
    const LentInputs& inputs_;
  };

 private:
  // Its planned memory, where it lies between runs.
  struct Input {
    size_t index;
    void* data;
    size_t capacity;
  };

  TensorImpl& tensor_of(const Input& input) const;
  bool may_read(const Input& input, const void* data) const;
  Status set_input(size_t index, const InputTensor& tensor, Message* message) const;
  void take_back() const;

  const Module* module_ = nullptr;
  Method* method_ = nullptr;
  Array<Input> inputs_;
};

}  // namespace penlight::hosted
