// Where a module's memory comes from, and who shares it:
//
//   regions that hold state only   one for each memory id, shared by all methods
//   other planned regions          one for each memory id, shared by all methods, as
//                                  one method runs at a time
//   ... that mix state and work    one for the method alone; a file says nothing of
//                                  that beforehand, so it shows when state turns up
//                                  in a shared region
//   the method itself, outputs     its own
#include <penlight/module.h>
#include <string.h>

#include "heap.h"
#include "lent_tensors.h"
#include "linked_libraries.h"
#include "nearest.h"
#include "thread_pool.h"

namespace penlight {

using hosted::Array;
using hosted::destroy;
using hosted::HeapScratch;
using hosted::make;
using hosted::Region;

namespace {

// The user's .ptd files one after the other, then the user's own map.
struct DataMaps : DataMap {
  Array<TensorFile*> files;
  const DataMap* last = nullptr;

  DataMaps() {
    find = [](const DataMap* self, const char* key, DataEntry& entry) {
      const DataMaps& maps = *static_cast<const DataMaps*>(self);
      for (const TensorFile* file : maps.files) {
        const Status status = file->find(file, key, entry);
        if (status != Status::NotFound) return status;
      }
      return maps.last ? maps.last->find(maps.last, key, entry) : Status::NotFound;
    };
    will_read = [](const DataMap* self, const void* data, size_t size) {
      const DataMaps& maps = *static_cast<const DataMaps*>(self);
      for (const TensorFile* file : maps.files) file->will_read(file, data, size);
      if (maps.last && maps.last->will_read) maps.last->will_read(maps.last, data, size);
    };
  }
  bool empty() const { return files.size() == 0 && !last; }

  // A tensor that two files have would be that of the first one, whichever was meant.
  Status check_last(const char* const* paths, Message* message) const {
    const size_t at = files.size() - 1;
    const TensorFile& added = *files[at];
    for (size_t i = 0; at && i < added.size(); ++i) {
      for (size_t k = 0; k < at; ++k) {
        DataEntry ignored;
        if (files[k]->find(files[k], added.key(i), ignored) == Status::NotFound) continue;
        message->set("tensor {} is in two data files: {} and {}", added.key(i), paths[k], paths[at]);
        return Status::InvalidArgument;
      }
    }
    return Status::Ok;
  }
};

struct SharedRegion {
  Region* region;
  size_t size;       // largest of all methods
  bool initialised;  // state in it has its initial values
};

void free_regions(const Array<SharedRegion>& shared) {
  for (SharedRegion& entry : shared) destroy(entry.region);
}

bool inside(const void* address, const Region* region) {
  const uint8_t* byte = static_cast<const uint8_t*>(address);
  return region && byte >= region->data() && byte < region->data() + region->size();
}

bool overlap(const void* data, size_t size, const Region* region) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(data);
  if (!region) return false;
  const uintptr_t start = reinterpret_cast<uintptr_t>(region->data());
  return first < start + region->size() && start < first + size;
}

}  // namespace

struct Module::LoadedMethod {
  MethodMeta meta;
  Region memory;
  ArenaAllocator allocator;
  Array<Arena> arenas;
  Array<Region*> own;  // by memory id; null where the region is shared
  Array<Region*> output_memory;
  Array<Value> outputs;
  hosted::LentTensors lent;
  Method method;  // last, so that it goes before its memory

  ~LoadedMethod() {
    for (Region* region : own) destroy(region);
    for (Region* region : output_memory) destroy(region);
  }
};

struct Module::Implementation {
  MappedFile mapped;
  ReadFile read;
  BufferLoader buffer{nullptr, 0};
  DataLoader* loader = nullptr;
  Array<MappedFile*> data_loaders;
  DataMaps data;
  hosted::LibrarySelection libraries;  // for callers who gave no registry
  const KernelRegistry* registry = nullptr;
  Program program;
  HeapScratch scratch;
  RandomState random;
  Workers workers = {nullptr, nullptr, 1};
  Array<SharedRegion> work, state_regions;  // by memory id
  bool measured = false;
  Array<LoadedMethod*> methods;  // in the order of the program; null until prepared
  Array<StateTensor> state;      // of prepared methods, each once
  bool all_state = false;

  ~Implementation() {
    for (LoadedMethod* method : methods) destroy(method);
    for (TensorFile* file : data.files) destroy(file);
    for (MappedFile* file : data_loaders) destroy(file);
    free_regions(work);
    free_regions(state_regions);
  }

