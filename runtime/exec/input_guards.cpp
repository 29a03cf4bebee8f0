// Conditions on the sizes of inputs, checked before a run.
//
// The branches of Python that were taken when a model was traced hold for some sizes alone. Those of a method
// lie in the named data "penlight.guards:METHOD": for each a number of words, a number of bytes, so many
// words of 64 bits in reverse Polish notation, and so many bytes of text, which end with a zero.
#include <penlight/method.h>
#include <string.h>

#include "core/integer_codes.h"

namespace penlight {

namespace {

// Beside those of IntegerCode.
enum Word : int64_t {
  kNumber = 0,  // and the number
  kSize = 1,    // and the input, and its dimension; -1 where the input is a number
};

constexpr size_t kDeepest = 16;
constexpr uint64_t kMostWords = 1024, kMostText = 1 << 16;

enum class Found { True, False, Damaged };

int64_t word_at(const uint8_t* words, size_t index) {
  int64_t word;
  memcpy(&word, words + index * sizeof word, sizeof word);
  return word;
}

bool size_of(const Method& method, int64_t input, int64_t dim, int64_t& size) {
  if (input < 0 || static_cast<uint64_t>(input) >= method.input_count()) return false;
  const Value& value = method.input(static_cast<size_t>(input));
  if (dim < 0) {
    size = value.as_int;
    return value.tag == Tag::Int;
  }
  if (value.tag != Tag::Tensor || dim >= static_cast<int64_t>(value.as_tensor.dim())) return false;
  size = value.as_tensor.sizes()[static_cast<size_t>(dim)];
  return true;
}

Found evaluate(const Method& method, const uint8_t* words, size_t count) {
  int64_t stack[kDeepest];
  size_t depth = 0;
  for (size_t at = 0; at < count;) {
    const int64_t word = word_at(words, at++);
    if (word == kNumber || word == kSize) {
      const size_t takes = word == kNumber ? 1 : 2;
      if (depth == kDeepest || count - at < takes) return Found::Damaged;
      if (word == kNumber) {
        stack[depth] = word_at(words, at);
      } else if (!size_of(method, word_at(words, at), word_at(words, at + 1), stack[depth])) {
        return Found::Damaged;
      }
      ++depth;
      at += takes;
      continue;
    }
    if (word < kAdd || word > kMax || depth < 2) return Found::Damaged;
    --depth;
    if (!apply_integers(word, stack[depth - 1], stack[depth])) return Found::False;
  }
  if (depth != 1) return Found::Damaged;
  return stack[0] ? Found::True : Found::False;
}

}  // namespace

Status Method::check_guards(Message* message) {
  if (!guards_known_) {
    const Status status = program_->named_data("penlight.guards:", name_, guards_);
    if (status != Status::Ok && status != Status::NotFound) {
      return fail(message, status, "the conditions on inputs of method {} cannot be read", name_);
    }
    guards_known_ = true;
  }
  constexpr size_t kWord = sizeof(int64_t);
  const uint8_t* at = guards_.data();
  for (size_t left = guards_.size(); left > 0;) {
    Found found = Found::Damaged;
    if (left > 2 * kWord) {
      const uint64_t count = static_cast<uint64_t>(word_at(at, 0)),
                     text = static_cast<uint64_t>(word_at(at, 1));
      const uint8_t* const words = at + 2 * kWord;
      left -= 2 * kWord;
      if (count <= kMostWords && text > 0 && text <= kMostText && count * kWord + text <= left) {
        const uint8_t* const end = words + count * kWord + text;
        if (end[-1] == 0) found = evaluate(*this, words, static_cast<size_t>(count));
        if (found == Found::False) {
          return fail(message, Status::InvalidArgument,
                      "sizes of inputs do not fit the program, which needs {}",
                      reinterpret_cast<const char*>(words + count * kWord));
        }
        left -= static_cast<size_t>(end - words);
        at = end;
      }
    }
    if (found == Found::Damaged) {
      return fail(message, Status::InvalidProgram, "the conditions on inputs of method {} are damaged",
                  name_);
    }
  }
  return Status::Ok;
}

}  // namespace penlight
