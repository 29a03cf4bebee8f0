// What a kernel's signature, a letter an argument (boxing.h), takes.
#pragma once

#include <penlight/value.h>

namespace penlight {

// Whether a value of `tag` may be passed where `letter` stands.
bool signature_takes(char letter, Tag tag);

}  // namespace penlight
