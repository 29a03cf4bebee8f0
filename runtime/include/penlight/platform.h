// What the runtime asks of the machine. Each function is a weak symbol with a
// default that needs no operating system: define your own to replace it, or give
// a table to set_platform() at run time.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace penlight {

// Ticks of a steady clock; 0 where there is none.
uint64_t platform_ticks();
// Nanoseconds a tick, as a fraction.
void platform_ticks_to_ns(uint64_t* numerator, uint64_t* denominator);
// One line of text, without a newline. The default drops it.
void platform_log(const char* line);
// Never returns. The default loops for ever.
[[noreturn]] void platform_abort();

struct Platform {
  uint64_t (*ticks)();
  void (*ticks_to_ns)(uint64_t* numerator, uint64_t* denominator);
  void (*log)(const char* line);
  void (*abort)();
};

// Replaces the functions that are not null in `platform`, which must live on.
void set_platform(const Platform& platform);

}  // namespace penlight
