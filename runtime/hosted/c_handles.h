// What the C interface's handles stand for, and how values cross it.
#pragma once

#include <penlight/module.h>
#include <penlight/value.h>

#include "c_api.h"
#include "lent_tensors.h"
#include "linked_libraries.h"

// Collects times of instructions, or hands their values to an observer.
struct pl_tracer : penlight::EventTracer {
  uint64_t* nanoseconds;
  uint64_t* runs;
  uint64_t count;
  uint64_t started;
  uint64_t reading;  // ticks from one reading of the clock to the next
  pl_observer observer;
  void* user;
};

struct pl_method {
  pl_module* owner;
  penlight::Method* method;
  pl_tracer tracer;
  penlight::hosted::LentTensors lent;
};

struct pl_module {
  penlight::hosted::LibrarySelection libraries;
  penlight::hosted::Region bytes;  // of a program that was given as bytes
  penlight::hosted::Array<pl_method*> methods;
  penlight::Module module;  // last, so that it goes before what it uses

  ~pl_module() {
    for (pl_method* method : methods) penlight::hosted::destroy(method);
  }
};

namespace penlight::hosted {

// Copies `text` to `error`, cut to fit, and gives the status back as a number.
pl_status report(Status status, const char* text, char* error, size_t error_size);

// Fills `to`; true when that changed its tag, address, sizes or strides.
bool export_value(const Value& from, pl_value& to);

}  // namespace penlight::hosted
