// Kernels as operators of eager PyTorch: torch calls a trampoline, which knows the
// kernel and calls it (torch_call.h).
//
// Serves any dispatch key whose tensors have their data in this process's memory. What
// the stable interface cannot carry (Scalar, Generator) is left to the caller, who can
// register a Python function in its place.
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "c_handles.h"
#include "torch_call.h"

using penlight::Status;

namespace penlight::hosted {

TorchShim torch = {};

const char* TorchShim::connect(const char* path) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD | RTLD_LOCAL);
  if (!handle) return path;
#define PENLIGHT_TORCH_FIND(member, name, result, ...)                               \
  if (!(member = reinterpret_cast<result (*)(__VA_ARGS__)>(dlsym(handle, #name)))) { \
    return #name;                                                                    \
  }
  PENLIGHT_TORCH_FUNCTIONS(PENLIGHT_TORCH_FIND)
#undef PENLIGHT_TORCH_FIND
  bump_version = reinterpret_cast<void (*)(const void*)>(
      dlsym(handle, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE"));
  return nullptr;
}

namespace {

constexpr size_t kMaxSlots = 1024;
Slot slots[kMaxSlots];
size_t slot_count = 0;

// As torch's own operators do, so that a later backward sees what was changed. Refused,
// by torch, for tensors of inference mode outside of it.
void note_changes(const Slot& slot, const StableValue* stack, uint64_t arguments) {
  for (size_t i = 0; i < arguments && i < slot.count; ++i) {
    if (slot.letters[i] == 'O') torch.bump_version(reinterpret_cast<const void*>(stack[i]));
    if (!(slot.changed_lists >> i & 1) && !(slot.given && slot.gives_list() && i == slot.own())) continue;
    const TorchList list = reinterpret_cast<TorchList>(stack[i]);
    size_t size = 0;
    StableValue item = 0;
    torch.list_size(list, &size);
    // Who reads the arguments owns the items.
    for (size_t k = 0; k < size && torch.list_item(list, k, &item) == 0; ++k) {
      if (item) torch.bump_version(reinterpret_cast<const void*>(item));
    }
  }
}

void enter(const Slot& slot, StableValue* stack, uint64_t arguments, uint64_t results) {
  Message message;
  Failure& failure = last_failure();
  failure.arguments[0] = '\0';
  if (slot.changes) note_changes(slot, stack, arguments);
  const Status status = serve(slot, stack, arguments, results, message);
  if (status == Status::Ok) return;
  failure.slot = &slot;
  failure.status = status;
  failure.message = message;
  if (slot.raises) raise_in_python();
  message.prepend("{}: ", slot.kernel_name);
  torch.check(false, slot.kernel_name, slot.library->kernels[slot.index].source, 0, message.c_str());
}

// The interface hands a function nothing to tell its operators apart, so that each
// needs one of its own: kRows * kColumns of them.
constexpr size_t kRows = 32, kColumns = kMaxSlots / kRows;

template <size_t number>
void trampoline(StableValue* stack, uint64_t arguments, uint64_t results) {
  enter(slots[number], stack, arguments, results);
}
template <size_t row, size_t... column>
TorchFunction in_row(size_t at, detail::Indices<column...>) {
  constexpr TorchFunction kRow[] = {&trampoline<row * kColumns + column>...};
  return kRow[at];
}
template <size_t... row>
TorchFunction trampoline_of(size_t number, detail::Indices<row...>) {
  using Columns = typename detail::MakeIndices<kColumns>::type;
  constexpr TorchFunction (*kTable[])(size_t, Columns) = {&in_row<row>...};
  return kTable[number / kColumns](number % kColumns, Columns{});
}

const KernelLibrary* find_kernel(const char* name, size_t& index) {
  for (size_t i = 0; const KernelLibrary* library = library_at(i); ++i) {
    for (size_t k = 0; k < library->count; ++k) {
      if (strcmp(library->kernels[k].name, name) != 0) continue;
      index = k;
      return library;
    }
  }
  return nullptr;
}

// What the stable interface has no form for; null when it can carry all.
const char* obstacle(const char* letters, bool numbers) {
  for (; *letters; ++letters) {
    if (!numbers && (*letters == 'S' || *letters == 's')) return "Scalar";
    if (*letters == 'R' || *letters == 'r') return "Generator";
  }
  return nullptr;
}

Status register_operator(const pl_torch_operator& given, Message& message) {
  Slot slot = {};
  slot.library = find_kernel(given.kernel, slot.index);
  if (!slot.library) {
    message.set("there is no kernel {}", given.kernel);
    return Status::MissingKernel;
  }
  slot.letters = slot.library->kernels[slot.index].signature;
  slot.count = strlen(slot.letters);
  slot.results = given.results;
  slot.raises = given.raises != 0;
  slot.given = given.given != 0;
  slot.allowed = given.allowed;
  slot.changed_lists = given.changed_lists;
  slot.prepared = given.prepared != 0;
  slot.faked = given.faked != 0;
  if (const char* type = obstacle(slot.letters, slot.prepared)) {
    message.set("{} has an argument of type {}, which only a Python implementation can take", given.name,
                type);
    return Status::NotSupported;
  }
  const char* written = strchr(slot.letters, 'O');
  slot.changes = slot.given || slot.changed_lists ||
                 (written && static_cast<size_t>(written - slot.letters) + slot.results < slot.count);
  if (slot.changes && !torch.bump_version) {
    message.set("this version of torch counts changes of tensors in another way");
    return Status::NotSupported;
  }
  if (given.rule) {
    int64_t* codes = static_cast<int64_t*>(malloc(given.rule_size * sizeof(int64_t)));
    if (!codes) return Status::OutOfMemory;
    memcpy(codes, given.rule, given.rule_size * sizeof(int64_t));
    slot.rule = ShapeRule(codes, given.rule_size);
  }
  const char* name = strstr(given.name, "::");
  const size_t space = name ? static_cast<size_t>(name - given.name) : 0;
  if (!name || given.results > kMaxResults || given.results > slot.count || space > 200) {
    message.set("{} with {} results does not fit kernel {}", given.name, given.results, given.kernel);
    return Status::InvalidArgument;
  }
  for (size_t i = 0; i < kMaxResults; ++i)
    slot.dtypes[i] = given.dtypes && i < given.results ? given.dtypes[i] : -1;
  const size_t key_size = strlen(given.key), name_size = strlen(given.name);
  for (size_t i = 0; i < slot_count; ++i) {
    const char* known = slots[i].name;
    if (strncmp(known, given.name, name_size) || known[name_size] != '@' ||
        strcmp(known + name_size + 1, given.key)) {
      continue;
    }
    slot.kernel_name = slots[i].kernel_name;
    slot.name = slots[i].name;
    slots[i] = slot;
    return Status::Ok;
  }
  if (slot_count == kMaxSlots) {
    message.set("{} operators are registered already; the rest need Python implementations", slot_count);
    return Status::NotSupported;
  }
  slot.kernel_name = strdup(given.kernel);
  char* full = static_cast<char*>(malloc(name_size + key_size + 2));
  if (!slot.kernel_name || !full) {
    free(slot.kernel_name);
    free(full);
    return Status::OutOfMemory;
  }
  memcpy(full, given.name, name_size);
  full[name_size] = '@';
  memcpy(full + name_size + 1, given.key, key_size + 1);
  char ns[201];
  memcpy(ns, given.name, space);
  ns[space] = '\0';
  const size_t number = slot_count;
  slot.name = full;
  slots[number] = slot;
  TorchLibrary library = nullptr;
  const TorchFunction function = trampoline_of(number, typename detail::MakeIndices<kRows>::type{});
  // Never deleted: the registration holds as long as the library object does.
  if (torch.library_init_impl(ns, given.key, "penlight", 0, &library) ||
      torch.library_impl(library, name + 2, function, kTorchAbi)) {
    message.set("torch refused {}: {}", given.name, torch.last_error());
    return Status::InvalidState;
  }
  ++slot_count;
  return Status::Ok;
}

}  // namespace

}  // namespace penlight::hosted

pl_status pl_torch_connect(const char* path, char* error, size_t error_size) {
  using penlight::hosted::torch;
  static bool connected = false;
  penlight::Message message;
  if (!connected) {
    if (const char* missing = torch.connect(path)) {
      message.set("this version of torch has no {}", missing);
      return penlight::hosted::report(Status::NotSupported, message.c_str(), error, error_size);
    }
    connected = true;
  }
  return penlight::hosted::report(Status::Ok, "", error, error_size);
}

pl_status pl_torch_register(const pl_torch_operator* described, char* error, size_t error_size) {
  penlight::Message message;
  const Status status = penlight::hosted::register_operator(*described, message);
  return penlight::hosted::report(status, message.c_str(), error, error_size);
}
