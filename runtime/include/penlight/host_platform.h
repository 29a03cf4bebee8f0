// The platform layer of an operating system: its steady clock, log lines on
// standard error, abort().
#pragma once

#include <penlight/platform.h>

namespace penlight {

// Hands these functions to set_platform(); programs with a platform of their own
// do not call it.
void use_host_platform();

}  // namespace penlight
