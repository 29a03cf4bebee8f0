// Registries made of the kernel libraries that are linked into this binary and of
// plug-ins, chosen by name.
#pragma once

#include <penlight/libraries.h>
#include <penlight/message.h>
#include <penlight/registry.h>

#include "heap.h"

namespace penlight::hosted {

// Plug-ins in the order they were added, then linked libraries; null past the end.
const KernelLibrary* library_at(size_t index);

// A library can be in one registry only, as registries chain them through the
// library itself; so each selection holds copies (of a few words, not of kernels).
class LibrarySelection {
 public:
  LibrarySelection() {}
  ~LibrarySelection();
  LibrarySelection(const LibrarySelection&) = delete;
  LibrarySelection& operator=(const LibrarySelection&) = delete;

  // `names` as "optimized,portable", asked in this order; null for plug-ins, then
  // every linked library. NotFound names what there is.
  Status select(const char* names, Message* message);

  const KernelRegistry& registry() const { return registry_; }

 private:
  Status add(const KernelLibrary& library, Message* message);

  KernelRegistry registry_;
  Array<KernelLibrary*> copies_;
};

}  // namespace penlight::hosted
