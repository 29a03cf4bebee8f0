// Operator schemas, read by the compiler: what PENLIGHT_LIBRARY is told about an
// operator becomes the name of its kernel and the types its function must have.
//
//   "linear(Tensor weight, Tensor? bias, int groups=1) -> Tensor"        functional
//   "linear.out(Tensor weight, *, Tensor(a!) out) -> Tensor(a!)"         out variant
//   "linear.out"                                                         a name alone
//
// Types become the letters of boxing.h; a tensor that is written to is `O`, and each
// result that is no argument is one more `O` at the end.
#pragma once

#include <stddef.h>

namespace penlight {

enum class SchemaFault : int {
  None = 0,
  Syntax = 1,    // not of the form name(type argument, ...) -> results
  Type = 2,      // an argument of a type that operators cannot have
  Result = 3,    // a result that is no Tensor
  NoOut = 4,     // nothing that the kernel could write its result to
  Count = 5,     // function and schema have different numbers of arguments
  Mismatch = 6,  // an argument has another type in the function
  TooMany = 7,   // more than kMaxSchemaArguments
  OutName = 8,   // an out variant whose overload is neither `out` nor `<overload>_out`
};

constexpr size_t kMaxSchemaArguments = 64;

struct Schema {
  char letters[kMaxSchemaArguments + 1] = {};
  // Where each argument's name begins and ends in the text; both 0 for results.
  size_t name_start[kMaxSchemaArguments + 1] = {};
  size_t name_end[kMaxSchemaArguments + 1] = {};
  size_t count = 0;
  size_t results = 0;         // that are no arguments: out arguments at the end
  size_t keyword_from = 0;    // first argument after `*`; count when there is no `*`
  size_t operator_start = 0;  // the operator's name, behind a namespace
  size_t operator_end = 0;
  size_t overload_end = 0;  // equals operator_end where it has no overload
  bool name_only = false;
  bool writes = false;  // an argument is written to
  SchemaFault fault = SchemaFault::None;
  size_t where = 0;  // the argument at fault, or the place in the text for Syntax
};

namespace detail {

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }
constexpr bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

constexpr bool text_is(const char* text, size_t start, size_t end, const char* word) {
  size_t i = 0;
  for (; start + i < end && word[i]; ++i) {
    if (text[start + i] != word[i]) return false;
  }
  return start + i == end && word[i] == '\0';
}

constexpr bool ends_with(const char* text, size_t start, size_t end, const char* word) {
  size_t length = 0;
  while (word[length]) ++length;
  return end - start >= length && text_is(text, end - length, end, word);
}

// The letter of a type's name; '\0' for one that operators cannot have.
constexpr char type_letter(const char* text, size_t start, size_t end) {
  struct Type {
    const char* name;
    char letter;
  };
  constexpr Type kTypes[] = {{"Tensor", 'T'}, {"Scalar", 'S'},       {"int", 'I'},    {"SymInt", 'I'},
                             {"float", 'F'},  {"bool", 'B'},         {"str", 'Z'},    {"ScalarType", 'E'},
                             {"Layout", 'Y'}, {"MemoryFormat", 'M'}, {"Device", 'G'}, {"Generator", 'R'}};
  for (const Type& type : kTypes) {
    if (text_is(text, start, end, type.name)) return type.letter;
  }
  return '\0';
}

// The letter of a list of the letter's type; '\0' when there is no such list.
constexpr char list_letter(char item) {
  switch (item) {
    case 'T':
      return 'L';
    case 't':
      return 'Q';
    case 'I':
      return 'J';
    case 'F':
      return 'D';
    case 'B':
      return 'C';
    default:
      return '\0';
  }
}

class SchemaReader {
 public:
  constexpr explicit SchemaReader(const char* text) : text_(text) {}

  constexpr Schema read() {
    read_name();
    skip_space();
    if (text_[at_] == '\0') {
      schema_.name_only = true;
      return schema_;
    }
    if (take('('))
      read_arguments();
    else
      fail(SchemaFault::Syntax, at_);
    if (ok()) read_results();
    if (ok() && schema_.results == 0 && !schema_.writes) fail(SchemaFault::NoOut, 0);
    return schema_;
  }

 private:
  constexpr bool ok() const { return schema_.fault == SchemaFault::None; }
  constexpr void fail(SchemaFault fault, size_t where) {
    if (!ok()) return;
    schema_.fault = fault;
    schema_.where = where;
  }
  constexpr void skip_space() {
    while (is_space(text_[at_])) ++at_;
  }
  constexpr bool take(char c) {
    skip_space();
    if (text_[at_] != c) return false;
    ++at_;
    return true;
  }
  constexpr void skip_name() {
    while (is_name(text_[at_])) ++at_;
  }

  constexpr void read_name() {
    skip_space();
    schema_.operator_start = at_;
    skip_name();
    if (text_[at_] == ':' && text_[at_ + 1] == ':') {
      at_ += 2;
      schema_.operator_start = at_;
      skip_name();
    }
    schema_.operator_end = schema_.overload_end = at_;
    if (schema_.operator_end == schema_.operator_start) fail(SchemaFault::Syntax, at_);
    if (text_[at_] == '.') {
      ++at_;
      skip_name();
      schema_.overload_end = at_;
    }
  }

