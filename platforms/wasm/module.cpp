// A WebAssembly module that imports nothing: a page, or any other host, calls what it
// exports and reads and writes its memory.
//
//   at = penlight_reserve(file.length); memory.set(file, at); penlight_load(at, file.length)
//   memory.set(input, penlight_input(0)); penlight_run(); memory at penlight_output(0)
//
// penlight_load(0, 0) takes the model within. Functions that can fail return a status, 0
// when all went well; penlight_message() is then the address of a text that says why not.
#include <penlight/embedded.h>
#include <penlight/method.h>
#include <penlight/platform.h>
#include <stdint.h>
#include <string.h>

extern "C" uint8_t __heap_base;
// Of operators and of the user's own variables. Where nothing called it, the linker would have every
// exported function do so, each time.
extern "C" void __wasm_call_ctors();

namespace penlight {

namespace {

constexpr size_t kPage = 65536;
constexpr size_t kMaxArenas = 16;
constexpr size_t kMaxInputs = 64;

struct Session {
  BufferLoader loader{nullptr, 0};
  Program program;
  MethodMeta meta;
  Method method;
  MemoryManager manager{};
  Arena arenas[kMaxArenas] = {};
  ArenaAllocator method_memory;
  TensorInfo input_info[kMaxInputs];
  void* inputs[kMaxInputs] = {};
  Value output;
};

struct PlacementTag {};

}  // namespace

}  // namespace penlight

inline void* operator new(size_t, void* place, penlight::PlacementTag) noexcept { return place; }

namespace penlight {

namespace {

// Memory grows and is never given back but as a whole, by the next penlight_load().
uintptr_t heap_end = 0;

void* grow(size_t bytes) {
  if (!heap_end) heap_end = (reinterpret_cast<uintptr_t>(&__heap_base) + 63) & ~uintptr_t{63};
  if (bytes > SIZE_MAX - heap_end - 2 * kPage) return nullptr;
  const uintptr_t end = (heap_end + bytes + 63) & ~uintptr_t{63};
  const uintptr_t have = __builtin_wasm_memory_size(0) * kPage;
  if (end > have && __builtin_wasm_memory_grow(0, (end - have + kPage - 1) / kPage) == SIZE_MAX)
    return nullptr;
  void* memory = reinterpret_cast<void*>(heap_end);
  heap_end = end;
  return memory;
}

// Scratch for kernels lies behind all else: given back after each call.
void* scratch_allocate(void*, size_t bytes, size_t) { return grow(bytes); }

Message message;
alignas(Session) uint8_t session_memory[sizeof(Session)];
Session* session = nullptr;
bool ready = false;
uintptr_t scratch_start = 0;

void scratch_release(void*) { heap_end = scratch_start; }

Status load(const void* data, size_t size) {
  static bool constructed = false, registered = false;
  if (!constructed) __wasm_call_ctors();
  constructed = true;
  Status status = Status::Ok;
  if (!registered) {
    for (size_t i = 0; i < embedded::library_count && status == Status::Ok; ++i)
      status = default_registry().add(*embedded::libraries[i], &message);
    if (status != Status::Ok) return status;
    registered = true;
  }
  session->loader = BufferLoader(data, size);
  if (status = session->program.load(session->loader, &message); status != Status::Ok) return status;
  const char* name = session->program.method_name(0);
  status = session->program.method_meta(name ? name : "forward", session->meta, &message);
  if (status != Status::Ok) return status;
  const MethodMeta& meta = session->meta;
  if (meta.arena_count() > kMaxArenas || meta.input_count() > kMaxInputs) return Status::OutOfMemory;
  for (size_t i = 0; i < meta.arena_count(); ++i) {
    session->arenas[i].size = meta.arena_size(i);
    session->arenas[i].data = grow(meta.arena_size(i));
    if (!session->arenas[i].data) return Status::OutOfMemory;
  }
  void* own = grow(meta.method_bytes());
  if (!own) return Status::OutOfMemory;
  session->method_memory = ArenaAllocator(own, meta.method_bytes());
  MemoryManager& manager = session->manager;
  manager.method_allocator = &session->method_memory;
  manager.arenas = session->arenas;
  manager.arena_count = meta.arena_count();
  manager.scratch = {scratch_allocate, scratch_release, nullptr};
  for (size_t i = 0; i < meta.input_count(); ++i) {
    const Tag tag = meta.input_tag(i);
    size_t bytes = 8;  // of a number
    if (tag == Tag::Tensor) {
      if (status = meta.input_tensor(i, session->input_info[i]); status != Status::Ok) return status;
      bytes = session->input_info[i].nbytes;
    }
    if (!(session->inputs[i] = grow(bytes))) return Status::OutOfMemory;
    memset(session->inputs[i], 0, bytes);
    Value number;
    if (tag != Tag::Tensor && tag != Tag::None && meta.input_number(i, number) == Status::Ok)
      memcpy(session->inputs[i], &number.as_int, 8);
  }
  scratch_start = heap_end;
  return session->method.load(session->program, meta.name(), manager, &message);
}

Status run() {
  for (size_t i = 0; i < session->meta.input_count(); ++i) {
    const Tag tag = session->meta.input_tag(i);
    Status status = Status::Ok;
    if (tag == Tag::Tensor) {
      const TensorInfo& info = session->input_info[i];
      dim_t sizes[kMaxDim];
      for (uint32_t d = 0; d < info.dim; ++d) sizes[d] = info.sizes[d];
      const InputTensor tensor{session->inputs[i], sizes, info.dim, info.dtype};
      status = session->method.set_input(i, tensor, &message);
    } else if (tag != Tag::None) {
      Value number;
      if (status = session->meta.input_number(i, number); status != Status::Ok) return status;
      memcpy(&number.as_int, session->inputs[i], tag == Tag::Bool ? 1 : 8);
      status = session->method.set_input(i, number, &message);
    }
    if (status != Status::Ok) return status;
  }
  if (const Status status = session->method.check_inputs(&message); status != Status::Ok) return status;
  return session->method.execute(&message);
}

// The output, or null when there is none of that number yet.
const Value* output(size_t index) {
  if (!ready || index >= session->method.output_count()) return nullptr;
  return session->method.output(index, session->output, &message) == Status::Ok ? &session->output : nullptr;
}

}  // namespace

void platform_abort() { __builtin_trap(); }

}  // namespace penlight

