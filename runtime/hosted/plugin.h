// Plug-ins: shared objects made of files with PENLIGHT_LIBRARY (library.h).
#pragma once

#include <penlight/library.h>
#include <stddef.h>

namespace penlight::hosted {

// Loads a plug-in and adds its kernels to default_registry(); they stay for the life
// of the process. Loading it again changes nothing, and a plug-in built anew from the
// same file takes the place of the old one for programs that are opened later.
//
// On failure nothing is added and `error` has up to three lines: what happened, where,
// and what was found. The lines say which two files define one kernel, or how schema
// and function disagree.
Status load_plugin(const char* path, const OperatorRecord** first, char* error, size_t error_size);

// Takes back what the last load_plugin() added, before anything of it was used: whoever
// loaded it found it wrong.
void undo_plugin();

}  // namespace penlight::hosted
