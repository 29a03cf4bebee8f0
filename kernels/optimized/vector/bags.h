// A job of vector/bags.cpp.
#pragma once

#include "routines.h"

namespace penlight::optimized {

enum class BagReduction : uint8_t { Sum, Mean, Greatest };

// Rows of a table, reduced bag by bag. Bag b holds the indices from starts[b] up to starts[b + 1].
struct BagsOfRows {
  const void* table;
  Format format;  // of the table and of the output
  ptrdiff_t width;
  ptrdiff_t pitch;         // elements from row to row of the table
  const int64_t* indices;  // all of them, those in bags, are rows of the table
  const int64_t* starts;
  const float* factors;  // of each index, for sums; may be null
  int64_t padding;       // the row that does not count
  BagReduction reduction;
  void* output;
  int64_t* maxima;               // of Greatest, the row that each element comes from
  ptrdiff_t first, last, count;  // bags to reduce, of so many
};

}  // namespace penlight::optimized
