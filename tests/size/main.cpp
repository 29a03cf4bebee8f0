// The smallest program that loads a file and runs a method: what the runtime
// costs in a user's binary, before kernels. All of its memory is static.
#include <fcntl.h>
#include <penlight/method.h>
#include <unistd.h>

using namespace penlight;

alignas(16) static uint8_t file_bytes[1 << 20];
alignas(16) static uint8_t method_memory[64 << 10];
alignas(16) static uint8_t arena_memory[1 << 20];

static int run(size_t size, Message* message) {
  BufferLoader loader(file_bytes, size);
  Program program;
  if (program.load(loader, message) != Status::Ok) return 1;
  MethodMeta meta;
  if (program.method_meta("forward", meta, message) != Status::Ok) return 2;

  ArenaAllocator method_allocator(method_memory, sizeof method_memory);
  ArenaAllocator planned(arena_memory, sizeof arena_memory);
  Arena arenas[4] = {};
  if (meta.arena_count() > 4) return 3;
  for (size_t i = 0; i < meta.arena_count(); ++i) {
    arenas[i].size = meta.arena_size(i);
    arenas[i].data = planned.allocate(arenas[i].size);
    if (!arenas[i].data) return 3;
  }
  MemoryManager memory{};
  memory.method_allocator = &method_allocator;
  memory.arenas = arenas;
  memory.arena_count = meta.arena_count();

  Method method;
  if (method.load(program, "forward", memory, message) != Status::Ok) return 4;
  for (size_t i = 0; i < method.input_count(); ++i) {
    TensorInfo info;
    if (meta.input_tensor(i, info) != Status::Ok) return 5;
    dim_t sizes[kMaxDim];
    for (uint32_t d = 0; d < info.dim; ++d) sizes[d] = info.sizes[d];
    const InputTensor input{arena_memory + planned.used(), sizes, info.dim, info.dtype};
    if (planned.used() + info.nbytes > planned.size()) return 3;
    if (method.set_input(i, input, message) != Status::Ok) return 5;
  }
  if (method.execute(message) != Status::Ok) return 6;
  Value output;
  return method.output(0, output, message) == Status::Ok ? 0 : 7;
}

int main(int argc, char** argv) {
  const int file = argc > 1 ? open(argv[1], O_RDONLY) : 0;
  const ssize_t size = read(file, file_bytes, sizeof file_bytes);
  Message message;
  const int code = size < 0 ? 8 : run(static_cast<size_t>(size), &message);
  for (const char* text = message.c_str(); *text; ++text) (void)!write(2, text, 1);
  return code;
}
