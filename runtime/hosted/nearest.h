// What to say of a name that a program does not have.
#pragma once

#include <penlight/message.h>
#include <penlight/program.h>

namespace penlight::hosted {

// "the program has no method NAME; did you mean OTHER? there are ..."
void say_no_method(const Program& program, const char* name, Message& message);

}  // namespace penlight::hosted
