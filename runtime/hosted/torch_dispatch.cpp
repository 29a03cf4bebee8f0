#include "torch_dispatch.h"

#include <dlfcn.h>
#include <string.h>

#include <new>

#include "c_handles.h"
#include "torch_shim.h"

using penlight::Status;

namespace penlight::hosted {

ItemForms forms = {};
BoxedKernel below;
uint64_t gradient_keys, python_keys;

namespace {

// torch::CppFunction, as far as calls are concerned: returned through memory, as what
// has a destructor is. It ends its life within Library::_impl, which takes what it owns.
struct CppFunction {
  CppFunction() {}
  CppFunction(const CppFunction&) = delete;
  ~CppFunction() {}
  alignas(16) char bytes[1024];
};

CppFunction (*make_fallback)();
void* (*library_impl)(void* library, const char* name, CppFunction& function, uint8_t how);
int32_t (*library_init)(const char*, const char*, const char*, uint32_t, TorchLibrary*);

pl_torch_probe* probe;  // takes the arguments of the next call
TorchOp raiser = {};    // the operator that raises

// Two words of `object` that are begin and end of `bytes` bytes; 0 when there are none. The first
// two are what every object of torch's begins with.
size_t find_range(const Item& item, uint64_t bytes) {
  const uint64_t* words = reinterpret_cast<const uint64_t*>(item.payload);
  for (size_t at = 2; at < 5; ++at) {
    if (words[at] && words[at] % sizeof(void*) == 0 && words[at + 1] == words[at] + bytes) return at;
  }
  return 0;
}

// Where the words of a list lie that holds the first, the second and the fourth argument.
size_t find_items(const Item& list, const Item* given) {
  const size_t at = find_range(list, 3 * sizeof(Item));
  if (!at) return 0;
  const Item* items = reinterpret_cast<const Item* const*>(list.payload)[at];
  const Item* wanted[] = {&given[0], &given[1], &given[3]};
  for (size_t i = 0; i < 3; ++i) {
    if (items[i].tag != wanted[i]->tag || (i != 1 && items[i].payload != wanted[i]->payload)) return 0;
  }
  return at;
}

// Where those of a string lie: its letters, and how many.
size_t find_letters(const Item& text) {
  const uint64_t* words = reinterpret_cast<const uint64_t*>(text.payload);
  for (size_t at = 2; at < 4; ++at) {
    const char* letters = reinterpret_cast<const char*>(words[at]);
    if (letters && words[at + 1] == strlen(PL_TORCH_PROBED_TEXT) &&
        memcmp(letters, PL_TORCH_PROBED_TEXT, words[at + 1]) == 0) {
      return at;
    }
  }
  return 0;
}

void enter_probe(void* functor, const void* op, uint64_t, Stack* stack) {
  if (probe) {
    const Item* given = stack->begin;
    probe->count = static_cast<uint64_t>(stack->end - given);
    for (uint64_t i = 0; i < probe->count && i < PL_TORCH_PROBED; ++i) {
      probe->payloads[i] = given[i].payload;
      probe->tags[i] = given[i].tag;
    }
    if (probe->count == PL_TORCH_PROBED) {
      probe->list_at = find_items(given[6], given);
      probe->text_at = find_letters(given[7]);
    }
    // What was called last is the operator that raises.
    memcpy(&raiser, op, sizeof raiser);
    memcpy(probe->op, op, sizeof probe->op);
  }
  below(functor, op, gradient_keys, stack);
}

// The one pointer to code of torch's in `function`.
void** code_in(CppFunction& function, const char* library) {
  void** found = nullptr;
  for (size_t at = 0; at + sizeof(void*) <= 256; at += sizeof(void*)) {
    void** word = reinterpret_cast<void**>(function.bytes + at);
    Dl_info info = {};
    if (!*word || !dladdr(*word, &info) || !info.dli_fname || strcmp(info.dli_fname, library) != 0) continue;
    if (found) return nullptr;
    found = word;
  }
  return found;
}

template <class Function>
bool find(void* handle, Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

}  // namespace

Status stand_at(const char* name, const char* key, BoxedKernel kernel, Message& message) {
  const char* base = strstr(name, "::");
  char space[201];
  if (!base || static_cast<size_t>(base - name) > 200) {
    message.set("{} has no namespace", name);
    return Status::InvalidArgument;
  }
  memcpy(space, name, static_cast<size_t>(base - name));
  space[base - name] = '\0';
  // torch writes as much of it as it needs; what lay in the rest must not be taken for a kernel.
  alignas(CppFunction) char memory[sizeof(CppFunction)];
  memset(memory, 0, sizeof memory);
  asm volatile("" : : "r"(memory) : "memory");
  CppFunction& function = *new (memory) CppFunction(make_fallback());
  Dl_info info = {};
  void** code =
      dladdr(reinterpret_cast<void*>(make_fallback), &info) ? code_in(function, info.dli_fname) : nullptr;
  if (!code) {
    message.set("this version of torch keeps its kernels in another way");
    return Status::NotSupported;
  }
  below = reinterpret_cast<BoxedKernel>(*code);
  *code = reinterpret_cast<void*>(kernel);
  TorchLibrary library = nullptr;
  // Never deleted: the registration holds as long as the library object does.
  if (library_init(space, key, "penlight", 0, &library)) {
    message.set("torch refused {}", name);
    return Status::InvalidState;
  }
  library_impl(library, base + 2, function, 0);
  return Status::Ok;
}

void raise_in_python() {
  if (probe || !raiser.words[0]) return;
  Item none = {0, forms.none, 0};
  Stack stack = {&none, &none + 1, &none + 1};
  below(nullptr, &raiser, gradient_keys, &stack);
}

}  // namespace penlight::hosted

pl_status pl_torch_dispatch_connect(const char* path, const uint64_t* keys, const void* plain,
                                    pl_torch_probe* probed, char* error, size_t error_size) {
  using namespace penlight::hosted;
  void* handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
  if (!handle || !connect_autograd(handle, plain) ||
      !find(handle, make_fallback, "_ZN5torch8autograd35basicAutogradNotImplementedFallbackEv") ||
      !find(handle, library_impl, "_ZNR5torch7Library5_implEPKcONS_11CppFunctionENS_17_RegisterOrVerifyE") ||
      !find(handle, library_init, "aoti_torch_library_init_impl")) {
    return report(Status::NotSupported, "this version of torch lacks what is needed", error, error_size);
  }
  connect_fronts(handle);
  gradient_keys = keys[0];
  python_keys = keys[1];
  probe = probed;
  return report(Status::Ok, "", error, error_size);
}

pl_status pl_torch_dispatch_probe(const char* name, char* error, size_t error_size) {
  penlight::Message message;
  const Status status = penlight::hosted::stand_at(name, "Autograd", penlight::hosted::enter_probe, message);
  return penlight::hosted::report(status, message.c_str(), error, error_size);
}

void pl_torch_dispatch_probed(void) {
  using namespace penlight::hosted;
  const uint32_t* tags = probe->tags;
  forms = {tags[0], tags[1], tags[2], tags[4], tags[5], tags[6], tags[7], probe->list_at, probe->text_at};
  probe = nullptr;
}