  size_t index_of(const char* method) const {
    for (size_t i = 0; i < program.method_count(); ++i) {
      const char* name = program.method_name(i);
      if (name && strcmp(name, method) == 0) return i;
    }
    return SIZE_MAX;
  }

  bool knows(const StateTensor& wanted) const {
    for (const StateTensor& known : state) {
      if (known.tensor.const_data_ptr() != wanted.tensor.const_data_ptr()) continue;
      if (!known.name || !wanted.name || strcmp(known.name, wanted.name) == 0) return true;
    }
    return false;
  }

  bool measure();
  bool give_arenas(LoadedMethod& loaded, bool private_work);
  bool finds_state_in_shared_work(const LoadedMethod& loaded) const;
  Status load(LoadedMethod& loaded, const char* name, Message* message);
  Status adopt_state(const LoadedMethod& loaded, Message* message);
  bool give_outputs(LoadedMethod& loaded);
};

Argument::Argument(const Tensor& given)
    : tensor{given.const_data_ptr(), given.scalar_type(), static_cast<size_t>(given.dim()), {}},
      is_tensor(true) {
  for (size_t d = 0; d < tensor.dim; ++d) tensor.sizes[d] = given.sizes()[d];
}

// The size of each shared region is the largest that any method asks for.
bool Module::Implementation::measure() {
  if (measured) return true;
  for (size_t i = 0; i < program.method_count(); ++i) {
    MethodMeta meta;
    const char* name = program.method_name(i);
    // A damaged method is reported when it is asked for.
    if (!name || program.method_meta(name, meta, nullptr) != Status::Ok) continue;
    for (size_t id = 0; id < meta.arena_count(); ++id) {
      if (work.size() <= id && !(work.resize(id + 1) && state_regions.resize(id + 1))) return false;
      SharedRegion& region = meta.arena_is_state(id) ? state_regions[id] : work[id];
      if (meta.arena_size(id) > region.size) region.size = meta.arena_size(id);
    }
  }
  return measured = true;
}

bool Module::Implementation::give_arenas(LoadedMethod& loaded, bool private_work) {
  const size_t count = loaded.meta.arena_count();
  if (!measure() || !loaded.arenas.resize(count) || !loaded.own.resize(count)) return false;
  for (size_t id = 0; id < count; ++id) {
    const bool is_state = loaded.meta.arena_is_state(id);
    const size_t size = loaded.meta.arena_size(id);
    if (private_work && !is_state) {
      Region* region = make<Region>();
      loaded.own[id] = region;
      if (!region || !region->allocate(size)) return false;
      loaded.arenas[id] = {region->data(), size, false};
      continue;
    }
    SharedRegion& shared = is_state ? state_regions[id] : work[id];
    if (!shared.region) {
      shared.region = make<Region>();
      if (!shared.region || !shared.region->allocate(shared.size)) {
        destroy(shared.region);
        shared.region = nullptr;
        return false;
      }
    }
    loaded.arenas[id] = {shared.region->data(), size, is_state && shared.initialised};
  }
  return true;
}

bool Module::Implementation::finds_state_in_shared_work(const LoadedMethod& loaded) const {
  for (size_t i = 0; i < loaded.method.state_count(); ++i) {
    for (size_t id = 0; id < loaded.meta.arena_count(); ++id) {
      if (!loaded.own[id] && !loaded.meta.arena_is_state(id) &&
          inside(loaded.method.state(i).tensor.const_data_ptr(), work[id].region)) {
        return true;
      }
    }
  }
  return false;
}

// Methods keep a fixed number of bytes; delegates take what they need on top of
// that, which shows only when it was not enough.
Status Module::Implementation::load(LoadedMethod& loaded, const char* name, Message* message) {
  const bool has_delegates = loaded.meta.delegate_count() > 0;
  if (!loaded.memory.allocate(loaded.meta.method_bytes() + (has_delegates ? size_t{1} << 20 : 0))) {
    message->set("method {} needs {} bytes for itself, which the machine does not give", name,
                 loaded.meta.method_bytes());
    return Status::OutOfMemory;
  }
  loaded.allocator = ArenaAllocator(loaded.memory.data(), loaded.memory.size());
  const MemoryManager manager{
      &loaded.allocator, loaded.arenas.data(), loaded.arenas.size(), scratch.source(), &random, workers};
  return loaded.method.load(program, name, manager, message, registry, data.empty() ? nullptr : &data);
}

