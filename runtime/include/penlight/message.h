// One line of text that says what went wrong, in a buffer the caller owns.
//
// Placeholders are `{}`, filled with integers and C strings in order. With
// PENLIGHT_MESSAGES=0 the buffer shrinks to one byte and no text is linked in.
#pragma once

#include <penlight/status.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifndef PENLIGHT_MESSAGES
#define PENLIGHT_MESSAGES 1
#endif

namespace penlight {

// How arguments of a message travel: as words, with one bit for each that says whether
// it is text. A call with arguments is then a few moves, and no template is instantiated
// for every combination of types.
namespace detail {

template <class T>
struct MessageWord {
  static constexpr unsigned is_text = 0;
  static long long get(T value) { return static_cast<long long>(value); }
};
template <>
struct MessageWord<const char*> {
  static constexpr unsigned is_text = 1;
  static long long get(const char* value) { return reinterpret_cast<intptr_t>(value ? value : "(null)"); }
};
template <>
struct MessageWord<char*> : MessageWord<const char*> {};
template <>
struct MessageWord<bool> {
  static constexpr unsigned is_text = 1;
  static long long get(bool value) { return reinterpret_cast<intptr_t>(value ? "true" : "false"); }
};

template <class... Args>
constexpr unsigned message_kinds() {
  unsigned kinds = 0, bit = 1;
  ((kinds |= MessageWord<Args>::is_text * bit, bit <<= 1), ...);
  (void)bit;
  return kinds;
}

}  // namespace detail

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
    if constexpr (kEnabled) write(kReplace, kinds<Args...>(), format, words(args)...);
  }

  // Adds to the text; what does not fit is cut.
  template <class... Args>
  void append(const char* format, Args... args) {
    if constexpr (kEnabled) write(kAppend, kinds<Args...>(), format, words(args)...);
  }

  // Puts `prefix` before the text, as "in operator aten::add.out: ".
  template <class... Args>
  void prepend(const char* format, Args... args) {
    if constexpr (kEnabled) write(kPrepend, kinds<Args...>(), format, words(args)...);
  }

  // The same with the words in a list: `kinds` has a bit for each that is text.
  void set_words(unsigned kinds, const char* format, va_list words);

 private:
  enum Mode { kReplace, kAppend, kPrepend };

  template <class... Args>
  static constexpr unsigned kinds() {
    return detail::message_kinds<Args...>();
  }
  template <class T>
  static long long words(T value) {
    return detail::MessageWord<T>::get(value);
  }
  void write(Mode mode, unsigned kinds, const char* format, ...);
  void write_words(unsigned kinds, const char* format, va_list words);

  char text_[kCapacity];
};

namespace detail {
// `what` is the status, and above it the bits of the words.
Status set_failure(Message* message, unsigned what, const char* format, ...);
}  // namespace detail

// Says in `message`, unless it is null, what went wrong; gives back `status`.
template <class... Args>
Status fail(Message* message, Status status, const char* format, Args... args) {
  if constexpr (Message::kEnabled) {
    return detail::set_failure(message, static_cast<unsigned>(status) | detail::message_kinds<Args...>() << 8,
                               format, detail::MessageWord<Args>::get(args)...);
  }
  return status;
}

}  // namespace penlight
