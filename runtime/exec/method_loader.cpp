#include "exec/method_loader.h"

#include <string.h>

#include "exec/prims.h"
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

template <class T>
T* MethodLoader::carve(size_t count) {
  return static_cast<T*>(carve(count, sizeof(T), alignof(T)));
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
    if (needed > 0 && reinterpret_cast<uintptr_t>(memory_->arenas[i].data) % 16 != 0) {
      return fail(Status::InvalidArgument, "memory region {} is not aligned to 16 bytes", i + 1);
    }
  }
  return Status::Ok;
}

Status MethodLoader::load_values() {
  const Vector list = plan_.vector(schema::plan::kValues, 4);
  if (!list.present) return fail(Status::InvalidProgram, "the method has no values");
  value_count_ = list.count;
  values_ = carve<Value>(list.count);
  if (!measuring_) {
    method_->values_ = values_;
    method_->value_count_ = list.count;
  }
  for (size_t i = 0; i < list.count; ++i) {
    const Table entry = plan_.element(list, i);
    const uint8_t type = entry.u8(schema::value::kType);
    const Table content = entry.table(schema::value::kContent);
    if (type > schema::value::OptionalTensorList || (type > schema::value::Null && !content.present())) {
      return damaged("value", i);
    }
    Value scalar;
    scalar.tag = plan_tag(type);
    switch (type) {
      case schema::value::Int:
        scalar.as_int = content.i64(0);
        break;
      case schema::value::Bool:
        scalar.as_int = content.u8(0) != 0;
        break;
      case schema::value::Double:
        scalar.as_double = content.f64(0);
        break;
      case schema::value::String: {
        StringView* text = carve<StringView>(1);
        size_t length = 0;
        const char* characters = content.string(0, &length);
        if (!characters) return damaged("string", i);
        if (text) *text = StringView(characters, length);
        scalar.as_string = text;
        break;
      }
      default:
        break;
    }
    if (!measuring_) values_[i] = scalar;
    if (type == schema::value::Tensor) {
      if (const Status status = load_tensor(i, content); status != Status::Ok) return status;
    }
  }
  return Status::Ok;
}

Status MethodLoader::load_tensor(size_t index, const Table& table) {
  TensorInfo info;
  TensorPlace place;
  if (const char* problem = read_tensor(table, info, place)) {
    return fail(Status::InvalidProgram, "tensor {} {}", index, problem);
  }
  TensorImpl* impl = carve<TensorImpl>(1);
  dim_t* sizes = carve<dim_t>(2 * info.dim);
  uint8_t* order = carve<uint8_t>(info.dim);
  const bool placed = place.memory_id != 0 || place.data_index != 0 || place.external;
  // A scalar without a place has one element all the same: keep room for it here.
  void* scalar = !placed && info.dim == 0 ? carve<uint64_t>(2) : nullptr;
  if (measuring_) return Status::Ok;

  *impl = TensorImpl{scalar,
                     sizes,
                     sizes + info.dim,
                     order,
                     0,
                     scalar ? 16u : 0u,
                     info.dtype,
                     static_cast<uint8_t>(info.dim),
                     info.dynamism,
                     0};
  for (uint32_t d = 0; d < info.dim; ++d) {
    sizes[d] = placed ? info.sizes[d] : 0;
    order[d] = info.dim_order[d];
  }
  if (!placed) impl->flags = kUnplacedTensor;
  refresh_layout(*impl);
  values_[index].as_tensor = Tensor(impl);
  return placed ? place_tensor(index, *impl, info, place) : Status::Ok;
}

