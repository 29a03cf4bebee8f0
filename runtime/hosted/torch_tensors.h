// The tensors of one call from torch: those that were given, as the kernel sees them, and its results.
#pragma once

#include <penlight/context.h>
#include <penlight/tensor.h>
#include <stdlib.h>

#include "torch_shim.h"

namespace penlight::hosted {

// Memory for one call: a piece of the stack, then the heap.
class CallMemory {
 public:
  CallMemory() {}
  ~CallMemory() {
    while (blocks_) {
      Block* next = blocks_->next;
      free(blocks_);
      blocks_ = next;
    }
  }
  template <class T>
  T* take(size_t count) {
    const size_t bytes = (count * sizeof(T) + 15) & ~size_t{15};
    if (bytes <= sizeof first_ - used_) {
      T* given = reinterpret_cast<T*>(first_ + used_);
      used_ += bytes;
      return given;
    }
    Block* block = static_cast<Block*>(malloc(sizeof(Block) + bytes));
    if (!block) abort();
    block->next = blocks_;
    blocks_ = block;
    return reinterpret_cast<T*>(block + 1);
  }

 private:
  struct alignas(16) Block {
    Block* next;
  };
  alignas(16) char first_[6144];
  size_t used_ = 0;
  Block* blocks_ = nullptr;
};

// A tensor of the call: what torch gave, and what the kernel sees.
struct Operand {
  TensorImpl impl;
  TorchTensor given;  // null for a result that is not allocated yet
  TorchTensor dense;  // a copy without gaps, when `given` has some
  bool written;
  bool allocated;      // here
  TorchTensor target;  // of the out form, for a result
  bool direct;         // the kernel writes to the target itself
  Operand* next;

  TorchTensor result() const { return target ? target : given; }
};

// What a kernel gives sizes of its results.
class CallTensors : public KernelContext {
 public:
  CallTensors(ScratchSource scratch, Message* message)
      : KernelContext(scratch, message, &CallTensors::resize_operand) {}
  ~CallTensors();

 protected:
  // Takes `given`. The kernel sees it without gaps, as a copy if it has some.
  Tensor read_tensor(TorchTensor given, bool written);
  // A result, which is written to `target` in the end if there is one (and taken). It has memory when it is
  // known what is `expected`: its rank and sizes, or kKernelSays; else sizes that equal no others.
  Tensor make_result(ScalarType dtype, TorchTensor target, const int64_t* expected);
  // After the kernel: is every result there, and does what it wrote come to where it belongs?
  void finish_copies();
  void finish_targets();
  // A handle of a result, for torch to own: asked for once.
  TorchTensor result_of(const Tensor& tensor);

  bool succeeded(int32_t status, const char* doing) {
    if (status) fail(Status::Internal, "{}: {}", doing, torch.last_error ? torch.last_error() : "?");
    return status == 0;
  }

  CallMemory memory_;
  Operand* operands_ = nullptr;  // the newest first
  Operand* first_ = nullptr;     // the first tensor among the arguments

 private:
  static bool resize_operand(KernelContext& context, Tensor& out, SizesRef sizes);
  void view(Operand& operand, TorchTensor tensor);
  bool allocate(Operand& operand, SizesRef sizes);
  bool resize_given(Operand& operand, TorchTensor tensor, SizesRef sizes);
  bool prepare_target(Operand& operand, SizesRef sizes);
  void write_target(Operand& operand);

  size_t made_ = 0;  // results
};

}  // namespace penlight::hosted
