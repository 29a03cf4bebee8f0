// Memory in which a step outside does not go unnoticed.
//
// A block ends where a page without access begins, or begins where one ends; on the other
// side, and on systems without pages, lie bytes of a pattern that intact() looks at.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if (defined(__unix__) || defined(__APPLE__)) && !defined(__wasi__)
#define PENLIGHT_TEST_PAGES 1
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace penlight_test {

// Some emulators read more than an instruction asks for: with them, bytes of the pattern alone.
inline bool& has_guard_pages() {
  static bool wanted = true;
  return wanted;
}

class Guarded {
 public:
  // `bytes` at an address that is a multiple of `alignment`, filled with 0xff: as floats, NaN.
  // They replace those of the last call; with `front` they begin at the guard, else they end there.
  void* place(size_t bytes, size_t alignment, bool front) {
    if (bytes + 2 * kMargin + alignment > capacity_) reserve(bytes + 2 * kMargin + alignment);
    size_t at = front ? 0 : (capacity_ - bytes) / alignment * alignment;
#if !defined(PENLIGHT_TEST_PAGES)
    at = (kMargin + alignment - 1) / alignment * alignment;
#endif
    begin_ = at;
    end_ = at + bytes;
    memset(base_ + begin_, 0xff, bytes);
    memset(base_ + low(), kPattern, begin_ - low());
    memset(base_ + end_, kPattern, high() - end_);
    return base_ + begin_;
  }

  // Whether nothing was written beside the block.
  bool intact() const {
    for (size_t i = low(); i < begin_; ++i) {
      if (base_[i] != kPattern) return false;
    }
    for (size_t i = end_; i < high(); ++i) {
      if (base_[i] != kPattern) return false;
    }
    return true;
  }

 private:
  static constexpr size_t kMargin = 256;
  static constexpr uint8_t kPattern = 0xa5;

  size_t low() const { return begin_ < kMargin ? 0 : begin_ - kMargin; }
  size_t high() const { return end_ + kMargin < capacity_ ? end_ + kMargin : capacity_; }

  // Never given back: a few of these live as long as the program.
  void reserve(size_t bytes) {
#if defined(PENLIGHT_TEST_PAGES)
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    capacity_ = (2 * bytes + page - 1) / page * page;
    void* all = mmap(nullptr, capacity_ + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    base_ = static_cast<uint8_t*>(all) + page;
    const bool guarded = has_guard_pages();
    void* open = guarded ? base_ : all;
    const size_t length = guarded ? capacity_ : capacity_ + 2 * page;
    const bool good = all != MAP_FAILED && mprotect(open, length, PROT_READ | PROT_WRITE) == 0;
#else
    capacity_ = (2 * bytes + 4095) / 4096 * 4096;
    base_ = static_cast<uint8_t*>(aligned_alloc(4096, capacity_));
    const bool good = base_ != nullptr;
#endif
    if (good) return;
    printf("no memory for the test: %zu bytes\n", capacity_);
    exit(2);
  }

  uint8_t* base_ = nullptr;
  size_t capacity_ = 0, begin_ = 0, end_ = 0;
};

}  // namespace penlight_test