// Finds the bytes of constant or initial value number `data_index`.
bool MethodLoader::constant_place(uint32_t table_field, uint32_t data_index, size_t bytes, uint64_t* offset) {
  using namespace schema;
  Table where;
  if (table_field == program::kConstantSegment) {
    where = root_.table(table_field);
  } else {
    where = root_.element(root_.vector(table_field, 4), 0);
  }
  const Vector offsets = where.vector(subsegments::kOffsets, 8);
  uint64_t start, size;
  if (data_index >= offsets.count || !program_.segment(where.u32(subsegments::kSegment), &start, &size))
    return false;
  const uint64_t inner = offsets.get<uint64_t>(data_index);
  if (inner > size || bytes > size - inner) return false;
  *offset = start + inner;
  return true;
}

Status MethodLoader::place_tensor(size_t index, TensorImpl& impl, const TensorInfo& info,
                                  const TensorPlace& place) {
  impl.capacity = info.nbytes;
  if (place.memory_id != 0) {
    const Vector sizes = plan_.vector(schema::plan::kArenaSizes, 8);
    const size_t arena = place.memory_id - 1;
    const uint64_t size =
        place.memory_id < sizes.count ? static_cast<uint64_t>(sizes.get<int64_t>(place.memory_id)) : 0;
    if (place.memory_id >= sizes.count || place.offset > size || info.nbytes > size - place.offset) {
      return fail(Status::InvalidProgram, "tensor {} ends at byte {}, memory region {} has {}", index,
                  place.offset + info.nbytes, place.memory_id, size);
    }
    if (place.offset % element_size(info.dtype) != 0) {
      return fail(Status::InvalidProgram, "tensor {} is planned at byte {}, which is not aligned", index,
                  place.offset);
    }
    impl.data = static_cast<uint8_t*>(memory_->arenas[arena].data) + place.offset;
  }
  if (place.external) return load_external(index, impl, info, place);
  if (place.memory_id != 0) return Status::Ok;  // load_state() copies an initial value

  uint64_t offset;
  if (!constant_place(schema::program::kConstantSegment, place.data_index, info.nbytes, &offset)) {
    return fail(Status::InvalidProgram, "constant tensor {} lies outside the file's data", index);
  }
  const void* data = program_.loader_->load(program_.loader_, offset, info.nbytes);
  if (!data)
    return fail(Status::AccessFailed, "constant tensor {} of {} bytes cannot be read", index, info.nbytes);
  if (reinterpret_cast<uintptr_t>(data) % element_size(info.dtype) != 0) {
    return fail(Status::InvalidProgram, "constant tensor {} is not aligned", index);
  }
  impl.data = const_cast<void*>(data);
  impl.flags = kConstantTensor;
  return Status::Ok;
}

Status MethodLoader::load_external(size_t index, TensorImpl& impl, const TensorInfo& info,
                                   const TensorPlace& place) {
  DataEntry entry;
  const char* name = info.name;
  if (!external_) return fail(Status::InvalidArgument, "tensor {} is external data; none was given", name);
  if (const Status status = external_->find(external_, name, entry); status != Status::Ok) {
    return fail(status, "tensor {} is not in the external data", name);
  }
  bool same = entry.size >= info.nbytes;
  if (entry.has_layout) {
    same = same && entry.dtype == info.dtype && entry.dim == info.dim &&
           memcmp(entry.sizes, info.sizes, info.dim * sizeof(int32_t)) == 0 &&
           entry.dim_order.equals({info.dim_order, info.dim});
  }
  if (!same || reinterpret_cast<uintptr_t>(entry.data) % element_size(info.dtype) != 0) {
    return fail(Status::InvalidArgument, "tensor {} has another dtype, shape or layout in the external data",
                name);
  }
  (void)index;
  if (place.memory_id != 0) {
    memcpy(impl.data, entry.data, info.nbytes);
  } else {
    impl.data = const_cast<void*>(entry.data);
    impl.flags = kConstantTensor;
  }
  return Status::Ok;
}

