// Event tracer: told before and after each instruction of a method that runs.
//
// With PENLIGHT_TRACE=0 the calls are not compiled in.
#pragma once

#include <penlight/status.h>
#include <penlight/value.h>
#include <stddef.h>
#include <stdint.h>

#ifndef PENLIGHT_TRACE
#define PENLIGHT_TRACE 1
#endif

namespace penlight {

struct TraceEvent {
  const char* method;
  uint32_t instruction;  // index in the chain
  const char* name;      // operator with overload, or backend; valid during the call
  Value** args;          // as the kernel gets them
  size_t arg_count;
};

// A user's tracer embeds this struct as its first member.
struct EventTracer {
  static constexpr bool kEnabled = PENLIGHT_TRACE != 0;

  void (*begin)(EventTracer* self, const TraceEvent& event);
  void (*end)(EventTracer* self, const TraceEvent& event, Status status);
};

}  // namespace penlight