  // A type with its marks, `Tensor(a!)?[]`; sets `writes` for `!`.
  constexpr char read_type(bool& writes) {
    skip_space();
    const size_t start = at_;
    skip_name();
    char letter = type_letter(text_, start, at_);
    for (;;) {
      if (text_[at_] == '?') {
        ++at_;
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
      } else if (text_[at_] == '[') {
        while (text_[at_] && text_[at_] != ']') ++at_;
        if (text_[at_]) ++at_;
        letter = list_letter(letter);
      } else if (text_[at_] == '(') {
        // (a), (a!), (a! -> b), and the (?) that is often written for `?`.
        for (++at_; text_[at_] && text_[at_] != ')'; ++at_) {
          writes |= text_[at_] == '!';
          if (text_[at_] == '?' && letter >= 'A' && letter <= 'Z')
            letter = static_cast<char>(letter - 'A' + 'a');
        }
        if (text_[at_]) ++at_;
      } else {
        return letter;
      }
    }
  }

  constexpr void skip_default() {
    int depth = 0;
    for (; text_[at_]; ++at_) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        ++at_;
        while (text_[at_] && text_[at_] != c) ++at_;
        if (!text_[at_]) return;
      } else if (c == '[' || c == '(') {
        ++depth;
      } else if (c == ']' || (c == ')' && depth > 0)) {
        --depth;
      } else if (depth == 0 && (c == ',' || c == ')')) {
        return;
      }
    }
  }

  constexpr void read_arguments() {
    bool keywords = false;
    if (take(')')) return;
    while (ok()) {
      if (take('*')) {
        keywords = true;
        schema_.keyword_from = schema_.count;
      } else {
        read_argument();
        if (!keywords) schema_.keyword_from = schema_.count;
      }
      if (take(')')) return;
      if (!take(',')) fail(SchemaFault::Syntax, at_);
    }
  }

  constexpr void read_argument() {
    if (schema_.count == kMaxSchemaArguments) return fail(SchemaFault::TooMany, schema_.count);
    bool writes = false;
    char letter = read_type(writes);
    skip_space();
    const size_t start = at_;
    skip_name();
    if (at_ == start) return fail(SchemaFault::Syntax, at_);
    schema_.name_start[schema_.count] = start;
    schema_.name_end[schema_.count] = at_;
    if (letter == '\0') fail(SchemaFault::Type, schema_.count);
    if (writes && letter == 'T') letter = 'O';
    schema_.writes |= writes;
    schema_.letters[schema_.count++] = letter;
    if (take('=')) skip_default();
  }

  constexpr void read_results() {
    skip_space();
    if (text_[at_] == '\0') return fail(SchemaFault::Syntax, at_);
    if (!take('-') || !take('>')) return fail(SchemaFault::Syntax, at_);
    const bool several = take('(');
    if (!several || !take(')')) {
      do {
        read_result(several);
        if (!ok()) return;
      } while (several && take(','));
      if (several && !take(')')) return fail(SchemaFault::Syntax, at_);
    }
    skip_space();
    if (text_[at_] != '\0') fail(SchemaFault::Syntax, at_);
  }

  constexpr void read_result(bool several) {
    bool writes = false;
    const char letter = read_type(writes);
    skip_space();
    skip_name();
    // `Tensor(a!)` is an argument once more.
    if (writes) return;
    // A list of tensors is a result of its own, never one of several.
    if (letter != 'T' && (letter != 'L' || several)) return fail(SchemaFault::Result, schema_.results);
    if (schema_.count == kMaxSchemaArguments) return fail(SchemaFault::TooMany, schema_.count);
    ++schema_.results;
    schema_.letters[schema_.count++] = letter == 'L' ? 'L' : 'O';
  }

  const char* text_;
  size_t at_ = 0;
  Schema schema_;
};

}  // namespace detail

constexpr Schema read_schema(const char* text) { return detail::SchemaReader(text).read(); }

// Whether the schema is that of an out variant: `.out`, `.Tensor_out`.
constexpr bool is_out_variant(const Schema& schema, const char* text) {
  return schema.overload_end > schema.operator_end &&
         (detail::text_is(text, schema.operator_end, schema.overload_end, ".out") ||
          detail::ends_with(text, schema.operator_end, schema.overload_end, "_out"));
}

// What keeps a function of these letters from being the operator's kernel.
constexpr Schema compare_schema(const char* text, const char* function) {
  Schema schema = read_schema(text);
  if (schema.fault != SchemaFault::None) return schema;
  size_t count = 0;
  bool writes = false;
  for (; function[count]; ++count) writes |= function[count] == 'O' || function[count] == 'L';
  if (!writes || (is_out_variant(schema, text) && !schema.name_only && !schema.writes)) {
    schema.fault = SchemaFault::NoOut;
  }
  for (size_t i = schema.keyword_from; i < schema.count - schema.results; ++i) {
    if (schema.letters[i] == 'O' && !is_out_variant(schema, text)) schema.fault = SchemaFault::OutName;
  }
  if (schema.name_only || schema.fault != SchemaFault::None) return schema;
  for (size_t i = 0; i < schema.count && i < count; ++i) {
    if (schema.letters[i] == function[i]) continue;
    schema.fault = schema.count == count ? SchemaFault::Mismatch : SchemaFault::Count;
    schema.where = i;
    return schema;
  }
  if (schema.count != count) {
    schema.fault = SchemaFault::Count;
    schema.where = schema.count < count ? schema.count : count;
  }
  return schema;
}

}  // namespace penlight
