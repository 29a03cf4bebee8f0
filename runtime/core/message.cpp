#include <penlight/message.h>
#include <string.h>

namespace penlight {

namespace {

struct Cursor {
  char* at;
  char* end;  // where the terminating zero goes at the latest
  void put(char c) {
    if (at < end) *at++ = c;
  }
  void put(const char* text) {
    while (*text) put(*text++);
  }
  void put(int64_t number) {
    char digits[20];
    int count = 0;
    uint64_t rest = number < 0 ? ~static_cast<uint64_t>(number) + 1 : static_cast<uint64_t>(number);
    do {
      digits[count++] = static_cast<char>('0' + rest % 10);
      rest /= 10;
    } while (rest != 0);
    if (number < 0) put('-');
    while (count > 0) put(digits[--count]);
  }
};

}  // namespace

void Message::write_words(unsigned kinds, const char* format, va_list words) {
  Cursor out{text_ + strlen(text_), text_ + kCapacity - 1};
  for (const char* c = format; *c; ++c) {
    if (c[0] != '{' || c[1] != '}') {
      out.put(*c);
      continue;
    }
    ++c;
    const long long word = va_arg(words, long long);
    if (kinds & 1) {
      out.put(reinterpret_cast<const char*>(static_cast<intptr_t>(word)));
    } else {
      out.put(static_cast<int64_t>(word));
    }
    kinds >>= 1;
  }
  *out.at = '\0';
}

void Message::set_words(unsigned kinds, const char* format, va_list words) {
  if constexpr (kEnabled) {
    clear();
    write_words(kinds, format, words);
  }
}

void Message::write(Mode mode, unsigned kinds, const char* format, ...) {
  if constexpr (kEnabled) {
    char old[kCapacity];
    if (mode == kPrepend) memcpy(old, text_, kCapacity);
    if (mode != kAppend) clear();
    va_list words;
    va_start(words, format);
    write_words(kinds, format, words);
    va_end(words);
    if (mode == kPrepend) append("{}", old);
  }
}

namespace detail {

Status set_failure(Message* message, unsigned what, const char* format, ...) {
  if (message) {
    va_list words;
    va_start(words, format);
    message->set_words(what >> 8, format, words);
    va_end(words);
  }
  return static_cast<Status>(what & 255);
}

}  // namespace detail

}  // namespace penlight
