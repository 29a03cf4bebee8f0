// The shape rule of an operator in numbers, as eager calls hold sizes against it.
//
// Python writes the program (src/penlight/ops/rule_program.py) from the notation, and
// also the messages: here is only told whether the sizes of a call are as they should be.
#pragma once

#include <penlight/value.h>
#include <stddef.h>
#include <stdint.h>

#include "heap.h"

namespace penlight::hosted {

// What results should be like, before the kernel has run. For each result: -1, or for a list of
// tensors how many; then for each tensor
//   its dtype, PyTorch's number, or kDtypeOfSlot
//   its rank, or kKernelSays; its sizes
using ExpectedResults = Array<int64_t>;
constexpr int64_t kNoList = -1, kDtypeOfSlot = -1, kKernelSays = -1;

class ShapeRule {
 public:
  static constexpr size_t kMaxNames = 32, kMaxSpreads = 8, kMaxDepth = 16;

  ShapeRule() : codes_(nullptr), count_(0) {}
  ShapeRule(const int64_t* codes, size_t count) : codes_(codes), count_(count) {}
  explicit operator bool() const { return codes_ != nullptr; }
  const int64_t* codes() const { return codes_; }

  // Do these arguments fit the patterns? Then `expected` gets the calculated results.
  bool apply(Value* const* args, size_t results, ExpectedResults& expected) const;

 private:
  const int64_t* codes_;
  size_t count_;
};

}  // namespace penlight::hosted
