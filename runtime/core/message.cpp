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

void Message::write(const char* format, const MessageArg* args, size_t count) {
  if constexpr (kEnabled) {
    Cursor out{text_ + strlen(text_), text_ + kCapacity - 1};
    for (const char* c = format; *c; ++c) {
      if (c[0] != '{' || c[1] != '}') {
        out.put(*c);
        continue;
      }
      ++c;
      if (count == 0) continue;
      args->text ? out.put(args->text) : out.put(args->number);
      ++args;
      --count;
    }
    *out.at = '\0';
  }
}

}  // namespace penlight