using namespace penlight;

extern "C" {

// Bytes for a file that the host is to copy in. Forgets what was loaded before.
void* penlight_reserve(size_t bytes) {
  heap_end = 0;
  ready = false;
  return grow(bytes);
}

int penlight_load(const void* data, size_t size) {
  message.clear();
  ready = false;
  if (!data) {
    heap_end = 0;
    data = embedded::program;
    size = embedded::program_size;
  }
  session = new (session_memory, PlacementTag{}) Session;
  const Status status = load(data, size);
  ready = status == Status::Ok;
  return static_cast<int>(status);
}

// Where input `index` is to be written; null when there is none.
void* penlight_input(size_t index) {
  return ready && index < session->meta.input_count() ? session->inputs[index] : nullptr;
}

size_t penlight_input_bytes(size_t index) {
  if (!penlight_input(index)) return 0;
  return session->meta.input_tag(index) == Tag::Tensor ? session->input_info[index].nbytes : 8;
}

int penlight_run() {
  message.clear();
  return static_cast<int>(ready ? run() : Status::InvalidState);
}

// Address of an output's elements, or of a number.
const void* penlight_output(size_t index) {
  const Value* value = output(index);
  if (!value) return nullptr;
  return value->tag == Tag::Tensor ? value->as_tensor.const_data_ptr() : &value->as_int;
}

size_t penlight_output_bytes(size_t index) {
  const Value* value = output(index);
  if (!value) return 0;
  return value->tag == Tag::Tensor ? value->as_tensor.nbytes() : 8;
}

size_t penlight_output_rank(size_t index) {
  const Value* value = output(index);
  return value && value->tag == Tag::Tensor ? static_cast<size_t>(value->as_tensor.dim()) : 0;
}

size_t penlight_output_size(size_t index, size_t dim) {
  return dim < penlight_output_rank(index) ? static_cast<size_t>(output(index)->as_tensor.sizes()[dim]) : 0;
}

// Number of the element type, as the file has it: 6 is float32; -1 when it is no tensor.
int penlight_output_dtype(size_t index) {
  const Value* value = output(index);
  return value && value->tag == Tag::Tensor ? static_cast<int>(value->as_tensor.scalar_type()) : -1;
}

const char* penlight_message() { return message.c_str(); }
}
