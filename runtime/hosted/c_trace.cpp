// Tracing through the C interface.
#include <penlight/platform.h>

#include "c_handles.h"

using penlight::EventTracer;
using penlight::Status;
using penlight::TraceEvent;

namespace {

void begin(EventTracer* self, const TraceEvent&) {
  static_cast<pl_tracer*>(self)->started = penlight::platform_ticks();
}

void end(EventTracer* self, const TraceEvent& event, Status status) {
  pl_tracer& tracer = *static_cast<pl_tracer*>(self);
  const uint64_t passed = penlight::platform_ticks() - tracer.started;
  if (status == Status::Declined) return;
  if (tracer.nanoseconds && event.instruction < tracer.count) {
    uint64_t numerator, denominator;
    penlight::platform_ticks_to_ns(&numerator, &denominator);
    const uint64_t ticks = passed > tracer.reading ? passed - tracer.reading : 0;
    tracer.nanoseconds[event.instruction] += ticks * numerator / denominator;
    if (tracer.runs) ++tracer.runs[event.instruction];
  }
  if (!tracer.observer || status != Status::Ok) return;
  penlight::hosted::Array<pl_value> values;
  if (!values.resize(event.arg_count)) return;
  for (size_t i = 0; i < event.arg_count; ++i) {
    if (event.args[i]) penlight::hosted::export_value(*event.args[i], values[i]);
  }
  tracer.observer(tracer.user, event.instruction, event.name, values.data(), values.size());
}

// What every time has too much; of small operators it would be a quarter.
uint64_t ticks_of_reading() {
  uint64_t least = UINT64_MAX;
  for (int i = 0; i < 32; ++i) {
    const uint64_t before = penlight::platform_ticks(), ticks = penlight::platform_ticks() - before;
    least = ticks < least ? ticks : least;
  }
  return least;
}

void attach(pl_method* method) {
  pl_tracer& tracer = method->tracer;
  if (tracer.nanoseconds) tracer.reading = ticks_of_reading();
  tracer.begin = begin;
  tracer.end = end;
  method->method->set_tracer(tracer.nanoseconds || tracer.observer ? &tracer : nullptr);
}

}  // namespace

pl_status pl_trace_times(pl_method* method, uint64_t* nanoseconds, uint64_t* runs, uint64_t count) {
  if (!EventTracer::kEnabled) return static_cast<pl_status>(Status::NotSupported);
  method->tracer.nanoseconds = nanoseconds;
  method->tracer.runs = runs;
  method->tracer.count = count;
  attach(method);
  return 0;
}

pl_status pl_trace_values(pl_method* method, pl_observer observer, void* user) {
  if (!EventTracer::kEnabled) return static_cast<pl_status>(Status::NotSupported);
  method->tracer.observer = observer;
  method->tracer.user = user;
  attach(method);
  return 0;
}

void pl_instruction_name(const pl_method* method, uint64_t index, char* name, size_t size) {
  if (size == 0) return;
  name[0] = '\0';
  if (index < method->method->instruction_count()) method->method->instruction_name(index, name, size);
}
