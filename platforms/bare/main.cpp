// The program that `penlight build` makes for a bare board: runs the model within it once
// and writes the outputs. All memory is what the linker script left of RAM.
//
// Output, one line for each, numbers as bytes in hexadecimal, lowest address first:
//
//   output 0 float32 [1, 12] 0000803f...
//   memory: method 4480, arenas 24000, scratch 0, of 251392 bytes; stack 3208 of 16384
#include <penlight/embedded.h>
#include <penlight/method.h>
#include <penlight/platform.h>
#include <string.h>

#include "board.h"

extern "C" {
extern uint8_t penlight_arena_start[], penlight_arena_end[];
extern const uint32_t penlight_stack_bottom[], penlight_stack_top[];
}

namespace penlight {

namespace {

constexpr size_t kMaxArenas = 8;

void write(const char* text) { penlight_write(text, strlen(text)); }

void write_number(uint64_t value) {
  char digits[20];
  size_t count = 0;
  do digits[sizeof digits - ++count] = static_cast<char>('0' + value % 10);
  while (value /= 10);
  penlight_write(digits + sizeof digits - count, count);
}

void write_bytes(const void* data, size_t count) {
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  char text[64];
  while (count) {
    const size_t part = count < 32 ? count : 32;
    for (size_t i = 0; i < part; ++i) {
      text[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
      text[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    penlight_write(text, 2 * part);
    bytes += part;
    count -= part;
  }
}

void write_output(size_t index, const Value& value) {
  write("output ");
  write_number(index);
  if (value.tag == Tag::Tensor) {
    const Tensor& tensor = value.as_tensor;
    write(" ");
    write(dtype_name(tensor.scalar_type()));
    write(" [");
    for (size_t d = 0; d < static_cast<size_t>(tensor.dim()); ++d) {
      if (d) write(", ");
      write_number(static_cast<uint64_t>(tensor.sizes()[d]));
    }
    write("] ");
    write_bytes(tensor.const_data_ptr(), tensor.nbytes());
  } else if (value.tag == Tag::Double) {
    write(" double ");
    write_bytes(&value.as_double, sizeof value.as_double);
  } else {
    const int64_t number = value.to_int();
    write(" int ");
    write_bytes(&number, sizeof number);
  }
  write("\n");
}

// Bytes of the stack that were written since the program started.
size_t stack_used() {
  const volatile uint32_t* word = penlight_stack_bottom;
  while (word < penlight_stack_top && *word == kStackPaint) ++word;
  return static_cast<size_t>(penlight_stack_top - word) * sizeof *word;
}

Status set_inputs(Method& method, const MethodMeta& meta, ArenaAllocator& memory, Message* message) {
  for (size_t i = 0; i < meta.input_count(); ++i) {
    const Tag tag = meta.input_tag(i);
    Status status = Status::Ok;
    if (tag == Tag::Tensor) {
      TensorInfo info;
      if (status = meta.input_tensor(i, info); status != Status::Ok) return status;
      // A planned input has its place in an arena already.
      const Tensor& planned = method.input(i).as_tensor;
      void* data = info.planned ? planned.mutable_data_ptr() : memory.allocate(info.nbytes);
      if (!data) return Status::OutOfMemory;
      if (!penlight_read_input(i, data, info.nbytes)) memset(data, 0, info.nbytes);
      dim_t sizes[kMaxDim];
      for (uint32_t d = 0; d < info.dim; ++d) sizes[d] = info.sizes[d];
      status = method.set_input(i, InputTensor{data, sizes, info.dim, info.dtype}, message);
    } else if (tag != Tag::None) {
      Value value;
      if (status = meta.input_number(i, value); status != Status::Ok) return status;
      status = method.set_input(i, value, message);
    }
    if (status != Status::Ok) return status;
  }
  return Status::Ok;
}

Status run(Message* message) {
  for (size_t i = 0; i < embedded::library_count; ++i)
    if (const Status status = default_registry().add(*embedded::libraries[i], message); status != Status::Ok)
      return status;
  BufferLoader loader(embedded::program, embedded::program_size);
  Program program;
  Status status = program.load(loader, message);
  if (status != Status::Ok) return status;
  const char* name = program.method_name(0);
  MethodMeta meta;
  if (status = program.method_meta(name ? name : "forward", meta, message); status != Status::Ok)
    return status;

  const size_t room = static_cast<size_t>(penlight_arena_end - penlight_arena_start);
  ArenaAllocator memory(penlight_arena_start, room);
  Arena arenas[kMaxArenas] = {};
  if (meta.arena_count() > kMaxArenas) return Status::OutOfMemory;
  for (size_t i = 0; i < meta.arena_count(); ++i) {
    arenas[i].size = meta.arena_size(i);
    arenas[i].data = memory.allocate(arenas[i].size);
    if (!arenas[i].data) {
      message->set("arena {} needs {} bytes, {} of RAM are left", i, arenas[i].size, room - memory.used());
      return Status::OutOfMemory;
    }
  }
  const size_t arena_bytes = memory.used();
  const size_t method_bytes = meta.method_bytes();
  void* own = memory.allocate(method_bytes);
  if (!own) {
    message->set("the method needs {} bytes, {} of RAM are left", method_bytes, room - memory.used());
    return Status::OutOfMemory;
  }
  ArenaAllocator method_memory(own, method_bytes);
  // Inputs without a place are few; the rest of RAM is for them and for scratch.
  MemoryManager manager{};
  manager.method_allocator = &method_memory;
  manager.arenas = arenas;
  manager.arena_count = meta.arena_count();
  ArenaAllocator scratch;
  manager.scratch = scratch_from(scratch);
  Method method;
  if (status = method.load(program, meta.name(), manager, message); status != Status::Ok) return status;
  if (status = set_inputs(method, meta, memory, message); status != Status::Ok) return status;
  const size_t left = room - memory.used();
  scratch = ArenaAllocator(penlight_arena_end - left, left & ~size_t{15});
  if (status = method.execute(message); status != Status::Ok) return status;
  for (size_t i = 0; i < method.output_count(); ++i) {
    Value output;
    if (status = method.output(i, output, message); status != Status::Ok) return status;
    write_output(i, output);
  }
  write("memory: method ");
  write_number(method_memory.used());
  write(", arenas ");
  write_number(arena_bytes);
  write(", scratch ");
  write_number(scratch.peak());
  write(", of ");
  write_number(room);
  const size_t stack = static_cast<size_t>(penlight_stack_top - penlight_stack_bottom) * sizeof(uint32_t);
  const size_t used = stack_used();
  write(" bytes; stack ");
  write_number(used);
  write(" of ");
  write_number(stack);
  write("\n");
  // Boards without a guard below RAM drop what overflows, and go on with wrong numbers.
  if (used < stack) return Status::Ok;
  message->set("the stack of {} bytes was too small", stack);
  return Status::OutOfMemory;
}

}  // namespace

void platform_log(const char* line) {
  write(line);
  write("\n");
}

void platform_abort() { penlight_exit(134); }

}  // namespace penlight

// Not main(): to a compiler without a C library that is a function like any other, with a mangled name.
extern "C" int penlight_main();

int penlight_main() {
  static penlight::Message message;
  const penlight::Status status = penlight::run(&message);
  if (status == penlight::Status::Ok) return 0;
  penlight::write(penlight::status_name(status));
  penlight::write(": ");
  penlight::write(message.c_str());
  penlight::write("\n");
  return 1;
}
