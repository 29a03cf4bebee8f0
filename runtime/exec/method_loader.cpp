// The frame of a method: its memory, its inputs and outputs, its delegates. Values are built by
// load_values.cpp, instructions by load_instructions.cpp.
#include "exec/method_loader.h"

#include "program/plan.h"
#include "program/schema.h"

namespace penlight {

using flatbuffer::Table;
using flatbuffer::Vector;

MethodLoader::MethodLoader(const Program& program, uint32_t plan, Message* message)
    : program_(program), message_(message), reader_(program.data_, program.size_), plan_index_(plan) {
  root_ = reader_.root();
  plan_ = root_.element(root_.vector(schema::program::kPlans, 4), plan);
}

void* MethodLoader::carve(size_t count, size_t size, size_t alignment) {
  // A hostile file can ask for more than there is to count with.
  if (used_ > SIZE_MAX / 4 || count > SIZE_MAX / 4 / size) {
    used_ = SIZE_MAX / 2;
    return nullptr;
  }
  used_ = (used_ + alignment - 1) & ~(alignment - 1);
  void* result = measuring_ ? nullptr : base_ + used_;
  used_ += count * size;
  return result;
}

Status MethodLoader::damaged(const char* what, size_t index) {
  return fail(Status::InvalidProgram, "{} {} is damaged", what, index);
}

Status MethodLoader::measure(size_t* bytes) {
  measuring_ = true;
  const Status status = walk();
  *bytes = used_ + 16;
  return status;
}

Status MethodLoader::build(Method& method, const MemoryManager& memory, const KernelRegistry& registry,
                           const DataMap* external) {
  size_t bytes = 0;
  if (const Status status = measure(&bytes); status != Status::Ok) return status;
  const size_t room =
      memory.method_allocator ? memory.method_allocator->size() - memory.method_allocator->used() : 0;
  base_ = memory.method_allocator ? static_cast<uint8_t*>(memory.method_allocator->allocate(bytes - 16))
                                  : nullptr;
  if (!base_) {
    return fail(Status::OutOfMemory, "the method keeps {} bytes, the method allocator has {} left", bytes,
                room);
  }
  measuring_ = false;
  used_ = 0;
  method_ = &method;
  memory_ = &memory;
  registry_ = &registry;
  external_ = external;
  method.program_ = &program_;
  method.plan_ = plan_index_;
  method.registry_ = &registry;
  return walk();
}

Status MethodLoader::walk() {
  using Step = Status (MethodLoader::*)();
  constexpr Step kSteps[] = {&MethodLoader::load_arenas,    &MethodLoader::load_values,
                             &MethodLoader::load_lists,     &MethodLoader::load_ends,
                             &MethodLoader::load_delegates, &MethodLoader::load_instructions,
                             &MethodLoader::load_state};
  for (const Step step : kSteps) {
    if (const Status status = (this->*step)(); status != Status::Ok) return status;
    if (reader_.damaged())
      return fail(Status::InvalidProgram, "the method is damaged: it points outside the file");
  }
  return Status::Ok;
}

Status MethodLoader::load_arenas() {
  const Vector sizes = plan_.vector(schema::plan::kArenaSizes, 8);
  if (!sizes.present) return fail(Status::InvalidProgram, "the method does not say what memory it needs");
  if (measuring_) return Status::Ok;
  const size_t count = sizes.count > 0 ? sizes.count - 1 : 0;
  if (memory_->arena_count < count) {
    return fail(Status::OutOfMemory, "the method plans {} memory regions, {} were given", count,
                memory_->arena_count);
  }
  for (size_t i = 0; i < count; ++i) {
    const int64_t needed = sizes.get<int64_t>(i + 1);
    if (needed < 0 || static_cast<uint64_t>(needed) > memory_->arenas[i].size) {
      return fail(Status::OutOfMemory, "memory region {} has {} bytes, the method needs {}", i + 1,
                  memory_->arenas[i].size, needed);
    }
    const uintptr_t place = reinterpret_cast<uintptr_t>(memory_->arenas[i].data);
    if (needed > 0 && (place == 0 || place % 16 != 0)) {
      return fail(Status::InvalidArgument, "memory region {} is null, or not aligned to 16 bytes", i + 1);
    }
  }
  return Status::Ok;
}

Status MethodLoader::load_ends() {
  const Vector inputs = plan_.vector(schema::plan::kInputs, 4);
  const Vector outputs = plan_.vector(schema::plan::kOutputs, 4);
  if (!inputs.present || !outputs.present)
    return fail(Status::InvalidProgram, "the method has no list of inputs or outputs");
  uint32_t* in = carve<uint32_t>(inputs.count);
  uint32_t* out = carve<uint32_t>(outputs.count);
  uint8_t* set = carve<uint8_t>(inputs.count);
  TensorInfo* infos = carve<TensorInfo>(inputs.count);
  for (size_t i = 0; i < inputs.count + outputs.count; ++i) {
    const bool is_input = i < inputs.count;
    const uint32_t slot = is_input ? inputs.get<uint32_t>(i) : outputs.get<uint32_t>(i - inputs.count);
    if (slot >= value_count_) return damaged(is_input ? "input" : "output", is_input ? i : i - inputs.count);
    if (measuring_) continue;
    if (!is_input) {
      out[i - inputs.count] = slot;
      continue;
    }
    in[i] = slot;
    set[i] = values_[slot].tag != Tag::Tensor;
    if (values_[slot].tag != Tag::Tensor) continue;
    TensorPlace place;
    const Table entry = plan_.element(plan_.vector(schema::plan::kValues, 4), slot);
    read_tensor(entry.table(schema::value::kContent), infos[i], place);
    if (place.data_index != 0 || place.external)
      return fail(Status::InvalidProgram, "input {} is a constant", i);
  }
  if (measuring_) return Status::Ok;
  method_->inputs_ = in;
  method_->outputs_ = out;
  method_->input_set_ = set;
  method_->input_info_ = infos;
  method_->input_count_ = inputs.count;
  method_->output_count_ = outputs.count;
  return Status::Ok;
}

Status MethodLoader::load_delegates() {
  const Vector list = plan_.vector(schema::plan::kDelegates, 4);
  Delegate* delegates = carve<Delegate>(list.count);
  if (measuring_) return Status::Ok;
  method_->delegates_ = delegates;
  for (size_t i = 0; i < list.count; ++i) {
    delegates[i] = {nullptr, nullptr};
    method_->delegate_count_ = i + 1;
    if (const Status status = load_delegate(plan_.element(list, i), delegates[i]); status != Status::Ok)
      return status;
  }
  return Status::Ok;
}

Status MethodLoader::load_delegate(const Table& table, Delegate& delegate) {
  using namespace schema;
  const char* id = table.string(delegate::kId);
  if (!id) return fail(Status::InvalidProgram, "a delegate has no backend");
  const Backend* backend = kBackends ? find_backend(id) : nullptr;
  if (!backend)
    return fail(Status::MissingBackend, "the program needs backend {}, which is not registered", id);

  const Table where = table.table(delegate::kProcessed);
  const uint32_t index = where.u32(reference::kIndex);
  BackendInit init = {};
  if (where.u8(reference::kLocation) == 0) {
    const Table entry = root_.element(root_.vector(program::kDelegateData, 4), index);
    const Vector bytes = entry.vector(inline_data::kData, 1);
    init.processed = {bytes.data, bytes.count};
  } else {
    uint64_t offset, size;
    if (!program_.segment(index, &offset, &size) || size > SIZE_MAX) {
      return fail(Status::InvalidProgram, "the data of a delegate for {} lies outside the file", id);
    }
    const void* data = program_.loader_->load(program_.loader_, offset, static_cast<size_t>(size));
    if (!data) return fail(Status::AccessFailed, "the data of a delegate for {} cannot be read", id);
    init.processed = {static_cast<const uint8_t*>(data), static_cast<size_t>(size)};
  }

  const Vector list = table.vector(delegate::kSpecs, 4);
  CompileSpec* specs = memory_->method_allocator->allocate_array<CompileSpec>(list.count);
  if (!specs && list.count)
    return fail(Status::OutOfMemory, "no room for {} compile specs of {}", list.count, id);
  for (size_t k = 0; k < list.count; ++k) {
    const Table entry = table.element(list, k);
    const Vector value = entry.vector(spec::kValue, 1);
    specs[k] = {entry.string(spec::kKey), {value.data, value.count}};
    if (!specs[k].key) return fail(Status::InvalidProgram, "a compile spec of {} has no key", id);
  }
  init.specs = {specs, list.count};
  init.allocator = memory_->method_allocator;
  init.method = method_->name_;
  init.message = message_;
  if (message_) message_->clear();
  const Status status = backend->init(init, &delegate.handle);
  if (status != Status::Ok) {
    if (message_) message_->prepend("backend {} refused its delegate: ", id);
    return status;
  }
  delegate.backend = backend;
  return Status::Ok;
}

Status measure_method(const Program& program, uint32_t plan, size_t* bytes, Message* message) {
  return MethodLoader(program, plan, message).measure(bytes);
}

}  // namespace penlight