// Lists come second: they name slots whose tags must be known.
Status MethodLoader::load_lists() {
  const Vector list = plan_.vector(schema::plan::kValues, 4);
  for (size_t i = 0; i < list.count; ++i) {
    const Table entry = plan_.element(list, i);
    const uint8_t type = entry.u8(schema::value::kType);
    if (type < schema::value::IntList || type > schema::value::OptionalTensorList) continue;
    const size_t width = type == schema::value::BoolList                                       ? 1
                         : type == schema::value::IntList || type == schema::value::DoubleList ? 8
                                                                                               : 4;
    const Vector items = entry.table(schema::value::kContent).vector(0, width);
    const size_t count = items.count;
    if (type == schema::value::DoubleList) {
      ListStorage<double>* storage = carve<ListStorage<double>>(1);
      double* data = carve<double>(count);
      if (measuring_) continue;
      *storage = {count, data, nullptr};
      for (size_t k = 0; k < count; ++k) data[k] = items.get<double>(k);
      values_[i].as_double_list = storage;
      continue;
    }
    if (type == schema::value::BoolList) {
      ListStorage<bool>* storage = carve<ListStorage<bool>>(1);
      bool* data = carve<bool>(count);
      if (measuring_) continue;
      *storage = {count, data, nullptr};
      for (size_t k = 0; k < count; ++k) data[k] = items.get<uint8_t>(k) != 0;
      values_[i].as_bool_list = storage;
      continue;
    }

    Value** slots = carve<Value*>(count);
    void* storage = carve<ListStorage<int64_t>>(1);
    void* data = nullptr;
    if (type == schema::value::IntList) data = carve<int64_t>(count);
    if (type == schema::value::TensorList) data = carve<Tensor>(count);
    if (type == schema::value::OptionalTensorList) data = carve<Optional<Tensor>>(count);
    if (measuring_) continue;
    for (size_t k = 0; k < count; ++k) {
      const int64_t slot = type == schema::value::IntList ? items.get<int64_t>(k) : items.get<int32_t>(k);
      if (type == schema::value::OptionalTensorList && slot == -1) {
        slots[k] = nullptr;
        continue;
      }
      if (slot < 0 || static_cast<uint64_t>(slot) >= value_count_) return damaged("list", i);
      slots[k] = &values_[slot];
      const Tag tag = slots[k]->tag;
      const bool fits = type == schema::value::IntList      ? tag == Tag::Int || tag == Tag::Bool
                        : type == schema::value::TensorList ? tag == Tag::Tensor
                                                            : tag == Tag::Tensor || tag == Tag::None;
      if (!fits) {
        return fail(Status::InvalidProgram, "list {} has a {} where it cannot have one", i, tag_name(tag));
      }
    }
    if (type == schema::value::IntList) {
      values_[i].as_int_list = static_cast<ListStorage<int64_t>*>(storage);
      *values_[i].as_int_list = {count, static_cast<int64_t*>(data), slots};
    } else if (type == schema::value::TensorList) {
      values_[i].as_tensor_list = static_cast<ListStorage<Tensor>*>(storage);
      *values_[i].as_tensor_list = {count, static_cast<Tensor*>(data), slots};
    } else {
      values_[i].as_optional_tensor_list = static_cast<ListStorage<Optional<Tensor>>*>(storage);
      *values_[i].as_optional_tensor_list = {count, static_cast<Optional<Tensor>*>(data), slots};
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
  const Backend* backend = find_backend(id);
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

Status MethodLoader::load_instructions() {
  using namespace schema;
  const Vector chains = plan_.vector(plan::kChains, 4);
  if (chains.count == 0) return fail(Status::InvalidProgram, "the method has no chain of instructions");
  if (chains.count > 1)
    return fail(Status::NotSupported, "the method has {} chains, one is supported", chains.count);
  const Vector list = plan_.element(chains, 0).vector(chain::kInstructions, 4);
  Instruction* instructions = carve<Instruction>(list.count);
  if (!measuring_) {
    method_->instructions_ = instructions;
    method_->instruction_count_ = list.count;
  }
  for (size_t i = 0; i < list.count; ++i) {
    const Table entry = plan_.element(list, i);
    const uint8_t type = entry.u8(instruction::kType);
    const Table content = entry.table(instruction::kContent);
    if (type < instruction::Kernel || type > instruction::Free || !content.present())
      return damaged("instruction", i);
    Instruction built = {};
    built.kind = type;
    built.target = content.u32(call::kIndex);
    Status status = Status::Ok;
    if (type == instruction::Kernel || type == instruction::Delegate) {
      status = take_arguments(i, content.vector(call::kArgs, 4), built);
      if (status == Status::Ok && !measuring_) {
        if (type == instruction::Kernel) {
          status = load_kernel(i, content, built);
        } else if (built.target >= method_->delegate_count_) {
          status = damaged("instruction", i);
        }
      }
    } else if (type == instruction::Move) {
      status = load_move(i, content, built);
    } else if (type == instruction::JumpFalse) {
      status = load_jump(i, content, built, list.count);
    } else {
      if (built.target >= value_count_) return damaged("instruction", i);
      if (!measuring_ && values_[built.target].tag != Tag::Tensor) {
        return fail(Status::InvalidProgram, "instruction {} frees a value that is no tensor", i);
      }
    }
    if (status != Status::Ok) return status;
    if (!measuring_) instructions[i] = built;
  }
  return Status::Ok;
}

Status MethodLoader::take_arguments(size_t index, const Vector& list, Instruction& instruction) {
  if (!list.present) return damaged("instruction", index);
  instruction.arg_count = static_cast<uint32_t>(list.count);
  instruction.args = carve<Value*>(list.count);
  for (size_t k = 0; k < list.count; ++k) {
    const uint32_t slot = list.get<uint32_t>(k);
    if (slot >= value_count_) return damaged("instruction", index);
    if (!measuring_) instruction.args[k] = &values_[slot];
  }
  return Status::Ok;
}

Status MethodLoader::load_kernel(size_t index, const Table& content, Instruction& instruction) {
  const Vector operators = plan_.vector(schema::plan::kOperators, 4);
  (void)content;
  char name[128];
  if (!operator_name(plan_.element(operators, instruction.target), name, sizeof name)) {
    return damaged("the operator of instruction", index);
  }
  Kernel prim;
  const Kernel* kernel = &prim;
  if (!find_prim(name, prim)) {
    char key[512];
    kernel =
        registry_->find(name, specialisation_key(instruction.args, instruction.arg_count, key, sizeof key));
  }
  if (!kernel) {
    return fail(Status::MissingKernel, "instruction {} calls {}, for which no kernel is registered", index,
                name);
  }
  instruction.call = kernel->call;
  return check_arguments(index, *kernel, instruction);
}

namespace {

// Whether a value may be passed where boxing.h's `letter` stands.
bool fits(char letter, const Value& value) {
  const bool optional = letter >= 'a' && letter != 'n';
  if (optional && value.is_none()) return true;
  const Tag tag = value.tag;
  switch (optional ? letter - ('a' - 'A') : letter) {
    case 'T':
      return tag == Tag::Tensor;
    case 'O':
      return tag == Tag::Tensor && !(value.as_tensor.unsafeGetTensorImpl()->flags & kConstantTensor);
    case 'L':
      return tag == Tag::TensorList;
    case 'Q':
      return tag == Tag::OptionalTensorList;
    case 'S':
    case 'F':
    case 'N':
    case 'n':
      return value.is_number();
    case 'I':
    case 'B':
      return tag == Tag::Int || tag == Tag::Bool;
    case 'E':
    case 'Y':
    case 'M':
      return tag == Tag::Int;
    case 'J':
      return tag == Tag::IntList;
    case 'D':
      return tag == Tag::DoubleList;
    case 'C':
      return tag == Tag::BoolList;
    case 'Z':
      return tag == Tag::String;
    case 'G':
      return true;
    default:
      return false;
  }
}

constexpr ScalarType kNothingLeftOut = static_cast<ScalarType>(-1);

// An element type in `value` that a selective build left out of the kernel.
ScalarType left_out_dtype(const Kernel& kernel, const Value& value) {
  ScalarType found = kNothingLeftOut;
  const auto look = [&](const Tensor& tensor) {
    const ScalarType dtype = tensor.scalar_type();
    if ((kernel.dtypes >> static_cast<int>(dtype) & 1u) == 0) found = dtype;
  };
  if (kernel.dtypes == 0) return found;
  if (value.tag == Tag::Tensor) look(value.as_tensor);
  if (value.tag == Tag::TensorList) {
    for (const Tensor& tensor : value.to_tensor_list()) look(tensor);
  }
  if (value.tag == Tag::OptionalTensorList) {
    for (const Optional<Tensor>& tensor : value.to_optional_tensor_list()) {
      if (tensor.has_value()) look(tensor.value());
    }
  }
  return found;
}

}  // namespace

Status MethodLoader::check_arguments(size_t index, const Kernel& kernel, const Instruction& instruction) {
  const size_t expected = strlen(kernel.signature);
  // The results follow the arguments once more, as one value.
  if (instruction.arg_count != expected && instruction.arg_count != expected + 1) {
    return fail(Status::InvalidProgram, "instruction {} passes {} arguments to {}, which takes {}", index,
                instruction.arg_count, kernel.name, expected);
  }
  for (size_t k = 0; k < expected; ++k) {
    if (fits(kernel.signature[k], *instruction.args[k])) {
      const ScalarType left_out = left_out_dtype(kernel, *instruction.args[k]);
      if (left_out == kNothingLeftOut) continue;
      return fail(Status::NotSupported, "instruction {} calls {} with {}, for which it was not compiled here",
                  index, kernel.name, dtype_name(left_out));
    }
    const char letter[2] = {kernel.signature[k], '\0'};
    return fail(Status::InvalidProgram,
                "instruction {} passes a {} as argument {} of {}, which takes it as {}", index,
                tag_name(instruction.args[k]->tag), k, kernel.name, letter);
  }
  return Status::Ok;
}

Status MethodLoader::load_move(size_t index, const Table& content, Instruction& instruction) {
  const uint32_t to = content.u32(schema::call::kTo);
  if (instruction.target >= value_count_ || to >= value_count_) return damaged("instruction", index);
  instruction.args = carve<Value*>(2);
  instruction.arg_count = 2;
  if (measuring_) return Status::Ok;
  Value* from = instruction.args[0] = &values_[instruction.target];
  Value* into = instruction.args[1] = &values_[to];
  if (from->tag != into->tag && !(from->is_number() && into->is_number())) {
    return fail(Status::InvalidProgram, "instruction {} moves a {} to a {}", index, tag_name(from->tag),
                tag_name(into->tag));
  }
  if (into->tag != Tag::Tensor) return Status::Ok;
  // Kernels were chosen, and inputs are set, by what the file says of the slot.
  bool input = false;
  for (size_t i = 0; i < method_->input_count_; ++i) input |= &values_[method_->inputs_[i]] == into;
  if (input || from->as_tensor.scalar_type() != into->as_tensor.scalar_type() ||
      from->as_tensor.dim() != into->as_tensor.dim()) {
    return fail(Status::InvalidProgram, "instruction {} moves a tensor to {}", index,
                input ? "an input" : "one of another dtype or rank");
  }
  return Status::Ok;
}

Status MethodLoader::load_jump(size_t index, const Table& content, Instruction& instruction, size_t count) {
  const uint32_t condition = content.u32(schema::call::kIndex);
  const uint32_t destination = content.u32(schema::call::kTo);
  if (condition >= value_count_ || destination > count) return damaged("instruction", index);
  instruction.args = carve<Value*>(1);
  instruction.arg_count = 1;
  instruction.target = destination;
  if (measuring_) return Status::Ok;
  Value* value = instruction.args[0] = &values_[condition];
  const bool legal = value->tag == Tag::Bool || value->tag == Tag::Int ||
                     (value->tag == Tag::Tensor && value->as_tensor.scalar_type() == ScalarType::Bool);
  if (!legal) return fail(Status::InvalidProgram, "instruction {} jumps on a value that is no bool", index);
  return Status::Ok;
}

Status MethodLoader::load_state() {
  using namespace schema;
  const Vector list = plan_.vector(plan::kValues, 4);
  size_t count = 0;
  // Two rounds: how many, then which.
  StateTensor* state = nullptr;
  for (int fill = 0; fill < 2; ++fill) {
    size_t next = 0;
    for (size_t i = 0; i < list.count; ++i) {
      const Table entry = plan_.element(list, i);
      if (entry.u8(value::kType) != value::Tensor) continue;
      TensorInfo info;
      TensorPlace place;
      if (read_tensor(entry.table(value::kContent), info, place) || !is_state(info, place)) continue;
      if (fill && !measuring_) {
        StateTensor& one = state[next];
        one = {info.name, values_[i].as_tensor, 0, place.data_index != 0};
        if (one.has_initial &&
            !constant_place(program::kMutableSegments, place.data_index, info.nbytes, &one.initial_offset)) {
          return fail(Status::InvalidProgram, "the initial value of tensor {} lies outside the file's data",
                      i);
        }
        if (!memory_->arenas[place.memory_id - 1].holds_state) {
          if (const Status status = method_->reset_state(next, message_); status != Status::Ok) return status;
        }
      }
      ++next;
    }
    if (!fill) {
      count = next;
      state = carve<StateTensor>(count);
      if (!measuring_) {
        method_->state_ = state;
        method_->state_count_ = count;
      }
    }
  }
  return Status::Ok;
}

bool operator_name(const Table& op, char* buffer, size_t size) {
  const char* parts[] = {op.string(schema::op::kName), op.string(schema::op::kOverload)};
  if (!parts[0]) return false;
  size_t used = 0;
  for (int p = 0; p < 2; ++p) {
    const char* text = parts[p] ? parts[p] : "";
    const size_t length = strlen(text);
    if (length == 0 && p == 1) break;
    if (used + length + 2 > size) return false;
    if (p == 1) buffer[used++] = '.';
    memcpy(buffer + used, text, length);
    used += length;
  }
  buffer[used] = '\0';
  return true;
}

const char* specialisation_key(Value** args, size_t count, char* buffer, size_t size) {
  size_t used = 0;
  auto put = [&](char c) {
    if (used + 1 < size) buffer[used] = c;
    ++used;
  };
  auto put_number = [&](unsigned number) {
    if (number >= 10) put(static_cast<char>('0' + number / 10));
    put(static_cast<char>('0' + number % 10));
  };
  // A result follows the arguments once more; the key has each tensor once.
  if (count > 1 && args[count - 1] == args[count - 2]) --count;
  put('v');
  put('1');
  char separator = '/';
  for (size_t k = 0; k < count; ++k) {
    if (args[k]->tag != Tag::Tensor) continue;
    const TensorImpl& impl = *args[k]->as_tensor.unsafeGetTensorImpl();
    put(separator);
    separator = '|';
    put_number(static_cast<unsigned>(impl.dtype));
    for (uint32_t d = 0; d < impl.dim; ++d) {
      put(d ? ',' : ';');
      put_number(impl.dim_order[d]);
    }
    if (impl.dim == 0) put(';');
  }
  if (used + 1 > size) return nullptr;
  buffer[used] = '\0';
  return buffer;
}

Status measure_method(const Program& program, uint32_t plan, size_t* bytes, Message* message) {
  return MethodLoader(program, plan, message).measure(bytes);
}

}  // namespace penlight
