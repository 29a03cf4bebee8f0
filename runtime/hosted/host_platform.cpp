#include <penlight/host_platform.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

namespace penlight {

namespace {

uint64_t ticks() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

void ticks_to_ns(uint64_t* numerator, uint64_t* denominator) { *numerator = *denominator = 1; }

void log(const char* line) { fprintf(stderr, "%s\n", line); }

constexpr Platform kHost = {ticks, ticks_to_ns, log, abort};

}  // namespace

void use_host_platform() { set_platform(kHost); }

}  // namespace penlight
