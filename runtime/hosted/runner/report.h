// What the runner prints, as text or as JSON.
#pragma once

#include <penlight/module.h>
#include <stdio.h>

#include "hosted/heap.h"

namespace penlight::runner {

struct Times {
  double load_ms, first_ms, min_ms, median_ms;
  size_t repeats;
};

struct InstructionTime {
  char name[128];
  uint64_t nanoseconds;
  uint64_t runs;
};

// A string with its quotes, escaped.
void print_json_string(const char* text);

// Methods with what they take and give.
Status print_methods(Module& module, bool json);

void print_outputs(const Outputs& outputs, bool json);
void print_times(const Times& times, const Module& module, bool json);
void print_instructions(const hosted::Array<InstructionTime>& instructions, bool json);

}  // namespace penlight::runner