// State that this method has and none before it: in a region that was initialised
// by another method its initial values are still missing.
Status Module::Implementation::adopt_state(const LoadedMethod& loaded, Message* message) {
  for (size_t i = 0; i < loaded.method.state_count(); ++i) {
    const StateTensor& found = loaded.method.state(i);
    if (knows(found)) continue;
    for (size_t id = 0; id < loaded.arenas.size(); ++id) {
      if (!loaded.arenas[id].holds_state || !inside(found.tensor.const_data_ptr(), state_regions[id].region))
        continue;
      if (!found.has_initial) continue;
      const size_t size = found.tensor.nbytes();
      const void* initial = loader->load(loader, found.initial_offset, size);
      if (!initial) {
        message->set("the initial value of {} cannot be read", found.name ? found.name : "a state tensor");
        return Status::AccessFailed;
      }
      memcpy(found.tensor.mutable_data_ptr(), initial, size);
    }
    if (!state.push(found)) return Status::OutOfMemory;
  }
  for (size_t id = 0; id < loaded.arenas.size(); ++id) {
    if (loaded.meta.arena_is_state(id)) state_regions[id].initialised = true;
  }
  return Status::Ok;
}

// Memory for outputs that the planner left to the caller.
bool Module::Implementation::give_outputs(LoadedMethod& loaded) {
  Method& method = loaded.method;
  if (!loaded.outputs.resize(method.output_count()) || !loaded.output_memory.resize(method.output_count()))
    return false;
  for (size_t i = 0; i < method.output_count(); ++i) {
    TensorInfo info;
    if (loaded.meta.output_tensor(i, info) != Status::Ok || info.planned) continue;
    Region* region = make<Region>();
    loaded.output_memory[i] = region;
    if (!region || !region->allocate(info.nbytes)) return false;
    // Refused where the output is a constant or an input, which needs no memory.
    if (method.set_output_data(i, region->data(), info.nbytes, nullptr) != Status::Ok) region->release();
  }
  return true;
}

Module::Module() : impl_(nullptr), status_(Status::Ok) {}
Module::Module(const char* path, const ModuleOptions& options) : Module() { open(path, options); }
Module::~Module() { destroy(impl_); }

Status Module::fail(Status status) {
  status_ = status;
  if (Message::kEnabled && message_.empty()) message_.set("{}", status_name(status));
  return status;
}

Status Module::start(DataLoader* loader, const ModuleOptions& options) {
  Implementation& self = *impl_;
  self.loader = loader;
  self.registry = options.registry ? options.registry : &self.libraries.registry();
  if (!options.registry) {
    if (const Status status = self.libraries.select(nullptr, &message_); status != Status::Ok) return status;
  }
  self.data.last = options.data;
  self.workers = hosted::workers_of(options.threads);
  for (size_t i = 0; i < options.data_path_count; ++i) {
    MappedFile* file = make<MappedFile>();
    TensorFile* tensors = make<TensorFile>();
    if (!file || !tensors || !self.data_loaders.push(file)) {
      destroy(file);
      destroy(tensors);
      return Status::OutOfMemory;
    }
    if (!self.data.files.push(tensors)) {
      destroy(tensors);
      return Status::OutOfMemory;
    }
    Status status = file->open(options.data_paths[i], &message_);
    if (status == Status::Ok) {
      status = tensors->load(*file, &message_);
      if (status != Status::Ok) message_.prepend("{}: ", options.data_paths[i]);
    }
    if (status == Status::Ok) status = self.data.check_last(options.data_paths, &message_);
    if (status != Status::Ok) return status;
  }
  const Status status = self.program.load(*loader, &message_);
  if (status != Status::Ok) return status;
  return self.methods.resize(self.program.method_count()) ? Status::Ok : Status::OutOfMemory;
}

Status Module::open(const char* path, const ModuleOptions& options) {
  message_.clear();
  status_ = Status::Ok;
  if (impl_) {
    message_.set("the module is open already");
    return fail(Status::InvalidState);
  }
  impl_ = make<Implementation>();
  if (!impl_) return fail(Status::OutOfMemory);
  Status status = options.map ? impl_->mapped.open(path, &message_) : impl_->read.open(path, &message_);
  if (status == Status::Ok) {
    status = start(options.map ? static_cast<DataLoader*>(&impl_->mapped) : &impl_->read, options);
  }
  if (status == Status::Ok) return status;
  destroy(impl_);
  impl_ = nullptr;
  return fail(status);
}

