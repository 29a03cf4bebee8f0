// The program that `penlight build` makes for machines with files: runs the models
// within it, or a .pte file, on given or random inputs.
//
// Exit code 0: done, 1: something failed, 2: misused.
#include <penlight/embedded.h>
#include <penlight/method.h>
#include <penlight/platform.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "arrays.h"
#include "models.h"

namespace penlight::embedded {

namespace {

constexpr int kMaxInputs = 1024;
constexpr int kMaxArenas = 16;
constexpr size_t kShown = 8;

constexpr char kUsage[] =
    "usage: %s [MODEL.pte] [-m METHOD] [-i FILE|NUMBER]... [-o PREFIX] [-n RUNS]\n"
    "          [--model NAME] [--fill random|ones|zeros] [--seed N]\n"
    "  -i  next input: a .npy file, a file of bare elements, or a number\n"
    "  -o  saves output K as PREFIX.K.npy\n";

struct Options {
  const char* file = nullptr;
  const char* model = nullptr;
  const char* method = nullptr;
  const char* save = nullptr;
  const char* inputs[kMaxInputs] = {};
  int input_count = 0;
  long runs = 1;
  unsigned long long seed = 0;
  Fill fill = Fill::Random;
};

int complain(int code, Status status, const char* text) {
  fprintf(stderr, "%s%s%s\n", status_name(status), *text ? ": " : "", text);
  return code;
}

bool parse(int count, char** words, Options& options) {
  for (int i = 1; i < count; ++i) {
    const char* word = words[i];
    if (word[0] != '-') {
      if (options.file) return false;
      options.file = word;
      continue;
    }
    const char* value = i + 1 < count ? words[++i] : nullptr;
    if (!value) return false;
    if (strcmp(word, "-m") == 0 || strcmp(word, "--method") == 0) {
      options.method = value;
    } else if (strcmp(word, "--model") == 0) {
      options.model = value;
    } else if (strcmp(word, "-i") == 0 || strcmp(word, "--input") == 0) {
      if (options.input_count == kMaxInputs) {
        fprintf(stderr, "at most %d inputs can be given\n", kMaxInputs);
        return false;
      }
      options.inputs[options.input_count++] = value;
    } else if (strcmp(word, "-o") == 0 || strcmp(word, "--output") == 0) {
      options.save = value;
    } else if (strcmp(word, "-n") == 0 || strcmp(word, "--repeats") == 0) {
      options.runs = strtol(value, nullptr, 10);
      if (options.runs < 1) return false;
    } else if (strcmp(word, "--seed") == 0) {
      options.seed = strtoull(value, nullptr, 10);
    } else if (strcmp(word, "--fill") == 0) {
      if (strcmp(value, "random") != 0 && strcmp(value, "ones") != 0 && strcmp(value, "zeros") != 0)
        return false;
      options.fill = value[0] == 'r' ? Fill::Random : value[0] == 'o' ? Fill::Ones : Fill::Zeros;
    } else {
      return false;
    }
  }
  return true;
}

bool read_file(const char* path, const uint8_t*& data, size_t& size) {
  FILE* file = fopen(path, "rb");
  if (!file) return false;
  long length = fseek(file, 0, SEEK_END) == 0 ? ftell(file) : -1;
  bool read = length >= 0 && fseek(file, 0, SEEK_SET) == 0;
  uint8_t* bytes = read ? static_cast<uint8_t*>(allocate(static_cast<size_t>(length))) : nullptr;
  read = bytes && fread(bytes, 1, static_cast<size_t>(length), file) == static_cast<size_t>(length);
  fclose(file);
  data = bytes;
  size = read ? static_cast<size_t>(length) : 0;
  return read;
}

// The program's bytes: a file, or one of the models within.
int find_model(const Options& options, const uint8_t*& data, size_t& size) {
  if (options.file) {
    if (read_file(options.file, data, size)) return 0;
    return complain(1, Status::AccessFailed, options.file);
  }
  for (size_t i = 0; i < model_count; ++i) {
    if (options.model && strcmp(models[i].name, options.model) != 0) continue;
    data = models[i].data;
    size = models[i].size;
    if (data) return 0;
  }
  fprintf(stderr, "%s\n", options.model ? "no such model; there are:" : "give a .pte file; none is within");
  for (size_t i = 0; i < model_count; ++i) fprintf(stderr, "  %s\n", models[i].name);
  return 2;
}

// Scratch for kernels: blocks that are given back after each call.
struct Scratch {
  struct Block {
    Block* next;
  };
  Block* blocks = nullptr;

