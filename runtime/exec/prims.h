// Operators that the runtime itself computes: arithmetic of numbers such as
// symbolic sizes and counters of loops, and views whose sizes show at run time.
#pragma once

#include <penlight/registry.h>

namespace penlight {

// False when `name` is none of them. Signatures have two letters more than
// boxing.h: `n` a number that is read, `N` one that is written.
bool find_prim(const char* name, Kernel& kernel);

// The one for views: the same elements under other sizes, of which one may be -1. A tensor
// without memory of its own shares the memory of the one it views.
void view(KernelContext& ctx, Value** args);

}  // namespace penlight
