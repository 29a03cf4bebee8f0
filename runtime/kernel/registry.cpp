#include <penlight/library.h>
#include <penlight/registry.h>
#include <string.h>

namespace penlight {

namespace {

// The kernels of `name` in a library lie beside one another when it is sorted:
// index of the first, or `count`.
size_t lower_bound(const KernelLibrary& library, const char* name) {
  size_t low = 0, high = library.count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (strcmp(library.kernels[middle].name, name) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Calls `visit` with each kernel of that name in order until it returns true.
template <class Visit>
bool for_each_kernel(const KernelLibrary& library, const char* name, Visit visit) {
  for (size_t i = library.sorted ? lower_bound(library, name) : 0; i < library.count; ++i) {
    const Kernel& kernel = library.kernels[i];
    if (strcmp(kernel.name, name) == 0) {
      if (visit(kernel)) return true;
    } else if (library.sorted) {
      break;
    }
  }
  return false;
}

bool same_key(const char* a, const char* b) { return a == b || (a && b && strcmp(a, b) == 0); }

}  // namespace

Status KernelRegistry::add(KernelLibrary& library, Message* message) {
  for (const KernelLibrary* known = first_; known; known = known->next) {
    const KernelLibrary& other = *known;
    if (&other == &library) return Status::Ok;
    if (strcmp(other.name, library.name) != 0) continue;
    for (size_t i = 0; i < library.count; ++i) {
      const Kernel& kernel = library.kernels[i];
      const Kernel* twin = nullptr;
      for_each_kernel(other, kernel.name, [&](const Kernel& candidate) {
        if (same_key(candidate.key, kernel.key)) twin = &candidate;
        return twin != nullptr;
      });
      if (!twin || twin->call == kernel.call) continue;
      if (message) {
        message->set("{} is registered twice in library {}: by {} and by {}", kernel.name, library.name,
                     twin->source ? twin->source : "?", kernel.source ? kernel.source : "?");
      }
      return Status::InvalidState;
    }
  }
  append(library);
  return Status::Ok;
}

void KernelRegistry::append(KernelLibrary& library) {
  KernelLibrary** last = &first_;
  while (*last) last = &(*last)->next;
  library.next = nullptr;
  *last = &library;
}

void KernelRegistry::remove(KernelLibrary& library) {
  KernelLibrary** at = &first_;
  while (*at && *at != &library) at = &(*at)->next;
  if (*at) *at = library.next;
  library.next = nullptr;
}

const Kernel* KernelRegistry::find(const char* name, const char* key, size_t skip) const {
  const Kernel* found = nullptr;
  for (int keyed = 1; keyed >= 0 && !found; --keyed) {
    if (keyed && !key) continue;
    for (const KernelLibrary* library = first_; library && !found; library = library->next) {
      for_each_kernel(*library, name, [&](const Kernel& kernel) {
        if ((kernel.key != nullptr) != (keyed != 0)) return false;
        if (keyed && strcmp(kernel.key, key) != 0) return false;
        if (skip > 0) {
          --skip;
          return false;
        }
        found = &kernel;
        return true;
      });
    }
  }
  return found;
}

namespace {
KernelRegistry shared;  // constant-initialised: there before any static constructor runs
}

KernelRegistry& default_registry() { return shared; }

// Two kernels for one key are both kept, and the first one linked is asked first:
// nobody could be told of it yet. A registry that is made of this one refuses.
void detail::join(OperatorRecord& record) { shared.append(record.library); }

}  // namespace penlight
