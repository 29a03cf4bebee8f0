#include <penlight/backend.h>
#include <string.h>

namespace penlight {

namespace {
Backend* first = nullptr;
}

Status register_backend(Backend& backend, Message* message) {
  Backend** last = &first;
  for (; *last; last = &(*last)->next) {
    if (*last == &backend) return Status::Ok;
    if (strcmp((*last)->name, backend.name) == 0) {
      if (message) message->set("two backends are named {}", backend.name);
      return Status::InvalidState;
    }
  }
  backend.next = nullptr;
  *last = &backend;
  return Status::Ok;
}

const Backend* find_backend(const char* name) {
  for (const Backend* backend = first; backend; backend = backend->next) {
    if (strcmp(backend->name, name) == 0) return backend;
  }
  return nullptr;
}

const Backend* first_backend() { return first; }

}  // namespace penlight
