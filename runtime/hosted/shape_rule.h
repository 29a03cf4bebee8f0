// The shape rule of an operator in numbers, as eager calls hold sizes against it.
//
// Python writes the program (src/penlight/ops/rule_program.py) from the notation, and
// also the messages: here is only told whether the sizes of a call are as they should be.
#pragma once

#include <penlight/value.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight::hosted {

class ShapeRule {
 public:
  static constexpr size_t kMaxNames = 32, kMaxSpreads = 8, kMaxDepth = 16;

  ShapeRule() : codes_(nullptr), count_(0) {}
  ShapeRule(const int64_t* codes, size_t count) : codes_(codes), count_(count) {}
  explicit operator bool() const { return codes_ != nullptr; }
  const int64_t* codes() const { return codes_; }

  // Do these arguments fit the patterns, and the results that follow them (of their
  // first `results`; the inputs alone when 0) the calculated sizes?
  bool fits(Value* const* args, size_t first_result, size_t results) const;

 private:
  const int64_t* codes_;
  size_t count_;
};

}  // namespace penlight::hosted
