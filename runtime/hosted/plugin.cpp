#include "plugin.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"

namespace penlight::hosted {

namespace {

// One line after the other into a buffer that the caller owns.
class Lines {
 public:
  Lines(char* text, size_t capacity) : text_(text), capacity_(capacity) {
    if (capacity_) text_[0] = '\0';
  }
  __attribute__((format(printf, 2, 3))) Lines& add(const char* format, ...) {
    va_list args;
    va_start(args, format);
    const int written = vsnprintf(text_ + size_, capacity_ - size_, format, args);
    va_end(args);
    if (written > 0) size_ += static_cast<size_t>(written);
    if (size_ >= capacity_) size_ = capacity_ ? capacity_ - 1 : 0;
    return *this;
  }

 private:
  char* text_;
  size_t capacity_;
  size_t size_ = 0;
};

struct TypeName {
  char letter;
  const char* schema;
  const char* cpp;
};
constexpr TypeName kTypes[] = {{'T', "Tensor", "const Tensor&"},
                               {'t', "Tensor?", "const Optional<Tensor>&"},
                               {'O', "Tensor(a!)", "Tensor&"},
                               {'L', "Tensor[]", "TensorList"},
                               {'l', "Tensor[]?", "Optional<TensorList>"},
                               {'Q', "Tensor?[]", "ArrayRef<Optional<Tensor>>"},
                               {'q', "Tensor?[]?", "Optional<ArrayRef<Optional<Tensor>>>"},
                               {'S', "Scalar", "const Scalar&"},
                               {'s', "Scalar?", "Optional<Scalar>"},
                               {'I', "int", "int64_t"},
                               {'i', "int?", "Optional<int64_t>"},
                               {'F', "float", "double"},
                               {'f', "float?", "Optional<double>"},
                               {'B', "bool", "bool"},
                               {'b', "bool?", "Optional<bool>"},
                               {'J', "int[]", "ArrayRef<int64_t>"},
                               {'j', "int[]?", "Optional<ArrayRef<int64_t>>"},
                               {'D', "float[]", "ArrayRef<double>"},
                               {'d', "float[]?", "Optional<ArrayRef<double>>"},
                               {'C', "bool[]", "ArrayRef<bool>"},
                               {'c', "bool[]?", "Optional<ArrayRef<bool>>"},
                               {'Z', "str", "StringView"},
                               {'z', "str?", "Optional<StringView>"},
                               {'E', "ScalarType", "ScalarType"},
                               {'e', "ScalarType?", "Optional<ScalarType>"},
                               {'Y', "Layout", "Layout"},
                               {'y', "Layout?", "Optional<Layout>"},
                               {'M', "MemoryFormat", "MemoryFormat"},
                               {'m', "MemoryFormat?", "Optional<MemoryFormat>"},
                               {'G', "Device", "Device"},
                               {'g', "Device?", "Optional<Device>"},
                               {'R', "Generator", "Generator"},
                               {'r', "Generator?", "Optional<Generator>"}};

const TypeName& type_of(char letter) {
  static constexpr TypeName kUnknown = {'?', "?", "?"};
  for (const TypeName& type : kTypes) {
    if (type.letter == letter) return type;
  }
  return kUnknown;
}

void add_function(Lines& lines, const char* letters) {
  lines.add("function (KernelContext&");
  for (; *letters; ++letters) lines.add(", %s", type_of(*letters).cpp);
  lines.add(")");
}

// False, with the reason in `error`, when schema and function do not agree.
bool agrees(const OperatorRecord& record, char* error, size_t error_size) {
  const char* text = record.schema;
  const char* letters = record.kernel.signature;
  const Schema schema = compare_schema(text, letters);
  if (schema.fault == SchemaFault::None) return true;
  Lines lines(error, error_size);
  const size_t at = schema.where;
  const bool is_result = at >= schema.count - schema.results;
  const int length = static_cast<int>(schema.name_end[at] - schema.name_start[at]);
  const char* name = text + schema.name_start[at];
  switch (schema.fault) {
    case SchemaFault::Syntax:
      lines.add("a schema is `name(Type argument, ...) -> Tensor`; this one stops making sense at \"%.24s\"",
                text[at] ? text + at : "its end");
      break;
    case SchemaFault::Type:
      lines.add("argument %.*s has a type that operators cannot have", length, name);
      break;
    case SchemaFault::Result:
      lines.add("an operator's results are Tensors, each written to an out argument; this one has another");
      break;
    case SchemaFault::NoOut:
      lines.add(
          "there is no out argument: the function's last parameters are a `Tensor& out` for each result");
      break;
    case SchemaFault::OutName:
      lines.add("the overload of an out variant is named `out`, or ends with `_out`");
      break;
    case SchemaFault::Count: {
      const size_t given = strlen(letters);
      lines.add(
          "the function has %zu parameter%s after the context, the schema makes %zu (%zu of them for "
          "results)",
          given, given == 1 ? "" : "s", schema.count, schema.results);
      break;
    }
    case SchemaFault::Mismatch:
      if (is_result) {
        lines.add("parameter %zu is %s in the function; for a result it is Tensor&", at + 1,
                  type_of(letters[at]).cpp);
      } else {
        lines.add("argument %.*s is %s in the schema, which is %s in C++; the function has %s", length, name,
                  type_of(schema.letters[at]).schema, type_of(schema.letters[at]).cpp,
                  type_of(letters[at]).cpp);
      }
      break;
    default:
      lines.add("the schema has more than %zu arguments", kMaxSchemaArguments);
  }
  lines.add("\n%s\nschema   %s::%s\n", record.kernel.source, record.library.name, text);
  add_function(lines, letters);
  return false;
}

bool same_key(const char* a, const char* b) { return a == b || (a && b && strcmp(a, b) == 0); }

// The library in default_registry() that has a kernel of the same library, name and
// key; its kernels are of plug-ins when `source` is a file and a line.
KernelLibrary* twin_of(const OperatorRecord& record) {
  for (const KernelLibrary* library = default_registry().first(); library; library = library->next) {
    if (library == &record.library || strcmp(library->name, record.library.name) != 0) continue;
    for (size_t i = 0; i < library->count; ++i) {
      const Kernel& kernel = library->kernels[i];
      if (strcmp(kernel.name, record.kernel.name) == 0 && same_key(kernel.key, record.kernel.key)) {
        return const_cast<KernelLibrary*>(library);
      }
    }
  }
  return nullptr;
}

// Of the record that `library` is part of, which all libraries of one kernel are.
bool is_file(const KernelLibrary& library, const char* file) {
  const char* source = library.count == 1 ? library.kernels[0].source : nullptr;
  const size_t length = strlen(file);
  return source && strncmp(source, file, length) == 0 && source[length] == ':';
}

bool is_added(const KernelLibrary& library) {
  for (const KernelLibrary* known = default_registry().first(); known; known = known->next) {
    if (known == &library) return true;
  }
  return false;
}

// What the last load_plugin() changed: a library that was added, or the kernels that one had before.
struct Change {
  KernelLibrary* library;
  const Kernel* before;
  Change* next;
};
Change* changes = nullptr;  // the last first

void forget_changes() {
  while (changes) {
    Change* next = changes->next;
    free(changes);
    changes = next;
  }
}

bool note_change(KernelLibrary& library, const Kernel* before) {
  Change* change = static_cast<Change*>(malloc(sizeof(Change)));
  if (!change) return false;
  *change = {&library, before, changes};
  changes = change;
  return true;
}

Status check(const OperatorRecord* first, char* error, size_t error_size) {
  for (const OperatorRecord* record = first; record; record = record->next) {
    if (!agrees(*record, error, error_size)) return Status::InvalidArgument;
    for (const OperatorRecord* other = first; other != record; other = other->next) {
      if (strcmp(other->kernel.name, record->kernel.name) != 0) continue;
      // One function under one name, said twice: by name, and with its schema.
      if (other->kernel.call == record->kernel.call) continue;
      Lines(error, error_size)
          .add("%s is defined twice\n%s\nalso at %s", record->kernel.name, other->kernel.source,
               record->kernel.source);
      return Status::InvalidState;
    }
    const KernelLibrary* twin = twin_of(*record);
    if (!twin || is_file(*twin, record->file)) continue;
    const char* source = twin->kernels[0].source;
    Lines(error, error_size)
        .add("%s has a kernel already, of another file\n%s\nalready loaded from %s", record->kernel.name,
             record->kernel.source, source ? source : "this program");
    return Status::InvalidState;
  }
  return Status::Ok;
}

}  // namespace

Status load_plugin(const char* path, const OperatorRecord** first, char* error, size_t error_size) {
  *first = nullptr;
  forget_changes();
  // A bare name is a file of this folder, not one to look for where the system keeps libraries.
  char here[4096];
  const char* file = path;
  if (!strchr(path, '/') && snprintf(here, sizeof here, "./%s", path) < static_cast<int>(sizeof here)) {
    file = here;
  }
  void* handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* reason = dlerror();
    Lines(error, error_size).add("the plug-in cannot be loaded\n%s\n%s", path, reason ? reason : "");
    return Status::AccessFailed;
  }
  const auto entry = reinterpret_cast<PluginEntry>(dlsym(handle, "penlight_plugin"));
  const PluginTable* table = entry ? entry() : nullptr;
  if (!table) {
    Lines(error, error_size)
        .add(
            "this is no plug-in: it has no function penlight_plugin\n%s\nbuild it with penlight.build.plugin",
            path);
    dlclose(handle);
    return Status::NotSupported;
  }
  if (table->abi != kPluginAbi || table->layout != plugin_layout()) {
    Lines(error, error_size)
        .add(
            "the plug-in was built with headers of another version, or other options, than this runtime\n%s\n"
            "interface %u, layout %016llx; this runtime has %u, %016llx",
            path, table->abi, static_cast<unsigned long long>(table->layout), kPluginAbi,
            static_cast<unsigned long long>(plugin_layout()));
    dlclose(handle);
    return Status::NotSupported;
  }
  if (!table->first) {
    Lines(error, error_size).add("the plug-in defines no operator\n%s\nno PENLIGHT_LIBRARY line", path);
    dlclose(handle);
    return Status::InvalidArgument;
  }
  if (const Status status = check(table->first, error, error_size); status != Status::Ok) {
    if (!is_added(table->first->library)) dlclose(handle);
    return status;
  }
  for (OperatorRecord* record = table->first; record; record = record->next) {
    KernelLibrary* place = is_added(record->library) ? &record->library : twin_of(*record);
    if (place && place->kernels == &record->kernel) continue;
    if (!note_change(place ? *place : record->library, place ? place->kernels : nullptr)) {
      undo_plugin();
      return Status::OutOfMemory;
    }
    if (place) {
      place->kernels = &record->kernel;
    } else {
      default_registry().append(record->library);
    }
  }
  *first = table->first;
  return Status::Ok;
}

void undo_plugin() {
  for (const Change* change = changes; change; change = change->next) {
    if (change->before) {
      change->library->kernels = change->before;
    } else {
      default_registry().remove(*change->library);
    }
  }
  forget_changes();
}

}  // namespace penlight::hosted
