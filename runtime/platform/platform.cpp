// Defaults that ask nothing of an operating system. Each can be replaced at link
// time (weak) or at run time (set_platform).
#include <penlight/platform.h>

#if defined(_MSC_VER)
#define PENLIGHT_WEAK
#else
#define PENLIGHT_WEAK __attribute__((weak))
#endif

namespace penlight {

namespace {
Platform replaced = {};
}

void set_platform(const Platform& platform) {
  if (platform.ticks) replaced.ticks = platform.ticks;
  if (platform.ticks_to_ns) replaced.ticks_to_ns = platform.ticks_to_ns;
  if (platform.log) replaced.log = platform.log;
  if (platform.abort) replaced.abort = platform.abort;
}

PENLIGHT_WEAK uint64_t platform_ticks() { return replaced.ticks ? replaced.ticks() : 0; }

PENLIGHT_WEAK void platform_ticks_to_ns(uint64_t* numerator, uint64_t* denominator) {
  *numerator = *denominator = 1;
  if (replaced.ticks_to_ns) replaced.ticks_to_ns(numerator, denominator);
}

PENLIGHT_WEAK void platform_log(const char* line) {
  if (replaced.log) replaced.log(line);
}

PENLIGHT_WEAK void platform_abort() {
  if (replaced.abort) replaced.abort();
  for (;;) {
  }
}

}  // namespace penlight
