// The threads of a process, for kernels that split their work.
//
// One pool serves all modules. Whoever runs a kernel works along; if the pool is busy
// with another module's kernel, the caller does all of its work alone, so a machine is
// never given more threads than were asked for. Threads that find nothing to do look
// out for some microseconds and then sleep.
#pragma once

#include <penlight/context.h>
#include <stddef.h>

namespace penlight::hosted {

// Workers for kernels that use up to `threads` threads, the caller's included; 0 for one
// on each physical core that this process may use. Lives as long as the process.
Workers workers_of(size_t threads);

}  // namespace penlight::hosted
