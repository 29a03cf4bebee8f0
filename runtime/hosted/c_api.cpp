#include "c_api.h"

#include <penlight/host_platform.h>
#include <string.h>

#include "c_handles.h"

using penlight::Message;
using penlight::Method;
using penlight::MethodMeta;
using penlight::ModuleOptions;
using penlight::Status;
using penlight::Tag;
using penlight::TensorInfo;
using penlight::Value;
using penlight::hosted::destroy;
using penlight::hosted::export_value;
using penlight::hosted::make;
using penlight::hosted::report;

#ifndef PENLIGHT_VERSION
#define PENLIGHT_VERSION "0.1.0"
#endif

namespace penlight::hosted {

pl_status report(Status status, const char* text, char* error, size_t error_size) {
  if (error && error_size) {
    size_t length = text ? strlen(text) : 0;
    if (length >= error_size) length = error_size - 1;
    if (length) memcpy(error, text, length);
    error[length] = '\0';
  }
  return static_cast<pl_status>(status);
}

namespace {

template <class To, class From>
void assign(To& to, From from, bool& changed) {
  const To value = static_cast<To>(from);
  changed |= to != value;
  to = value;
}

}  // namespace

bool export_value(const Value& from, pl_value& to) {
  bool changed = false;
  assign(to.tag, static_cast<uint32_t>(from.tag), changed);
  if (from.tag == Tag::Tensor) {
    const Tensor& tensor = from.as_tensor;
    assign(to.data, tensor.data_ptr(), changed);
    assign(to.dtype, static_cast<int32_t>(tensor.scalar_type()), changed);
    assign(to.dim, tensor.dim(), changed);
    assign(to.size, tensor.nbytes(), changed);
    for (dim_t d = 0; d < tensor.dim(); ++d) {
      assign(to.sizes[d], tensor.sizes()[d], changed);
      assign(to.strides[d], tensor.strides()[d], changed);
    }
  } else if (from.tag == Tag::Double) {
    to.real = from.as_double;
  } else if (from.tag == Tag::Int || from.tag == Tag::Bool) {
    to.integer = from.to_int();
  } else if (from.tag == Tag::String) {
    to.data = const_cast<char*>(from.as_string->data());
    to.size = from.as_string->size();
  }
  return changed;
}

namespace {

pl_status failure_of(const Module& module, char* error, size_t error_size) {
  return report(module.status(), module.error(), error, error_size);
}

// Everything but the source of the bytes.
pl_module* prepare(const pl_options* options, ModuleOptions& chosen, Message& message, Status& status) {
  use_host_platform();
  pl_module* made = make<pl_module>();
  status =
      made ? made->libraries.select(options ? options->libraries : nullptr, &message) : Status::OutOfMemory;
  if (status != Status::Ok) {
    destroy(made);
    return nullptr;
  }
  chosen.registry = &made->libraries.registry();
  if (options) {
    chosen.map = options->map != 0;
    chosen.threads = options->threads > 0 ? static_cast<size_t>(options->threads) : 0;
    chosen.data_paths = options->data_paths;
    chosen.data_path_count = options->data_path_count;
  }
  return made;
}

void describe_tensor(const TensorInfo& info, pl_info& to) {
  to.dtype = static_cast<int32_t>(info.dtype);
  to.dim = info.dim;
  to.dynamic = info.dynamism != Dynamism::Static;
  to.planned = info.planned;
  to.size = info.nbytes;
  to.name = info.name;
  for (uint32_t d = 0; d < info.dim; ++d) {
    to.sizes[d] = info.sizes[d];
    to.dim_order[d] = info.dim_order[d];
  }
}

pl_status describe(pl_module* module, const char* method, bool input, uint64_t index, pl_info* to) {
  MethodMeta meta;
  memset(to, 0, sizeof *to);
  Status status = module->module.method_meta(method, meta);
  if (status != Status::Ok) return static_cast<pl_status>(status);
  if (index >= (input ? meta.input_count() : meta.output_count())) {
    return static_cast<pl_status>(Status::InvalidArgument);
  }
  const Tag tag = input ? meta.input_tag(index) : meta.output_tag(index);
  to->tag = static_cast<uint32_t>(tag);
  if (tag == Tag::Tensor) {
    TensorInfo info;
    status = input ? meta.input_tensor(index, info) : meta.output_tensor(index, info);
    if (status == Status::Ok) describe_tensor(info, *to);
  } else if (input && (tag == Tag::Int || tag == Tag::Bool || tag == Tag::Double)) {
    Value value;
    status = meta.input_number(index, value);
    to->integer = value.tag == Tag::Double ? 0 : value.to_int();
    to->real = value.to_double();
  }
  return static_cast<pl_status>(status);
}

}  // namespace

}  // namespace penlight::hosted

