// penlight-runner: runs a program from the command line, without Python.
//
// Exit code 0: done, 1: something failed, 2: misused. Results go to standard
// output, errors to standard error.
#include <penlight/host_platform.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "array.h"
#include "hosted/linked_libraries.h"
#include "hosted/nearest.h"
#include "hosted/plugin.h"
#include "options.h"
#include "report.h"

namespace penlight::runner {

namespace {

constexpr int kDone = 0, kFailed = 1, kMisused = 2;

double now_ms() { return static_cast<double>(platform_ticks()) / 1e6; }

int complain(const RunnerOptions& options, int code, const char* what, const char* text) {
  if (options.json) {
    printf("{\"error\": ");
    print_json_string(text);
    printf(", \"status\": ");
    print_json_string(what);
    printf("}\n");
  }
  fprintf(stderr, "%s: %s\n", what, text);
  return code;
}

// The method asked for, or the one that is meant when none is named. Null, with
// the names there are, when there is none.
const char* choose_method(const Module& module, const char* wanted, Message& message) {
  if (!wanted && module.method_count() == 1) return module.method_name(0);
  const char* name = wanted ? wanted : "forward";
  for (size_t i = 0; i < module.method_count(); ++i)
    if (strcmp(module.method_name(i), name) == 0) return module.method_name(i);
  hosted::say_no_method(module.program(), name, message);
  return nullptr;
}

// Arguments of a call and the memory of their tensors.
struct Arguments {
  hosted::Array<Argument> list;
  hosted::Array<HostArray*> arrays;
  ~Arguments() {
    for (HostArray* array : arrays) hosted::destroy(array);
  }
};

bool read_number(const char* text, Tag tag, Argument& argument) {
  char* end = nullptr;
  if (tag == Tag::Double) argument = Argument(strtod(text, &end));
  if (tag == Tag::Int) argument = Argument(static_cast<int64_t>(strtoll(text, &end, 10)));
  if (tag == Tag::Bool && (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
    argument = Argument(text[0] == 't');
    return true;
  }
  return end && end != text && !*end;
}

Status make_number(const MethodMeta& meta, size_t index, const char* text, Argument& argument,
                   Message& message) {
  const Tag tag = meta.input_tag(index);
  argument = Argument();
  if (!text) {
    // The value it was exported with.
    return tag == Tag::None ? Status::Ok : meta.input_number(index, argument.value);
  }
  if (read_number(text, tag, argument)) return Status::Ok;
  message.set("input {} is a {}, {} was given", index, tag_name(tag), text);
  return Status::InvalidArgument;
}

Status make_tensor(const TensorInfo& info, size_t index, const char* path, const RunnerOptions& options,
                   HostArray& array, Message& message) {
  if (path) {
    const Status status = read_npy(path, array, message);
    if (status != Status::Ok) return status;
    // numpy saves bfloat16 as two bytes without a meaning.
    if (array.dim != info.dim) {
      message.set("input {} has {} dimensions, {} has {}", index, info.dim, path, array.dim);
      return Status::InvalidArgument;
    }
  } else {
    dim_t sizes[kMaxDim];
    for (size_t d = 0; d < info.dim; ++d) sizes[d] = info.sizes[d];
    for (const GivenSizes& given : options.sizes) {
      if (given.input != index) continue;
      if (given.dim != info.dim) {
        message.set("input {} has {} dimensions, --sizes gives {}", index, info.dim, given.dim);
        return Status::InvalidArgument;
      }
      for (size_t d = 0; d < info.dim; ++d) sizes[d] = given.sizes[d];
    }
    if (!array.allocate(info.dtype, info.dim, sizes)) {
      message.set("input {} needs more memory than there is", index);
      return Status::OutOfMemory;
    }
    fill(array, options.fill, options.seed + index);
  }
  return to_dim_order(array, info.dim_order) ? Status::Ok : Status::OutOfMemory;
}

Status make_arguments(const MethodMeta& meta, const RunnerOptions& options, Arguments& arguments,
                      Message& message) {
  if (options.inputs.size() > meta.input_count()) {
    message.set("method {} takes {} input{}, {} were given", meta.name(), meta.input_count(),
                meta.input_count() == 1 ? "" : "s", options.inputs.size());
    return Status::InvalidArgument;
  }
  for (const GivenSizes& given : options.sizes) {
    if (given.input < meta.input_count()) continue;
    message.set("--sizes names input {}, method {} takes {}", given.input, meta.name(), meta.input_count());
    return Status::InvalidArgument;
  }
  for (size_t i = 0; i < meta.input_count(); ++i) {
    const char* text = i < options.inputs.size() ? options.inputs[i].text : nullptr;
    Argument argument;
    TensorInfo info;
    Status status = Status::Ok;
    if (meta.input_tag(i) == Tag::Tensor) {
      status = meta.input_tensor(i, info);
      HostArray* array = hosted::make<HostArray>();
      if (!array || !arguments.arrays.push(array)) return Status::OutOfMemory;
      if (status == Status::Ok) status = make_tensor(info, i, text, options, *array, message);
      TensorArgument tensor{array->bytes.data(), array->dtype, array->dim, {}};
      for (size_t d = 0; d < array->dim; ++d) tensor.sizes[d] = array->sizes[d];
      argument = Argument(tensor);
    } else {
      status = make_number(meta, i, text, argument, message);
    }
    if (status != Status::Ok) return status;
    if (!arguments.list.push(argument)) return Status::OutOfMemory;
  }
  return Status::Ok;
}

Status save_outputs(const Outputs& outputs, const char* prefix, Message& message) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].tag != Tag::Tensor) continue;
    char path[4096];
    snprintf(path, sizeof path, "%s.%zu.npy", prefix, i);
    HostArray array;
    if (!copy_output(outputs.tensor(i), array)) return Status::OutOfMemory;
    if (const Status status = write_npy(path, array, message); status != Status::Ok) return status;
  }
  return Status::Ok;
}

