#include "linked_libraries.h"

#include <string.h>

namespace penlight::hosted {

namespace {

bool is_linked(const KernelLibrary& library) {
  for (KernelLibrary* const* linked = linked_libraries(); *linked; ++linked) {
    if ((*linked)->kernels == library.kernels) return true;
  }
  return false;
}

}  // namespace

const KernelLibrary* library_at(size_t index) {
  for (const KernelLibrary* library = default_registry().first(); library; library = library->next) {
    if (!is_linked(*library) && index-- == 0) return library;
  }
  KernelLibrary* const* linked = linked_libraries();
  while (*linked && index > 0) ++linked, --index;
  return *linked;
}

LibrarySelection::~LibrarySelection() {
  for (KernelLibrary* copy : copies_) destroy(copy);
}

Status LibrarySelection::add(const KernelLibrary& library, Message* message) {
  KernelLibrary* copy = make<KernelLibrary>(library);
  if (!copy || !copies_.push(copy)) {
    destroy(copy);
    return Status::OutOfMemory;
  }
  copy->next = nullptr;
  return registry_.add(*copy, message);
}

Status LibrarySelection::select(const char* names, Message* message) {
  if (!names) {
    for (size_t i = 0; library_at(i); ++i) {
      if (const Status status = add(*library_at(i), message); status != Status::Ok) return status;
    }
    return Status::Ok;
  }
  while (*names) {
    const char* end = strchr(names, ',');
    const size_t length = end ? static_cast<size_t>(end - names) : strlen(names);
    bool found = false;
    // Each operator of a plug-in is a library of its own, all of one name.
    for (size_t i = 0; const KernelLibrary* library = library_at(i); ++i) {
      if (strlen(library->name) != length || memcmp(library->name, names, length) != 0) continue;
      found = true;
      if (const Status status = add(*library, message); status != Status::Ok) return status;
    }
    if (!found) {
      if (message) {
        message->set("no kernel library of the name {}; there are", names);
        const char* last = "";
        for (size_t i = 0; const KernelLibrary* library = library_at(i); ++i) {
          if (strcmp(library->name, last) != 0) message->append(" {}", library->name);
          last = library->name;
        }
      }
      return Status::NotFound;
    }
    names += length + (end ? 1 : 0);
  }
  return Status::Ok;
}

}  // namespace penlight::hosted
