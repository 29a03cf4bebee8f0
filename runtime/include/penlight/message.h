// One line of text that says what went wrong, in a buffer the caller owns.
//
// Placeholders are `{}`, filled with integers and C strings in order. With
// PENLIGHT_MESSAGES=0 the buffer shrinks to one byte and no text is linked in.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifndef PENLIGHT_MESSAGES
#define PENLIGHT_MESSAGES 1
#endif

namespace penlight {

// One argument of a message: an integer when `text` is null.
struct MessageArg {
  const char* text;
  int64_t number;
  MessageArg(const char* value) : text(value ? value : "(null)"), number(0) {}
  MessageArg(bool value) : text(value ? "true" : "false"), number(0) {}
  MessageArg(int value) : text(nullptr), number(value) {}
  MessageArg(unsigned value) : text(nullptr), number(value) {}
  MessageArg(long value) : text(nullptr), number(value) {}
  MessageArg(unsigned long value) : text(nullptr), number(static_cast<int64_t>(value)) {}
  MessageArg(long long value) : text(nullptr), number(value) {}
  MessageArg(unsigned long long value) : text(nullptr), number(static_cast<int64_t>(value)) {}
};

class Message {
 public:
  static constexpr bool kEnabled = PENLIGHT_MESSAGES != 0;
  static constexpr size_t kCapacity = kEnabled ? 256 : 1;

  Message() { text_[0] = '\0'; }
  const char* c_str() const { return text_; }
  bool empty() const { return text_[0] == '\0'; }
  void clear() { text_[0] = '\0'; }

  // Replaces the text; what does not fit is cut.
  template <class... Args>
  void set(const char* format, Args... args) {
    if constexpr (kEnabled) {
      clear();
      append(format, args...);
    }
  }

  // Adds to the text; what does not fit is cut.
  template <class... Args>
  void append(const char* format, Args... args) {
    if constexpr (kEnabled) {
      const MessageArg list[] = {MessageArg(0), MessageArg(args)...};
      write(format, list + 1, sizeof...(Args));
    }
  }

  // Puts `prefix` before the text, as "in operator aten::add.out: ".
  template <class... Args>
  void prepend(const char* format, Args... args) {
    if constexpr (kEnabled) {
      Message old = *this;
      clear();
      append(format, args...);
      append("{}", old.c_str());
    }
  }

 private:
  void write(const char* format, const MessageArg* args, size_t count);

  char text_[kCapacity];
};

}  // namespace penlight
