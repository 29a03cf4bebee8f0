// Runs the embedded program in memory of its own, and prints its output.
#include <penlight/method.h>
#include <penlight_models/both.h>
#include <stdio.h>

using namespace penlight;

alignas(16) static uint8_t method_memory[4096];
alignas(16) static uint8_t arena_memory[256];

static int run(Message& message) {
  BufferLoader loader(both_data, both_size);
  Program program;
  if (program.load(loader, &message) != Status::Ok) return 1;
  ArenaAllocator method_allocator(method_memory, sizeof method_memory);
  Arena arena = {arena_memory, sizeof arena_memory, false};
  MemoryManager memory{};
  memory.method_allocator = &method_allocator;
  memory.arenas = &arena;
  memory.arena_count = 1;
  Method method;
  if (method.load(program, "forward", memory, &message) != Status::Ok) return 1;
  const float x[4] = {1, 2, 3, 4};
  dim_t sizes[1] = {4};
  if (method.set_input(0, InputTensor{x, sizes, 1, ScalarType::Float}, &message) != Status::Ok) return 1;
  if (method.execute(&message) != Status::Ok) return 1;
  for (size_t k = 0; k < method.output_count(); ++k) {
    Value value;
    if (method.output(k, value, &message) != Status::Ok) return 1;
    for (int i = 0; i < 4; ++i)
      printf("%g ", static_cast<double>(value.as_tensor.const_data_ptr<float>()[i]));
  }
  printf("aligned %d\n", static_cast<int>(reinterpret_cast<uintptr_t>(both_data) % 64));
  return 0;
}

int main() {
  Message message;
  const int code = run(message);
  if (code) printf("%s\n", message.c_str());
  return code;
}
