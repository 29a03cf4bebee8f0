// Operations on integers in programs of postfix code: shape rules of operators, conditions on inputs.
// With Python's rules for negative numbers.
#pragma once

#include <stdint.h>

namespace penlight {

// In files and in src/penlight/ops/rule_program.py too. What is below and above, each program has of its own.
enum IntegerCode : int64_t {
  kAdd = 5,
  kSubtract,
  kMultiply,
  kFloorDivide,
  kModulo,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kMin,
  kMax,
};

// `a` becomes a op b. False where that is none: of a division by zero, beyond 64 bits, of another code.
inline bool apply_integers(int64_t code, int64_t& a, int64_t b) {
  switch (code) {
    case kAdd:
      return !__builtin_add_overflow(a, b, &a);
    case kSubtract:
      return !__builtin_sub_overflow(a, b, &a);
    case kMultiply:
      return !__builtin_mul_overflow(a, b, &a);
    case kFloorDivide:
    case kModulo: {
      if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
      const int64_t rest = a % b, fix = rest != 0 && (rest < 0) != (b < 0);
      a = code == kModulo ? rest + (fix ? b : 0) : a / b - fix;
      return true;
    }
    case kEqual:
      a = a == b;
      return true;
    case kNotEqual:
      a = a != b;
      return true;
    case kLess:
      a = a < b;
      return true;
    case kLessEqual:
      a = a <= b;
      return true;
    case kGreater:
      a = a > b;
      return true;
    case kGreaterEqual:
      a = a >= b;
      return true;
    case kMin:
      a = a < b ? a : b;
      return true;
    case kMax:
      a = a > b ? a : b;
      return true;
    default:
      return false;
  }
}

}  // namespace penlight
