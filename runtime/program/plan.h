// What the program layer needs of the layer that builds methods.
#pragma once

#include <penlight/program.h>

namespace penlight {

// Tag of a value's union type in the file; None for a number that is none.
Tag plan_tag(uint8_t type);

// Bytes a method keeps for itself. Defined beside the code that takes them
// (exec/method_loader.cpp), so that the two cannot disagree.
Status measure_method(const Program& program, uint32_t plan, size_t* bytes, Message* message);

}  // namespace penlight
