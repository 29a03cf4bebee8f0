// Damage to a file, repeatable from its number.
#pragma once

#include <stdint.h>
#include <string.h>

namespace penlight_hostile {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
  }
  // Below `limit`, which is not 0.
  size_t below(size_t limit) { return static_cast<size_t>(next() % limit); }

 private:
  uint64_t state_;
};

// Changes `bytes` in one place, or in up to eight; gives back the new size, never larger.
// Most hits go to the program part, where each byte has a meaning.
inline size_t mutate(uint8_t* bytes, size_t size, size_t program_size, uint64_t number) {
  Random random(number);
  const size_t hits = random.below(4) ? 1 : 1 + random.below(8);
  for (size_t hit = 0; hit < hits && size > 8; ++hit) {
    const size_t reach = random.below(8) && program_size < size ? program_size : size;
    const size_t at = random.below(reach);
    switch (random.below(9)) {
      case 0:
        bytes[at] ^= static_cast<uint8_t>(1u << random.below(8));
        break;
      case 1:
        bytes[at] = static_cast<uint8_t>(random.next());
        break;
      case 2:
      case 3: {  // a number that offsets, sizes and counts do not expect
        static const int64_t kNumbers[] = {
            0,  -1,  1,   2,   3,   4,      7,      8,          15,           16,        17,       31,
            64, 127, 128, 255, 256, 0x7fff, 0xffff, 0x7fffffff, 0x80000000ll, INT64_MAX, INT64_MIN};
        const int64_t value = kNumbers[random.below(sizeof kNumbers / sizeof kNumbers[0])];
        const size_t width = size_t{1} << random.below(4);
        const size_t start = at & ~(width - 1);
        if (start + width <= size) memcpy(bytes + start, &value, width);
        break;
      }
      case 4: {  // an offset that is a little off
        const size_t start = at & ~size_t{3};
        if (start + 4 > size) break;
        uint32_t value;
        memcpy(&value, bytes + start, 4);
        value += static_cast<uint32_t>(random.below(33)) - 16;
        memcpy(bytes + start, &value, 4);
        break;
      }
      case 5: {  // four bytes from somewhere else
        const size_t from = random.below(size) & ~size_t{3}, start = at & ~size_t{3};
        if (from + 4 <= size && start + 4 <= size) memmove(bytes + start, bytes + from, 4);
        break;
      }
      case 6: {  // a run from somewhere else
        const size_t length = 1 + random.below(64), from = random.below(size);
        if (from + length <= size && at + length <= size) memmove(bytes + at, bytes + from, length);
        break;
      }
      case 7: {  // a run of one byte
        const size_t length = 1 + random.below(16);
        if (at + length <= size) memset(bytes + at, static_cast<int>(random.next() & 255), length);
        break;
      }
      default:
        if (random.below(16) == 0) size = random.below(size) + 1;
        break;
    }
  }
  return size;
}

}  // namespace penlight_hostile