// Adds up the time of each instruction.
struct Stopwatch : EventTracer {
  hosted::Array<InstructionTime> instructions;
  uint64_t started = 0;

  Stopwatch() {
    begin = [](EventTracer* self, const TraceEvent&) {
      static_cast<Stopwatch*>(self)->started = platform_ticks();
    };
    end = [](EventTracer* self, const TraceEvent& event, Status) {
      Stopwatch& watch = *static_cast<Stopwatch*>(self);
      const uint64_t taken = platform_ticks() - watch.started;
      if (event.instruction >= watch.instructions.size()) return;
      watch.instructions[event.instruction].nanoseconds += taken;
      ++watch.instructions[event.instruction].runs;
    };
  }

  bool prepare(const Method& method) {
    if (!instructions.resize(method.instruction_count())) return false;
    for (size_t i = 0; i < instructions.size(); ++i) {
      method.instruction_name(i, instructions[i].name, sizeof instructions[i].name);
    }
    return true;
  }
};

Times summarise(hosted::Array<double>& runs, double load_ms, double first_ms) {
  qsort(runs.data(), runs.size(), sizeof(double), [](const void* a, const void* b) {
    const double left = *static_cast<const double*>(a), right = *static_cast<const double*>(b);
    return left < right ? -1 : left > right;
  });
  const size_t count = runs.size();
  const double median = count % 2 ? runs[count / 2] : (runs[count / 2 - 1] + runs[count / 2]) / 2;
  return {load_ms, first_ms, runs[0], median, count};
}

