// Steps over numbers of any type: what vector/numbers.cpp computes.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penlight::optimized {

// As torch numbers them. Truth values are bytes of 0 or 1.
enum class NumberType : uint8_t {
  UInt8 = 0,
  Int8 = 1,
  Int16 = 2,
  Int32 = 3,
  Int64 = 4,
  Float32 = 6,
  Float64 = 7,
};

enum class NumberOp : uint8_t {
  Add,  // integers wrap
  Sub,
  Mul,
  And,  // of bits
  Or,
  Xor,
  ShiftLeft,  // of 32 and 64 bits; a count that is negative, or of all bits and more, leaves none
  ShiftRight,
  Minimum,
  Maximum,
  Equal,  // from here on a truth value
  NotEqual,
  Less,
  LessEqual,
};
constexpr bool is_predicate(NumberOp op) { return op >= NumberOp::Equal; }

// Bytes of a number's copies, which steps read again and again.
constexpr ptrdiff_t kNumberBytes = 64;

// to[i] = op(from[0][i], from[1][i]), of integers; of floats NotEqual alone. `to` may be one of the operands.
struct NumberStep {
  NumberOp op;
  NumberType type;
  const void* from[2];
  bool is_number[2];  // kNumberBytes of copies of one
  void* to;
  ptrdiff_t count;
};

// Between 32 or 64 bits and any width, between 32 or 64 bits and floats, and from fewer bits to float32:
// next_type() leads from type to type. Integers wrap; what is NaN or too large for an integer is the
// lowest of 32 or 64 bits.
struct NumberConversion {
  NumberType from, to;
  const void* input;
  void* output;
  ptrdiff_t count;
};

constexpr bool is_narrow(NumberType type) { return type <= NumberType::Int16; }

// The type that a number of type `from` is converted to first, on its way to `to`.
constexpr NumberType next_type(NumberType from, NumberType to) {
  if (is_narrow(from) && (to == NumberType::Float32 || to == NumberType::Int64)) return to;
  return is_narrow(from) || (is_narrow(to) && from != NumberType::Int32) ? NumberType::Int32 : to;
}

// Of each row: the greatest, the least, or the sum, which is of 64 bits and of numbers of 32 or 64.
enum class NumberFold : uint8_t { Least, Greatest, Sum };
struct NumberRows {
  NumberFold fold;
  NumberType type;
  const void* input;
  void* output;
  ptrdiff_t rows, length;
};

}  // namespace penlight::optimized
