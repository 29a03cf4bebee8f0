// Alone in its file: a program that defines linked_libraries() itself is linked with
// neither this object nor the kernels that it names.
#include <penlight/libraries.h>

namespace penlight {

KernelLibrary* const* linked_libraries() {
  // The fastest first: it declines what it does not take.
  static KernelLibrary* const kLibraries[] = {&optimized_library, &portable_library, nullptr};
  return kLibraries;
}

}  // namespace penlight