  static void* allocate(void* owner, size_t bytes, size_t alignment) {
    Scratch& self = *static_cast<Scratch*>(owner);
    if (alignment < 64) alignment = 64;
    if (bytes > SIZE_MAX / 2) return nullptr;
    Block* block = static_cast<Block*>(malloc(bytes + alignment + sizeof(Block)));
    if (!block) return nullptr;
    block->next = self.blocks;
    self.blocks = block;
    const uintptr_t first = reinterpret_cast<uintptr_t>(block + 1);
    return reinterpret_cast<void*>((first + alignment - 1) & ~static_cast<uintptr_t>(alignment - 1));
  }

  static void release(void* owner) {
    Scratch& self = *static_cast<Scratch*>(owner);
    while (self.blocks) {
      Block* next = self.blocks->next;
      free(self.blocks);
      self.blocks = next;
    }
  }
};

Status set_number(Method& method, const MethodMeta& meta, size_t index, const char* text, Message& message) {
  Value value;
  if (!text) {
    if (const Status status = meta.input_number(index, value); status != Status::Ok) return status;
  } else {
    value.tag = meta.input_tag(index);
    char* end;
    if (value.tag == Tag::Double) {
      value.as_double = strtod(text, &end);
    } else {
      value.as_int = strtoll(text, &end, 10);
      if (value.tag == Tag::Bool) value.as_bool = value.as_int != 0;
    }
    if (end == text || *end) {
      message.set("input {} is a number, {} is none", index, text);
      return Status::InvalidArgument;
    }
  }
  return method.set_input(index, value, &message);
}

// A tensor input: what is given to the method before each run, which may write over the last one's.
struct Input {
  HostArray array;
  const void* data;  // in the order of the input's dimensions
};

Status read_inputs(const MethodMeta& meta, const Options& options, Input* inputs, Message& message) {
  if (static_cast<size_t>(options.input_count) > meta.input_count()) {
    message.set("{} inputs were given, the method takes {}", options.input_count, meta.input_count());
    return Status::InvalidArgument;
  }
  for (size_t i = 0; i < meta.input_count(); ++i) {
    if (meta.input_tag(i) != Tag::Tensor) continue;
    const char* given = i < static_cast<size_t>(options.input_count) ? options.inputs[i] : nullptr;
    TensorInfo info;
    if (const Status status = meta.input_tensor(i, info); status != Status::Ok) return status;
    HostArray& array = inputs[i].array;
    array = {info.dtype, info.dim, {}, nullptr};
    for (size_t d = 0; d < info.dim; ++d) array.sizes[d] = info.sizes[d];
    if (given) {
      if (const Status status = read_array(given, array, message); status != Status::Ok) return status;
    } else {
      if (!array.allocate()) return Status::OutOfMemory;
      fill(array, options.fill, options.seed + i);
    }
    inputs[i].data = array.dim == info.dim ? in_dim_order(array, info.dim_order) : array.data;
    if (!inputs[i].data) return Status::OutOfMemory;
  }
  return Status::Ok;
}

Status set_inputs(Method& method, const MethodMeta& meta, const Options& options, const Input* inputs,
                  Message& message) {
  for (size_t i = 0; i < meta.input_count(); ++i) {
    const Tag tag = meta.input_tag(i);
    Status status = Status::Ok;
    if (tag == Tag::Tensor) {
      const HostArray& array = inputs[i].array;
      const InputTensor tensor{inputs[i].data, array.sizes, array.dim, array.dtype};
      status = method.set_input(i, tensor, &message);
    } else if (tag != Tag::None) {
      const char* given = i < static_cast<size_t>(options.input_count) ? options.inputs[i] : nullptr;
      status = set_number(method, meta, i, given, message);
    }
    if (status != Status::Ok) return status;
  }
  return Status::Ok;
}

void show_array(size_t index, const HostArray& array) {
  printf("output %lu: %s [", static_cast<unsigned long>(index), dtype_name(array.dtype));
  for (size_t d = 0; d < array.dim; ++d) printf(d ? ", %ld" : "%ld", static_cast<long>(array.sizes[d]));
  printf("]");
  const size_t count = array.numel();
  for (size_t i = 0; i < count && i < kShown; ++i) {
    char text[kElementText];
    element_text(array, i, text, sizeof text);
    printf(" %s", text);
  }
  printf(count > kShown ? " ...\n" : "\n");
}

void show_value(const Value& value) {
  if (value.tag == Tag::None) {
    printf("None\n");
  } else if (value.tag == Tag::String) {
    printf("%.*s\n", static_cast<int>(value.as_string->size()), value.as_string->data());
  } else if (value.tag == Tag::Double) {
    printf("%.17g\n", value.as_double);
  } else {
    printf("%lld\n", static_cast<long long>(value.to_int()));
  }
}

Status show_outputs(const Method& method, const Options& options, Message& message) {
  for (size_t i = 0; i < method.output_count(); ++i) {
    Value value;
    if (const Status status = method.output(i, value, &message); status != Status::Ok) return status;
    if (value.tag != Tag::Tensor) {
      printf("output %lu: ", static_cast<unsigned long>(i));
      show_value(value);
      continue;
    }
    HostArray array;
    if (!copy_tensor(value.as_tensor, array)) return Status::OutOfMemory;
    show_array(i, array);
    if (!options.save) continue;
    char path[1024];
    snprintf(path, sizeof path, "%s.%lu.npy", options.save, static_cast<unsigned long>(i));
    if (const Status status = write_npy(path, array, message); status != Status::Ok) return status;
  }
  return Status::Ok;
}

double seconds() {
  timespec now;
  return timespec_get(&now, TIME_UTC)
             ? static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec)
             : 0;
}

Status run(const uint8_t* data, size_t size, const Options& options, Message& message) {
  BufferLoader loader(data, size);
  Program program;
  Status status = program.load(loader, &message);
  if (status != Status::Ok) return status;
  // As everywhere: forward, or the only one.
  const char* name = options.method ? options.method : "forward";
  if (!options.method && program.method_count() == 1) name = program.method_name(0);
  MethodMeta meta;
  if (status = program.method_meta(name, meta, &message); status != Status::Ok) return status;

  // What delegates keep is known to them alone.
  const size_t method_bytes = meta.method_bytes() + (meta.delegate_count() ? size_t{1} << 20 : 0);
  ArenaAllocator method_allocator(allocate(method_bytes), method_bytes);
  Arena arenas[kMaxArenas] = {};
  if (meta.arena_count() > kMaxArenas || !method_allocator.allocate(0)) return Status::OutOfMemory;
  for (size_t i = 0; i < meta.arena_count(); ++i) {
    arenas[i].size = meta.arena_size(i);
    arenas[i].data = allocate(arenas[i].size);
    if (!arenas[i].data) return Status::OutOfMemory;
  }
  Scratch scratch;
  MemoryManager memory{};
  memory.method_allocator = &method_allocator;
  memory.arenas = arenas;
  memory.arena_count = meta.arena_count();
  memory.scratch = {Scratch::allocate, Scratch::release, &scratch};
  Method method;
  if (status = method.load(program, name, memory, &message); status != Status::Ok) return status;
  auto* inputs = static_cast<Input*>(allocate((meta.input_count() + 1) * sizeof(Input)));
  if (!inputs) return Status::OutOfMemory;
  if (status = read_inputs(meta, options, inputs, message); status != Status::Ok) return status;
  double fastest = 1e300;
  for (long i = 0; i < options.runs; ++i) {
    if (status = set_inputs(method, meta, options, inputs, message); status != Status::Ok) return status;
    if (i == 0) {
      if (status = method.check_inputs(&message); status != Status::Ok) return status;
    }
    const double start = seconds();
    if (status = method.execute(&message); status != Status::Ok) return status;
    const double taken = seconds() - start;
    if (taken < fastest) fastest = taken;
  }
  status = show_outputs(method, options, message);
  fprintf(stderr, "%s: fastest of %ld: %.3f ms\n", name, options.runs, fastest * 1e3);
  return status;
}

int main(int count, char** words) {
  Options options;
  if (!parse(count, words, options)) {
    fprintf(stderr, kUsage, count ? words[0] : "model");
    return 2;
  }
  const uint8_t* data = nullptr;
  size_t size = 0;
  if (const int code = find_model(options, data, size)) return code;
  Message message;
  Status status = Status::Ok;
  for (size_t i = 0; i < library_count && status == Status::Ok; ++i)
    status = default_registry().add(*libraries[i], &message);
  if (status == Status::Ok) status = run(data, size, options, message);
  if (status == Status::Ok) return 0;
  return complain(status == Status::InvalidArgument || status == Status::NotFound ? 2 : 1, status,
                  message.c_str());
}

}  // namespace

}  // namespace penlight::embedded

int main(int count, char** words) { return penlight::embedded::main(count, words); }
