// A job of vector/running.cpp.
#pragma once

#include "routines.h"

namespace penlight::optimized {

// Columns that are walked at once.
constexpr ptrdiff_t kRunningColumns = 64;

// Elements [outer][count][inner], each replaced with the sum or product of those up to it along `count`: of
// float32 in double, or of int64, which wrap around.
struct Running {
  const void* input;
  void* output;
  ptrdiff_t count, inner;
  ptrdiff_t first, last;  // parts: kRunningColumns of the inner ones of an outer one, or what is left
  bool integers, products;
};

}  // namespace penlight::optimized
