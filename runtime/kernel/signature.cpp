#include "kernel/signature.h"

namespace penlight {

bool signature_takes(char letter, Tag tag) {
  const bool optional = letter >= 'a' && letter != 'n';
  if (optional && tag == Tag::None) return true;
  switch (optional ? letter - ('a' - 'A') : letter) {
    case 'T':
    case 'O':
      return tag == Tag::Tensor;
    case 'L':
      return tag == Tag::TensorList;
    case 'Q':
      return tag == Tag::OptionalTensorList;
    case 'S':
    case 'F':
    case 'N':
    case 'n':
      return tag == Tag::Int || tag == Tag::Double || tag == Tag::Bool;
    case 'I':
    case 'B':
      return tag == Tag::Int || tag == Tag::Bool;
    case 'E':
    case 'Y':
    case 'M':
      return tag == Tag::Int;
    case 'J':
      return tag == Tag::IntList;
    case 'D':
      return tag == Tag::DoubleList;
    case 'C':
      return tag == Tag::BoolList;
    case 'Z':
      return tag == Tag::String;
    case 'G':
      return true;
    default:
      return false;
  }
}

}  // namespace penlight
