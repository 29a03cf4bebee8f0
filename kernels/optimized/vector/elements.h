// Chains of elementwise operations: a little program that is run tile by tile, so that
// what lies between two operations never leaves the nearest cache.
//
// A program is a list of steps. A step reads registers and operands and writes a register;
// the last one writes the output. Registers are tiles of scratch memory. Operands are the
// tensors and numbers that the program is given, read as the output is shaped.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "routines.h"

namespace penlight::optimized {

// What a step computes; the numbers are part of the file format. A condition is a mask: all
// bits of an element set, or none.
enum class ElementOp : int {
  Add = 1,
  Sub = 2,
  Mul = 3,
  Div = 4,
  Minimum = 5,  // these two give NaN if one of both is
  Maximum = 6,
  Clamp = 7,      // x to [low, high], which are numbers
  LeakyRelu = 8,  // x, slope
  Where = 9,      // condition, yes, no
  Less = 10,
  LessEqual = 11,
  Equal = 12,
  NotEqual = 13,
  And = 14,  // of conditions
  Or = 15,
  Not = 16,
  Neg = 17,
  Abs = 18,
  Relu = 19,
  Square = 20,
  Sqrt = 21,
  Rsqrt = 22,
  Reciprocal = 23,
  Exp = 24,
  Log = 25,
  Sin = 26,
  Cos = 27,
  Erf = 28,
  Sigmoid = 29,
  Tanh = 30,
  Silu = 31,
  Gelu = 32,
  GeluTanh = 33,
  HardSigmoid = 34,
  HardSwish = 35,
  Expm1 = 36,
  Log1p = 37,
  Atan2 = 38,  // y, x
  Atan = 39,
  Asin = 40,
  Acos = 41,
  Pow = 42,  // base, exponent
  Floor = 43,
  Ceil = 44,
  Trunc = 45,
  Round = 46,  // halves to the even one
  Exp2 = 47,
  Log2 = 48,
  Log10 = 49,
  Sinh = 50,
  Cosh = 51,
  Tan = 52,
  Asinh = 53,
  Acosh = 54,
  Atanh = 55,
  Hypot = 56,
  Fmod = 57,  // x, y; with the sign of x
  Erfc = 58,
  Lgamma = 59,
  // Not in files.
  MulComplex = 60,  // of numbers whose parts are neighbours
};
constexpr int kElementOps = 60;  // of files

// Bit (1 << number) for each operation that is compiled: a selective build leaves out
// those that no program of its has.
#ifndef PENLIGHT_ELEMENT_OPS
#define PENLIGHT_ELEMENT_OPS 0xffffffffffffffffull
#endif
constexpr bool is_compiled(ElementOp op) { return (PENLIGHT_ELEMENT_OPS >> static_cast<int>(op) & 1u) != 0; }

// How many registers and operands an operation reads.
constexpr int arity_of(ElementOp op) {
  if (op == ElementOp::Clamp || op == ElementOp::Where) return 3;
  const bool of_two = op == ElementOp::Atan2 || op == ElementOp::Pow || op == ElementOp::Hypot ||
                      op == ElementOp::Fmod || op == ElementOp::MulComplex;
  return op <= ElementOp::Or || of_two ? 2 : 1;
}

constexpr bool gives_condition(ElementOp op) { return op >= ElementOp::Less && op <= ElementOp::Not; }

constexpr int kElementRegisters = 8;  // of a program
constexpr int kElementOperands = 32;
constexpr int kElementSteps = 64;
constexpr int kElementLoops = 16;

// Sources count registers first, then operands.
struct ElementStep {
  ElementOp op;
  int to;  // a register
  int from[3];
};

enum class ElementRead : uint8_t {
  Number,  // the same for every element
  Dense,   // floats, laid out as the output
  Row,     // by the innermost loop alone
  Other,
};

struct ElementOperand {
  const void* data;
  ptrdiff_t strides[kElementLoops];  // in elements; 0 where it is stretched
  ptrdiff_t run;                     // elements of the output for which the operand is read with one stride
  int outer;                         // loops around a run
  ElementRead read;
  bool is_mask;  // bytes, of which those that are not zero are true
  int tile;      // of the scratch memory, after those of the registers, where it is copied to
};

struct Elementwise {
  const ElementStep* steps;
  ptrdiff_t step_count;
  const ElementOperand* operands;
  int operand_count;
  int loops;                       // at least one
  ptrdiff_t sizes[kElementLoops];  // of the loops, outermost first; the output lies in this order
  ptrdiff_t count;                 // elements of the output
  float* output;
  uint8_t* conditions;  // written instead of `output` if it is there: a byte for each element
  // Work is cut into items: pieces of a row (the innermost loop), or several whole rows.
  ptrdiff_t item;         // elements of an item, at most `tile`
  ptrdiff_t row_items;    // items of a row; 0 if an item is several rows
  ptrdiff_t first, last;  // items to compute
  ptrdiff_t tile;         // elements of a register, a multiple of kPanel
  int tiles;              // of the scratch memory
  float* scratch;         // elementwise_scratch(), aligned as a line of the cache
};

// Floats of scratch: tiles, and a vector for each operand that is one number.
constexpr size_t elementwise_scratch(int tiles, int operands, ptrdiff_t tile) {
  return static_cast<size_t>(tiles) * static_cast<size_t>(tile) + static_cast<size_t>(operands) * kPanel;
}

}  // namespace penlight::optimized
