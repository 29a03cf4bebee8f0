// Large inputs that a run reads where the caller has them, and outputs that it leaves where the caller
// wants them: copying an image may take longer than the first layers of a small network.
//
// The compiler lists them in the named data "penlight.unshared:METHOD" and
// "penlight.unshared-outputs:METHOD", words of 64 bits: tensors that share their memory with no other, nor
// with state. Method::set_input() copies nothing when the input lies where it is given, and kernels write
// where an output lies; so each is said to lie in the caller's memory, for one run.
#pragma once

#include <penlight/method.h>

#include "heap.h"

namespace penlight {
class Module;
}

namespace penlight::hosted {

class LentTensors {
 public:
  // Of a method as it was loaded. False when there is no memory.
  bool find(const Module& module, Method& method);

  // From before the first input is set until the outputs have been read.
  class Run {
   public:
    explicit Run(const LentTensors& tensors) : tensors_(tensors) {}
    ~Run() { tensors_.take_back(); }
    Run(const Run&) = delete;
    Run& operator=(const Run&) = delete;

    // As that of Method.
    Status set_input(size_t index, const InputTensor& tensor, Message* message) const {
      return tensors_.set_input(index, tensor, message);
    }

    // Has the run write an output to `data`, which has room for its bound. False where it cannot.
    bool lend_output(size_t index, void* data) const { return tensors_.lend_output(index, data); }

   private:
    const LentTensors& tensors_;
  };

 private:
  // A tensor's planned memory, where it lies between runs.
  struct Lent {
    size_t index;
    TensorImpl* impl;
    void* data;
    size_t capacity;
  };

  template <class ValueOf>
  bool read_list(const char* key, size_t count, ValueOf&& value_of, Array<Lent>& list) const;
  bool may_use(const Lent& lent, const void* data) const;
  Status set_input(size_t index, const InputTensor& tensor, Message* message) const;
  bool lend_output(size_t index, void* data) const;
  void take_back() const;

  const Module* module_ = nullptr;
  Method* method_ = nullptr;
  Array<Lent> inputs_, outputs_;
};

}  // namespace penlight::hosted
