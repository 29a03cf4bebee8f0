// The key by which a registry finds a kernel for some dtypes and dim orders alone.
#pragma once

#include <penlight/value.h>

namespace penlight {

// "v1/6;0,1|6;0,1": dtype and dim order of every tensor argument, in the order of
// the schema and outputs included. Null when it does not fit `buffer`.
const char* specialisation_key(Value** args, size_t count, char* buffer, size_t size);

}  // namespace penlight
