// Runs a method: one loop over instructions that were checked when it was loaded.
#include <penlight/method.h>
#include <string.h>

#include "exec/method_loader.h"
#include "kernel/key.h"
#include "program/schema.h"

namespace penlight {

using schema::instruction::Type;

Method::Method()
    : program_(nullptr),
      name_(""),
      registry_(nullptr),
      tracer_(nullptr),
      values_(nullptr),
      input_info_(nullptr),
      inputs_(nullptr),
      outputs_(nullptr),
      input_set_(nullptr),
      instructions_(nullptr),
      delegates_(nullptr),
      state_(nullptr),
      value_count_(0),
      input_count_(0),
      output_count_(0),
      instruction_count_(0),
      delegate_count_(0),
      state_count_(0),
      plan_(0),
      ran_(false),
      has_views_(false),
      limits_known_(false),
      guards_known_(false),
      context_({}, nullptr) {}

Method::~Method() {
  for (size_t i = 0; kBackends && i < delegate_count_; ++i) {
    const Delegate& delegate = delegates_[i];
    if (delegate.backend && delegate.backend->destroy) delegate.backend->destroy(delegate.handle);
  }
}

Status Method::load(const Program& program, const char* name, const MemoryManager& memory, Message* message,
                    const KernelRegistry* registry, const DataMap* external) {
  if (program_) return fail(message, Status::InvalidState, "method {} is loaded already", name_);
  MethodMeta meta;
  if (const Status status = program.method_meta(name, meta, message); status != Status::Ok) return status;
  uint32_t plan = 0;
  while (strcmp(program.method_name(plan), name) != 0) ++plan;
  name_ = meta.name();
  context_ = KernelContext(memory.scratch, message);
  context_.set_random(memory.random);
  context_.set_workers(memory.workers);
  const Status status = MethodLoader(program, plan, message)
                            .build(*this, memory, registry ? *registry : default_registry(), external);
  if (status != Status::Ok) {
    instruction_count_ = input_count_ = output_count_ = state_count_ = 0;
    if (message) message->prepend("method {}: ", name_);
  }
  return status;
}

Status Method::set_input(size_t index, const InputTensor& tensor, Message* message) {
  if (index >= input_count_) {
    return fail(message, Status::InvalidArgument, "there is no input {}: the method takes {}", index,
                input_count_);
  }
  Value& value = values_[inputs_[index]];
  if (value.tag != Tag::Tensor) {
    return fail(message, Status::InvalidArgument, "input {} is a {}, a tensor was given", index,
                tag_name(value.tag));
  }
  const TensorInfo& info = input_info_[index];
  if (tensor.dtype != info.dtype) {
    return fail(message, Status::InvalidArgument, "input {} is {}, {} was given", index,
                dtype_name(info.dtype), dtype_name(tensor.dtype));
  }
  if (tensor.dim != info.dim) {
    return fail(message, Status::InvalidArgument, "input {} has {} dimensions, {} were given", index,
                info.dim, tensor.dim);
  }
  for (size_t d = 0; d < tensor.dim; ++d) {
    const dim_t size = tensor.sizes[d];
    const bool fixed = info.dynamism == Dynamism::Static;
    if (fixed ? size == info.sizes[d] : size >= 0 && size <= info.sizes[d]) continue;
    return fail(message, Status::InvalidArgument,
                fixed ? "input {} has size {} in dimension {}, {} was given"
                      : "input {} has at most size {} in dimension {}, {} was given",
                index, info.sizes[d], d, size);
  }
  TensorImpl& impl = *value.as_tensor.unsafeGetTensorImpl();
  for (size_t d = 0; d < tensor.dim; ++d) impl.sizes[d] = tensor.sizes[d];
  refresh_layout(impl);
  const size_t bytes = static_cast<size_t>(impl.numel) * element_size(impl.dtype);
  if (bytes > 0 && !tensor.data) return fail(message, Status::InvalidArgument, "input {} has no data", index);
  if (info.planned) {
    if (bytes > 0 && impl.data != tensor.data) memmove(impl.data, tensor.data, bytes);
  } else if (reinterpret_cast<uintptr_t>(tensor.data) % element_size(impl.dtype) != 0) {
    return fail(message, Status::InvalidArgument, "input {} is not aligned to its element size", index);
  } else {
    impl.data = const_cast<void*>(tensor.data);
    impl.capacity = bytes;
  }
  input_set_[index] = 1;
  ran_ = false;
  return Status::Ok;
}

namespace {

bool same_number(const Value& a, const Value& b) {
  return a.tag == Tag::Double || b.tag == Tag::Double ? a.to_double() == b.to_double()
                                                      : a.to_int() == b.to_int();
}

}  // namespace

Status Method::set_input(size_t index, const Value& given, Message* message) {
  if (index >= input_count_) {
    return fail(message, Status::InvalidArgument, "there is no input {}: the method takes {}", index,
                input_count_);
  }
  Value& value = values_[inputs_[index]];
  if (given.tag != value.tag && !(given.is_number() && value.tag == Tag::Double && given.tag == Tag::Int)) {
    return fail(message, Status::InvalidArgument, "input {} is a {}, a {} was given", index,
                tag_name(value.tag), tag_name(given.tag));
  }
  if (given.is_none()) return Status::Ok;
  if (!given.is_number()) {
    return fail(message, Status::NotSupported, "input {} is a {}, which cannot be set", index,
                tag_name(value.tag));
  }
  // A number that no instruction reads was specialised when the model was traced.
  bool used = false;
  for (size_t i = 0; i < instruction_count_ && !used; ++i) {
    for (size_t k = 0; k < instructions_[i].arg_count; ++k) used |= instructions_[i].args[k] == &value;
  }
  for (size_t i = 0; i < value_count_ && !used; ++i) {
    if (values_[i].tag != Tag::IntList) continue;
    const ListStorage<int64_t>& list = *values_[i].as_int_list;
    for (size_t k = 0; k < list.size; ++k) used |= list.slots[k] == &value;
  }
  for (size_t i = 0; i < output_count_; ++i) used |= outputs_[i] == inputs_[index];
  if (!used && !same_number(value, given)) {
    return fail(message, Status::InvalidArgument,
                "input {} was fixed when the model was exported; only the value it had then is possible",
                index);
  }
  if (value.tag == Tag::Double) {
    value.as_double = given.to_double();
  } else {
    value.as_int = value.tag == Tag::Bool ? given.to_bool() : given.to_int();
  }
  ran_ = false;
  return Status::Ok;
}

Status Method::set_output_data(size_t index, void* data, size_t size, Message* message) {
  if (index >= output_count_ || values_[outputs_[index]].tag != Tag::Tensor) {
    return fail(message, Status::InvalidArgument, "output {} is no tensor of this method", index);
  }
  TensorImpl& impl = *values_[outputs_[index]].as_tensor.unsafeGetTensorImpl();
  if (!(impl.flags & kUnplacedTensor)) {
    return fail(message, Status::InvalidArgument, "output {} has planned memory", index);
  }
  MethodMeta meta;
  TensorInfo info;
  Status status = program_->method_meta(name_, meta, message);
  if (status == Status::Ok) status = meta.output_tensor(index, info);
  if (status != Status::Ok) return status;
  if (size < info.nbytes) {
    return fail(message, Status::OutOfMemory, "output {} needs {} bytes, {} were given", index, info.nbytes,
                size);
  }
  if (reinterpret_cast<uintptr_t>(data) % element_size(impl.dtype) != 0) {
    return fail(message, Status::InvalidArgument, "output {} is not aligned to its element size", index);
  }
  for (uint32_t d = 0; d < info.dim; ++d) impl.sizes[d] = info.sizes[d];
  refresh_layout(impl);
  impl.data = data;
  impl.capacity = size;
  impl.flags |= kGivenTensor;
  return Status::Ok;
}

// A view may be of memory that was there for the last run only, as an input's. What reads it before
// it is made again finds no elements.
void Method::forget_views() {
  for (size_t i = 0; i < value_count_; ++i) {
    if (values_[i].tag != Tag::Tensor) continue;
    TensorImpl& impl = *values_[i].as_tensor.unsafeGetTensorImpl();
    if (!(impl.flags & kViewTensor)) continue;
    impl.data = nullptr;
    impl.capacity = 0;
    impl.sizes[0] = impl.numel = 0;
  }
}

bool Method::jump_condition(const Value& value) const {
  if (value.tag != Tag::Tensor) return value.to_bool();
  const TensorImpl& impl = *value.as_tensor.unsafeGetTensorImpl();
  for (dim_t i = 0; i < impl.numel; ++i) {
    if (static_cast<const uint8_t*>(impl.data)[i] == 0) return false;
  }
  return true;
}

Status Method::execute(Message* message, uint64_t max_jumps) {
  if (!program_) return fail(message, Status::InvalidState, "no method is loaded");
  for (size_t i = 0; i < input_count_; ++i) {
    if (!input_set_[i])
      return fail(message, Status::InvalidState, "input {} was not set since the last run", i);
  }
  if (has_views_) forget_views();
  ran_ = false;
  context_.set_message(message);
  Status status = Status::Ok;
  size_t next = 0;
  while (next < instruction_count_) {
    const size_t at = next++;
    const Instruction& instruction = instructions_[at];
    switch (instruction.kind) {
      case Type::Kernel:
        if (!EventTracer::kEnabled || !tracer_) {
          instruction.call(context_, instruction.args);
          if (context_.done()) continue;
        }
        status = run_kernel(at, message);
        break;
      case Type::Delegate:
        status = kBackends ? run_delegate(at, message) : Status::MissingBackend;
        break;
      case Type::Move:
        *instruction.args[1] = *instruction.args[0];
        break;
      case Type::JumpFalse:
        if (jump_condition(*instruction.args[0])) break;
        next = instruction.target;
        if (next <= at && max_jumps-- == 0) {
          status = fail(message, Status::InvalidState, "instruction {}: too many backward jumps", at);
        }
        break;
      default:  // Free: planned memory is not given back
        break;
    }
    if (status != Status::Ok) break;
  }
  for (size_t i = 0; i < input_count_; ++i) {
    if (values_[inputs_[i]].tag == Tag::Tensor) input_set_[i] = 0;
  }
  ran_ = status == Status::Ok;
  return status;
}

// The way round for a kernel that was traced, asked for scratch, failed or
// declined. Untraced ones have been called once already.
Status Method::run_kernel(size_t index, Message* message) {
  Instruction& instruction = instructions_[index];
  if (EventTracer::kEnabled && tracer_) {
    char name[128];
    instruction_name(index, name, sizeof name);
    const TraceEvent event = {name_, static_cast<uint32_t>(index), name, instruction.args,
                              instruction.arg_count};
    tracer_->begin(tracer_, event);
    instruction.call(context_, instruction.args);
    tracer_->end(tracer_, event, context_.status());
  }
  while (context_.status() == Status::Declined) {
    char name[128], buffer[512];
    instruction_name(index, name, sizeof name);
    const char* key = specialisation_key(instruction.args, instruction.arg_count, buffer, sizeof buffer);
    const Kernel* kernel = registry_->find(name, key, ++instruction.choice);
    if (!kernel) {
      instruction.choice = 0;
      const Kernel* first = registry_->find(name, key);
      if (first) instruction.call = first->call;
      context_.reset();
      return explain(index, fail(message, Status::MissingKernel, "every kernel declined these arguments"),
                     message);
    }
    context_.reset();
    instruction.call = kernel->call;
    instruction.call(context_, instruction.args);
  }
  const Status status = context_.status();
  context_.reset();
  return status == Status::Ok ? status : explain(index, status, message);
}

Status Method::run_delegate(size_t index, Message* message) {
  const Instruction& instruction = instructions_[index];
  const Delegate& delegate = delegates_[instruction.target];
  const TraceEvent event = {name_, static_cast<uint32_t>(index), delegate.backend->name, instruction.args,
                            instruction.arg_count};
  if (EventTracer::kEnabled && tracer_) tracer_->begin(tracer_, event);
  Status status =
      delegate.backend->execute(context_, delegate.handle, instruction.args, instruction.arg_count);
  if (status == Status::Ok) status = context_.status();
  if (EventTracer::kEnabled && tracer_) tracer_->end(tracer_, event, status);
  context_.reset();
  return status == Status::Ok ? status : explain(index, status, message);
}

Status Method::explain(size_t index, Status status, Message* message) const {
  if (message) {
    char name[128];
    instruction_name(index, name, sizeof name);
    message->prepend("method {}, instruction {}, {}: ", name_, index, name);
  }
  return status;
}

void Method::instruction_name(size_t index, char* buffer, size_t size) const {
  buffer[0] = '\0';
  const Instruction& instruction = instructions_[index];
  if (instruction.kind == Type::Kernel) {
    flatbuffer::Reader reader(program_->data_, program_->size_);
    const flatbuffer::Table root = reader.root();
    const flatbuffer::Table plan = root.element(root.vector(schema::program::kPlans, 4), plan_);
    operator_name(plan.element(plan.vector(schema::plan::kOperators, 4), instruction.target), buffer, size);
    return;
  }
  constexpr const char* kNames[] = {"", "", "", "move", "jump_false", "free"};
  const char* name = kNames[instruction.kind];
  if (kBackends && instruction.kind == Type::Delegate) name = delegates_[instruction.target].backend->name;
  size_t length = strlen(name);
  if (length >= size) length = size - 1;
  memcpy(buffer, name, length);
  buffer[length] = '\0';
}

Status Method::output(size_t index, Value& value, Message* message) const {
  if (index >= output_count_) {
    return fail(message, Status::InvalidArgument, "there is no output {}: the method gives {}", index,
                output_count_);
  }
  if (!ran_) return fail(message, Status::InvalidState, "output {} was read before a run", index);
  value = values_[outputs_[index]];
  return Status::Ok;
}

Status Method::reset_state(size_t index, Message* message) {
  const StateTensor& state = state_[index];
  TensorImpl& impl = *state.tensor.unsafeGetTensorImpl();
  if (!state.has_initial) {
    memset(impl.data, 0, impl.capacity);
    return Status::Ok;
  }
  DataLoader& loader = *program_->loader_;
  bool read = false;
  if (loader.read) {
    read = loader.read(&loader, state.initial_offset, impl.capacity, impl.data);
  } else if (const void* bytes = loader.load(&loader, state.initial_offset, impl.capacity)) {
    memcpy(impl.data, bytes, impl.capacity);
    read = true;
  }
  if (read) return Status::Ok;
  return fail(message, Status::AccessFailed, "the initial value of {} cannot be read",
              state.name ? state.name : "state");
}

Status Method::reset_state(Message* message) {
  for (size_t i = 0; i < state_count_; ++i) {
    if (const Status status = reset_state(i, message); status != Status::Ok) return status;
  }
  return Status::Ok;
}

}  // namespace penlight