const char* pl_version(void) { return PENLIGHT_VERSION; }
int32_t pl_abi(void) { return PL_ABI; }
const char* pl_status_name(pl_status status) { return penlight::status_name(static_cast<Status>(status)); }

pl_status pl_open_path(const char* path, const pl_options* options, pl_module** module, char* error,
                       size_t error_size) {
  ModuleOptions chosen;
  Message message;
  Status status;
  *module = nullptr;
  pl_module* made = penlight::hosted::prepare(options, chosen, message, status);
  if (!made) return report(status, message.c_str(), error, error_size);
  if (made->module.open(path, chosen) == Status::Ok) {
    *module = made;
    return report(Status::Ok, "", error, error_size);
  }
  const pl_status failed = penlight::hosted::failure_of(made->module, error, error_size);
  destroy(made);
  return failed;
}

pl_status pl_open_bytes(const void* bytes, size_t size, const pl_options* options, pl_module** module,
                        char* error, size_t error_size) {
  ModuleOptions chosen;
  Message message;
  Status status;
  *module = nullptr;
  pl_module* made = penlight::hosted::prepare(options, chosen, message, status);
  if (!made) return report(status, message.c_str(), error, error_size);
  if (!made->bytes.allocate(size)) {
    destroy(made);
    return report(Status::OutOfMemory, "no memory for a copy of the program", error, error_size);
  }
  if (size) memcpy(made->bytes.data(), bytes, size);
  if (made->module.open(made->bytes.data(), size, chosen) == Status::Ok) {
    *module = made;
    return report(Status::Ok, "", error, error_size);
  }
  const pl_status failed = penlight::hosted::failure_of(made->module, error, error_size);
  destroy(made);
  return failed;
}

void pl_close(pl_module* module) { destroy(module); }

uint64_t pl_method_count(const pl_module* module) { return module->module.method_count(); }
const char* pl_method_name(const pl_module* module, uint64_t index) {
  return module->module.method_name(index);
}
uint64_t pl_program_size(const pl_module* module) { return module->module.program().program_size(); }

pl_status pl_describe_method(pl_module* module, const char* name, pl_method_info* info, char* error,
                             size_t error_size) {
  MethodMeta meta;
  const Status status = module->module.method_meta(name, meta);
  if (status != Status::Ok) return penlight::hosted::failure_of(module->module, error, error_size);
  *info = {meta.name(),         meta.input_structure(), meta.output_structure(),  meta.input_count(),
           meta.output_count(), meta.arena_count(),     meta.instruction_count(), meta.delegate_count(),
           meta.value_count(),  meta.method_bytes()};
  return report(Status::Ok, "", error, error_size);
}

pl_status pl_describe_input(pl_module* module, const char* method, uint64_t index, pl_info* info) {
  return penlight::hosted::describe(module, method, true, index, info);
}

pl_status pl_describe_output(pl_module* module, const char* method, uint64_t index, pl_info* info) {
  return penlight::hosted::describe(module, method, false, index, info);
}

pl_status pl_describe_arena(pl_module* module, const char* method, uint64_t index, uint64_t* size,
                            int32_t* is_state) {
  MethodMeta meta;
  const Status status = module->module.method_meta(method, meta);
  if (status != Status::Ok) return static_cast<pl_status>(status);
  if (index >= meta.arena_count()) return static_cast<pl_status>(Status::InvalidArgument);
  *size = meta.arena_size(index);
  *is_state = meta.arena_is_state(index);
  return 0;
}

pl_status pl_named_data(pl_module* module, const char* key, const void** data, uint64_t* size) {
  penlight::ArrayRef<uint8_t> bytes;
  const Status status = module->module.program().named_data(key, bytes);
  *data = bytes.data();
  *size = bytes.size();
  return static_cast<pl_status>(status);
}

pl_status pl_load_method(pl_module* module, const char* name, pl_method** method, char* error,
                         size_t error_size) {
  *method = nullptr;
  Method* loaded = module->module.load(name);
  if (!loaded) return penlight::hosted::failure_of(module->module, error, error_size);
  for (pl_method* known : module->methods) {
    if (known->method == loaded) *method = known;
  }
  if (!*method) {
    pl_method* made = make<pl_method>();
    if (!made || !made->lent.find(module->module, *loaded) || !module->methods.push(made)) {
      destroy(made);
      return report(Status::OutOfMemory, "no memory for a handle", error, error_size);
    }
    made->owner = module;
    made->method = loaded;
    *method = made;
  }
  return report(Status::Ok, "", error, error_size);
}