Status Module::open(const void* bytes, size_t size, const ModuleOptions& options) {
  message_.clear();
  status_ = Status::Ok;
  if (impl_) {
    message_.set("the module is open already");
    return fail(Status::InvalidState);
  }
  impl_ = make<Implementation>();
  if (!impl_) return fail(Status::OutOfMemory);
  impl_->buffer = BufferLoader(bytes, size);
  const Status status = start(&impl_->buffer, options);
  if (status == Status::Ok) return status;
  destroy(impl_);
  impl_ = nullptr;
  return fail(status);
}

const Program& Module::program() const {
  static constexpr Program closed;  // made by the compiler: threads cannot race to it
  return impl_ ? impl_->program : closed;
}

size_t Module::method_count() const { return program().method_count(); }
const char* Module::method_name(size_t index) const { return program().method_name(index); }

Status Module::method_meta(const char* method, MethodMeta& meta) {
  if (!impl_ && status_ != Status::Ok) return status_;
  message_.clear();
  status_ = Status::Ok;
  const Status status = program().method_meta(method, meta, &message_);
  return status == Status::Ok ? status : fail(status);
}

Module::LoadedMethod* Module::prepare(const char* name) {
  if (!impl_ && status_ != Status::Ok) return nullptr;  // which says why none is open
  message_.clear();
  status_ = Status::Ok;
  if (!impl_) {
    message_.set("no program is open");
    fail(Status::InvalidState);
    return nullptr;
  }
  const size_t index = impl_->index_of(name);
  if (index == SIZE_MAX) {
    hosted::say_no_method(impl_->program, name, message_);
    fail(Status::NotFound);
    return nullptr;
  }
  if (impl_->methods[index]) return impl_->methods[index];

  // At most twice: again with regions of its own when state was found in shared
  // ones that other methods write to, or will.
  for (int attempt = 0; attempt < 2; ++attempt) {
    const bool private_work = attempt == 1;
    LoadedMethod* loaded = make<LoadedMethod>();
    Status status = loaded ? impl_->program.method_meta(name, loaded->meta, &message_) : Status::OutOfMemory;
    if (status == Status::Ok && !impl_->give_arenas(*loaded, private_work)) {
      message_.set("method {} needs planned memory that the machine does not give", name);
      for (size_t id = 0; id < loaded->meta.arena_count(); ++id) {
        message_.append(id ? ", {}" : ": {}", loaded->meta.arena_size(id));
      }
      message_.append(" bytes");
      status = Status::OutOfMemory;
    }
    if (status == Status::Ok) status = impl_->load(*loaded, name, &message_);
    if (status == Status::Ok && !private_work && impl_->methods.size() > 1 &&
        impl_->finds_state_in_shared_work(*loaded)) {
      destroy(loaded);
      continue;
    }
    if (status == Status::Ok && !impl_->give_outputs(*loaded)) {
      message_.set("the outputs of method {} need memory that the machine does not give", name);
      status = Status::OutOfMemory;
    }
    if (status == Status::Ok) status = impl_->adopt_state(*loaded, &message_);
    if (status == Status::Ok && !loaded->lent.find(*this, loaded->method)) status = Status::OutOfMemory;
    if (status == Status::Ok) return impl_->methods[index] = loaded;
    destroy(loaded);
    fail(status);
    return nullptr;
  }
  return nullptr;
}

Method* Module::load(const char* method) {
  LoadedMethod* loaded = prepare(method);
  return loaded ? &loaded->method : nullptr;
}

Outputs Module::run(const char* name, const Argument* arguments, size_t count, uint64_t max_jumps) {
  LoadedMethod* loaded = prepare(name);
  if (!loaded) return {status_, error(), nullptr, 0};
  Method& method = loaded->method;
  if (count != method.input_count()) {
    message_.set("method {} takes {} inputs, {} were given", name, method.input_count(), count);
    fail(Status::InvalidArgument);
    return {status_, error(), nullptr, 0};
  }
  Status status = Status::Ok;
  const hosted::LentTensors::Run lent(loaded->lent);
  for (size_t i = 0; i < count && status == Status::Ok; ++i) {
    const Argument& given = arguments[i];
    if (given.is_tensor) {
      const InputTensor tensor{given.tensor.data, given.tensor.sizes, given.tensor.dim, given.tensor.dtype};
      status = lent.set_input(i, tensor, &message_);
    } else {
      status = method.set_input(i, given.value, &message_);
    }
  }
  if (status == Status::Ok) status = method.check_inputs(&message_);
  if (status == Status::Ok) status = method.execute(&message_, max_jumps);
  for (size_t i = 0; i < method.output_count() && status == Status::Ok; ++i) {
    status = method.output(i, loaded->outputs[i], &message_);
  }
  if (status != Status::Ok) {
    fail(status);
    return {status, error(), nullptr, 0};
  }
  return {Status::Ok, "", loaded->outputs.data(), loaded->outputs.size()};
}