int run(Module& module, const RunnerOptions& options, double opened_ms) {
  Message message;
  const char* name = choose_method(module, options.method, message);
  if (!name) return complain(options, kMisused, "NotFound", message.c_str());
  MethodMeta meta;
  Status status = module.method_meta(name, meta);
  if (status != Status::Ok) return complain(options, kFailed, status_name(status), module.error());
  Arguments arguments;
  status = make_arguments(meta, options, arguments, message);
  if (status != Status::Ok) return complain(options, kMisused, status_name(status), message.c_str());

  double start = now_ms();
  Method* method = module.load(name);
  if (!method) return complain(options, kFailed, status_name(module.status()), module.error());
  const double load_ms = opened_ms + now_ms() - start;
  Stopwatch watch;
  if (options.times && watch.prepare(*method)) method->set_tracer(&watch);

  hosted::Array<double> runs;
  double first_ms = 0;
  Outputs outputs(Status::Ok, "", nullptr, 0);
  for (size_t i = 0; i < options.warm_up + options.repeats; ++i) {
    start = now_ms();
    outputs = module.run(name, arguments.list.data(), arguments.list.size(), options.max_jumps);
    const double taken = now_ms() - start;
    if (!outputs.ok()) {
      const int code = outputs.status() == Status::InvalidArgument ? kMisused : kFailed;
      return complain(options, code, status_name(outputs.status()), outputs.error());
    }
    if (i == 0) first_ms = taken;
    if (i >= options.warm_up && !runs.push(taken)) return kFailed;
  }
  if (options.save) {
    status = save_outputs(outputs, options.save, message);
    if (status != Status::Ok) return complain(options, kFailed, status_name(status), message.c_str());
  }
  const Times times = summarise(runs, load_ms, first_ms);
  if (options.json) {
    printf("{\"method\": ");
    print_json_string(name);
    printf(", \"outputs\": [");
    print_outputs(outputs, true);
    printf("], ");
    print_times(times, module, true);
    if (options.times) {
      printf(", \"instructions\": [");
      print_instructions(watch.instructions, true);
      printf("]");
    }
    printf("}\n");
  } else {
    print_outputs(outputs, false);
    if (options.times) print_instructions(watch.instructions, false);
    print_times(times, module, false);
  }
  return kDone;
}

int main(int count, char** arguments) {
  use_host_platform();
#ifdef SIGXFSZ
  signal(SIGXFSZ, SIG_IGN);  // a limit on the size of files is an error like a full disk
#endif
  RunnerOptions options;
  Message message;
  if (!parse_options(count, arguments, options, message)) {
    fprintf(stderr, "%s\n\n%s", message.c_str(), kUsage);
    return kMisused;
  }
  if (options.help) {
    printf("%s", kUsage);
    return kDone;
  }
  for (const char* path : options.plugins) {
    const OperatorRecord* operators = nullptr;
    char text[4096];
    const Status loaded = hosted::load_plugin(path, &operators, text, sizeof text);
    if (loaded != Status::Ok) return complain(options, kFailed, status_name(loaded), text);
  }
  hosted::LibrarySelection libraries;
  Status status = libraries.select(options.libraries, &message);
  if (status != Status::Ok) return complain(options, kMisused, status_name(status), message.c_str());
  ModuleOptions how;
  how.map = options.map;
  how.threads = options.threads;
  how.registry = &libraries.registry();
  how.data_paths = options.data.data();
  how.data_path_count = options.data.size();
  Module module;
  const double start = now_ms();
  status = module.open(options.program, how);
  if (status != Status::Ok) {
    message.set("{}", module.error());
    if (!strstr(module.error(), options.program)) message.prepend("{}: ", options.program);
    return complain(options, kFailed, status_name(status), message.c_str());
  }
  const double opened_ms = now_ms() - start;
  if (options.list) {
    status = print_methods(module, options.json);
    return status == Status::Ok ? kDone : complain(options, kFailed, status_name(status), module.error());
  }
  return run(module, options, opened_ms);
}

}  // namespace

}  // namespace penlight::runner

int main(int count, char** arguments) { return penlight::runner::main(count, arguments); }
