// memcpy and its like for machines without a C library; compilers call them, too.
//
// Words where both addresses allow it, else bytes. Clang must not take a loop here
// for the very function that it defines; gcc is told the same by a flag.
#include <stdint.h>
#include <string.h>

#if defined(__clang__)
#define PENLIGHT_AS_WRITTEN __attribute__((no_builtin))
#else
#define PENLIGHT_AS_WRITTEN
#endif

namespace {

typedef uint32_t __attribute__((may_alias)) Word;

constexpr size_t kWord = sizeof(Word);

bool aligned(const void* a, const void* b) {
  return ((reinterpret_cast<uintptr_t>(a) | reinterpret_cast<uintptr_t>(b)) & (kWord - 1)) == 0;
}

}  // namespace

extern "C" {

PENLIGHT_AS_WRITTEN void* memcpy(void* __restrict to, const void* __restrict from, size_t count) {
  uint8_t* out = static_cast<uint8_t*>(to);
  const uint8_t* in = static_cast<const uint8_t*>(from);
  if (aligned(to, from)) {
    for (; count >= 4 * kWord; count -= 4 * kWord, out += 4 * kWord, in += 4 * kWord) {
      Word* words = reinterpret_cast<Word*>(out);
      const Word* source = reinterpret_cast<const Word*>(in);
      const Word a = source[0], b = source[1], c = source[2], d = source[3];
      words[0] = a, words[1] = b, words[2] = c, words[3] = d;
    }
    for (; count >= kWord; count -= kWord, out += kWord, in += kWord)
      *reinterpret_cast<Word*>(out) = *reinterpret_cast<const Word*>(in);
  }
  while (count--) *out++ = *in++;
  return to;
}

PENLIGHT_AS_WRITTEN void* memmove(void* to, const void* from, size_t count) {
  uint8_t* out = static_cast<uint8_t*>(to);
  const uint8_t* in = static_cast<const uint8_t*>(from);
  // Wraps around when `to` lies before `from`: then front to back is safe.
  if (reinterpret_cast<uintptr_t>(out) - reinterpret_cast<uintptr_t>(in) >= count) {
    while (count--) *out++ = *in++;
  } else {
    while (count--) out[count] = in[count];
  }
  return to;
}

PENLIGHT_AS_WRITTEN void* memset(void* to, int value, size_t count) {
  uint8_t* out = static_cast<uint8_t*>(to);
  const uint8_t byte = static_cast<uint8_t>(value);
  if (aligned(to, nullptr)) {
    const Word word = byte * Word{0x01010101};
    for (; count >= kWord; count -= kWord, out += kWord) *reinterpret_cast<Word*>(out) = word;
  }
  while (count--) *out++ = byte;
  return to;
}

PENLIGHT_AS_WRITTEN int memcmp(const void* a, const void* b, size_t count) {
  const uint8_t* x = static_cast<const uint8_t*>(a);
  const uint8_t* y = static_cast<const uint8_t*>(b);
  for (; count; --count, ++x, ++y) {
    if (*x != *y) return *x < *y ? -1 : 1;
  }
  return 0;
}

// LLVM calls it where only equality is asked for.
PENLIGHT_AS_WRITTEN int bcmp(const void* a, const void* b, size_t count) { return memcmp(a, b, count); }

PENLIGHT_AS_WRITTEN size_t strlen(const char* text) {
  const char* end = text;
  while (*end) ++end;
  return static_cast<size_t>(end - text);
}

PENLIGHT_AS_WRITTEN int strcmp(const char* a, const char* b) {
  for (; *a && *a == *b; ++a, ++b) {
  }
  return static_cast<uint8_t>(*a) - static_cast<uint8_t>(*b);
}

PENLIGHT_AS_WRITTEN int strncmp(const char* a, const char* b, size_t count) {
  for (; count && *a && *a == *b; ++a, ++b, --count) {
  }
  return count ? static_cast<uint8_t>(*a) - static_cast<uint8_t>(*b) : 0;
}

}  // extern "C"