Status Module::load_state() {
  if (!impl_) return prepare(""), status_;
  if (impl_->all_state) return Status::Ok;
  size_t prepared = 0;
  for (size_t i = 0; i < method_count(); ++i) prepared += prepare(method_name(i)) != nullptr;
  if (prepared == 0 && method_count() > 0) return status_;
  message_.clear();
  impl_->all_state = true;
  return status_ = Status::Ok;
}

size_t Module::state_count() const { return impl_ ? impl_->state.size() : 0; }
const StateTensor& Module::state(size_t index) const { return impl_->state[index]; }

const StateTensor* Module::find_state(const char* name) {
  if (load_state() != Status::Ok) return nullptr;
  for (size_t i = 0; i < state_count(); ++i) {
    if (state(i).name && strcmp(state(i).name, name) == 0) return &state(i);
  }
  message_.set("the program has no state {}", name);
  fail(Status::NotFound);
  return nullptr;
}

Status Module::set_state(const char* name, const void* data, size_t size) {
  if (!find_state(name)) return status_;
  // A name stands for several tensors where methods keep their own.
  for (size_t i = 0; i < state_count(); ++i) {
    if (!state(i).name || strcmp(state(i).name, name) != 0) continue;
    const Tensor& tensor = state(i).tensor;
    if (tensor.nbytes() != size) {
      message_.set("state {} has {} bytes, {} were given", name, tensor.nbytes(), size);
      return fail(Status::InvalidArgument);
    }
    if (size) memcpy(tensor.mutable_data_ptr(), data, size);
  }
  return Status::Ok;
}

Status Module::get_state(const char* name, void* data, size_t size) {
  const StateTensor* found = find_state(name);
  if (!found) return status_;
  if (found->tensor.nbytes() != size) {
    message_.set("state {} has {} bytes, room for {} was given", name, found->tensor.nbytes(), size);
    return fail(Status::InvalidArgument);
  }
  if (size) memcpy(data, found->tensor.const_data_ptr(), size);
  return Status::Ok;
}

Status Module::reset_state() {
  if (!impl_) return Status::Ok;
  message_.clear();
  status_ = Status::Ok;
  for (LoadedMethod* loaded : impl_->methods) {
    if (!loaded) continue;
    const Status status = loaded->method.reset_state(&message_);
    if (status != Status::Ok) return fail(status);
  }
  return Status::Ok;
}

void Module::seed(uint64_t seed) {
  if (impl_) impl_->random = {seed, 0};
}

Status Module::set_tracer(const char* method, EventTracer* tracer) {
  LoadedMethod* loaded = prepare(method);
  if (!loaded) return status_;
  loaded->method.set_tracer(tracer);
  return Status::Ok;
}

bool Module::has_memory_in(const void* data, size_t size) const {
  if (!impl_) return false;
  for (const SharedRegion& shared : impl_->work) {
    if (overlap(data, size, shared.region)) return true;
  }
  for (const SharedRegion& shared : impl_->state_regions) {
    if (overlap(data, size, shared.region)) return true;
  }
  for (const LoadedMethod* loaded : impl_->methods) {
    if (!loaded) continue;
    for (const Region* region : loaded->own) {
      if (overlap(data, size, region)) return true;
    }
    for (const Region* region : loaded->output_memory) {
      if (overlap(data, size, region)) return true;
    }
  }
  return false;
}

size_t Module::arena_bytes() const {
  size_t total = 0;
  if (!impl_) return total;
  for (const SharedRegion& shared : impl_->work) total += shared.region ? shared.region->size() : 0;
  for (const SharedRegion& shared : impl_->state_regions) total += shared.region ? shared.region->size() : 0;
  for (const LoadedMethod* loaded : impl_->methods) {
    for (size_t i = 0; loaded && i < loaded->own.size(); ++i)
      total += loaded->own[i] ? loaded->own[i]->size() : 0;
  }
  return total;
}

size_t Module::method_bytes() const {
  size_t total = 0;
  for (size_t i = 0; impl_ && i < impl_->methods.size(); ++i) {
    if (impl_->methods[i]) total += impl_->methods[i]->memory.size();
  }
  return total;
}

}  // namespace penlight