pl_status pl_verify(pl_module* module, char* error, size_t error_size) {
  for (size_t i = 0; i < module->module.method_count(); ++i) {
    if (!module->module.load(module->module.method_name(i))) {
      return penlight::hosted::failure_of(module->module, error, error_size);
    }
  }
  return report(Status::Ok, "", error, error_size);
}

pl_status pl_run(pl_call* call) {
  Method& method = *call->method->method;
  Message message;
  Status status = Status::Ok;
  bool changed = false;
  if (call->input_count != method.input_count() || call->output_count != method.output_count()) {
    message.set("method {} has {} inputs and {} outputs; the call has {} and {}", method.name(),
                method.input_count(), method.output_count(), call->input_count, call->output_count);
    return call->status = report(Status::InvalidArgument, message.c_str(), call->error, sizeof call->error);
  }
  const penlight::hosted::LentTensors::Run lent(call->method->lent);
  for (size_t i = 0; call->lent && i < method.output_count(); ++i) {
    if (call->lent[i] && lent.lend_output(i, call->lent[i])) call->outputs[i].data = call->lent[i];
  }
  for (size_t i = 0; i < method.input_count() && status == Status::Ok; ++i) {
    const pl_value& given = call->inputs[i];
    if (given.tag == static_cast<uint32_t>(Tag::Tensor)) {
      penlight::dim_t sizes[PL_MAX_DIM];
      const size_t dim = given.dim <= PL_MAX_DIM ? given.dim : size_t{PL_MAX_DIM};
      for (size_t d = 0; d < dim; ++d) sizes[d] = static_cast<penlight::dim_t>(given.sizes[d]);
      status = lent.set_input(
          i,
          penlight::InputTensor{given.data, sizes, given.dim, static_cast<penlight::ScalarType>(given.dtype)},
          &message);
      continue;
    }
    Value value;
    value.tag = static_cast<Tag>(given.tag);
    if (value.tag == Tag::Double) {
      value.as_double = given.real;
    } else if (value.tag == Tag::Bool) {
      value.as_bool = given.integer != 0;
    } else {
      value.as_int = given.integer;
    }
    status = method.set_input(i, value, &message);
  }
  if (status == Status::Ok) status = method.check_inputs(&message);
  if (status == Status::Ok) status = method.execute(&message, call->max_jumps);
  for (size_t i = 0; i < method.output_count() && status == Status::Ok; ++i) {
    Value value;
    status = method.output(i, value, &message);
    if (status == Status::Ok) changed |= export_value(value, call->outputs[i]);
  }
  call->changed = changed;
  call->status = static_cast<pl_status>(status);
  return status == Status::Ok ? 0 : report(status, message.c_str(), call->error, sizeof call->error);
}

pl_status pl_state_count(pl_module* module, uint64_t* count, char* error, size_t error_size) {
  if (module->module.load_state() != Status::Ok)
    return penlight::hosted::failure_of(module->module, error, error_size);
  *count = module->module.state_count();
  return report(Status::Ok, "", error, error_size);
}

pl_status pl_state(pl_module* module, uint64_t index, pl_value* value, const char** name) {
  if (index >= module->module.state_count()) return static_cast<pl_status>(Status::InvalidArgument);
  const penlight::StateTensor& state = module->module.state(index);
  Value tensor;
  tensor.as_tensor = state.tensor;
  tensor.tag = Tag::Tensor;
  export_value(tensor, *value);
  *name = state.name;
  return 0;
}

pl_status pl_set_state(pl_module* module, const char* name, const void* data, size_t size, char* error,
                       size_t error_size) {
  if (module->module.set_state(name, data, size) == Status::Ok)
    return report(Status::Ok, "", error, error_size);
  return penlight::hosted::failure_of(module->module, error, error_size);
}

pl_status pl_get_state(pl_module* module, const char* name, void* data, size_t size, char* error,
                       size_t error_size) {
  if (module->module.get_state(name, data, size) == Status::Ok)
    return report(Status::Ok, "", error, error_size);
  return penlight::hosted::failure_of(module->module, error, error_size);
}

pl_status pl_reset(pl_module* module, char* error, size_t error_size) {
  if (module->module.reset_state() == Status::Ok) return report(Status::Ok, "", error, error_size);
  return penlight::hosted::failure_of(module->module, error, error_size);
}

void pl_seed(pl_module* module, uint64_t seed) { module->module.seed(seed); }
