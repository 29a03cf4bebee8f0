// What a call of the runtime can come back with.
//
// A status is a decision the caller can take, not the place that raised it: the
// text that goes with it (message.h) says what happened and where. The text can
// be compiled out; the codes stay, and their numbers never change.
#pragma once

#include <stdint.h>

namespace penlight {

enum class Status : int32_t {
  Ok = 0,
  Internal = 1,         // a bug of ours
  InvalidState = 2,     // called in the wrong order, e.g. an output read before a run
  InvalidArgument = 3,  // wrong number, dtype, rank or size of what the caller passed
  InvalidProgram = 4,   // the file is damaged, truncated or not a program
  NotSupported = 5,     // a valid program that asks for what this runtime does not have
  NotFound = 6,         // no method, tensor or key of that name
  MissingKernel = 7,    // no registered kernel for an operator
  MissingBackend = 8,   // no registered backend for a delegate
  OutOfMemory = 9,      // a region that the caller gave is too small
  AccessFailed = 10,    // the data could not be read
  KernelFailed = 11,    // a kernel met data that it cannot work on (an index out of range)
  BackendFailed = 12,   // a delegate reported an error
  Declined = 13,        // a kernel does not take these arguments; the next one is asked
};

const char* status_name(Status status);

}  // namespace penlight
