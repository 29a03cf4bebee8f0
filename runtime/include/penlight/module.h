// Module: a program with all it needs to run, on a machine with a heap.
//
//   penlight::Module model("model.pte");
//   float pixels[3 * 224 * 224] = {...};
//   auto out = model.forward(penlight::tensor(pixels, {1, 3, 224, 224}));
//   if (!out.ok()) { puts(out.error()); return 1; }
//   const float* scores = out.tensor(0).const_data_ptr<float>();
//
// Methods are prepared when they are first run. State that the file plans in
// regions of its own belongs to the module, not to a method: what "prefill"
// writes, "decode" reads. One thread at a time may use a module; several modules
// may be opened on one file, and their weights share the same pages.
#pragma once

#include <penlight/data_map.h>
#include <penlight/file_loader.h>
#include <penlight/method.h>
#include <penlight/program.h>
#include <penlight/registry.h>
#include <penlight/trace.h>
#include <stddef.h>
#include <stdint.h>

namespace penlight {

// A tensor for one call, of memory that the caller keeps. `count` of sizes.
struct TensorArgument {
  const void* data;
  ScalarType dtype;
  size_t dim;
  dim_t sizes[kMaxDim];
};

// Lies in memory row-major (or in the dim order that the program asks of the input).
template <class T, size_t N>
TensorArgument tensor(const T* data, const dim_t (&sizes)[N]) {
  static_assert(N <= kMaxDim, "a tensor has at most 16 dimensions");
  TensorArgument made{data, ScalarTypeOf<T>::value, N, {}};
  for (size_t d = 0; d < N; ++d) made.sizes[d] = sizes[d];
  return made;
}
template <class T>
TensorArgument scalar_tensor(const T* data) {
  return {data, ScalarTypeOf<T>::value, 0, {}};
}

// One argument of a call: a tensor, a number, or nothing.
struct Argument {
  Argument() : is_tensor(false) {}
  Argument(const TensorArgument& given) : tensor(given), is_tensor(true) {}
  Argument(const Tensor& given);
  Argument(int64_t number) : is_tensor(false) { value.as_int = number, value.tag = Tag::Int; }
  Argument(int number) : Argument(static_cast<int64_t>(number)) {}
  Argument(double number) : is_tensor(false) { value.as_double = number, value.tag = Tag::Double; }
  Argument(bool flag) : is_tensor(false) { value.as_bool = flag, value.tag = Tag::Bool; }

  TensorArgument tensor;
  Value value;
  bool is_tensor;
};

// What a call gave back. Values stay valid until the module's next call.
class Outputs {
 public:
  Outputs(Status status, const char* error, const Value* values, size_t size)
      : status_(status), error_(error), values_(values), size_(size) {}

  bool ok() const { return status_ == Status::Ok; }
  Status status() const { return status_; }
  // One line that says what went wrong; empty when nothing did.
  const char* error() const { return error_; }

  size_t size() const { return size_; }
  const Value& operator[](size_t index) const { return values_[index]; }
  // Output `index`, which the method gives as a tensor.
  Tensor tensor(size_t index) const { return values_[index].as_tensor; }

 private:
  Status status_;
  const char* error_;
  const Value* values_;
  size_t size_;
};

struct ModuleOptions {
  // Map the file, or read parts of it when they are needed.
  bool map = true;
  // .ptd files that hold weights of the program.
  const char* const* data_paths = nullptr;
  size_t data_path_count = 0;
  // A map of the user's own, asked after the files.
  const DataMap* data = nullptr;
  // Where kernels are looked up; null for operators that registered themselves until
  // now, then linked_libraries().
  const KernelRegistry* registry = nullptr;
  // For kernels, the caller's own included; 0: one for each physical core. All modules
  // share them, and results do not depend on how many there are.
  size_t threads = 0;
};

class Module {
 public:
  Module();
  // Opens; error() says whether that worked.
  explicit Module(const char* path, const ModuleOptions& options = ModuleOptions());
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  // Opens a program, once for each module. A failure leaves the module closed.
  Status open(const char* path, const ModuleOptions& options = ModuleOptions());
  // From memory that is 16-byte aligned and outlives the module. Programs do not
  // write to their constants, but a damaged one may: give memory that is writable.
  Status open(const void* bytes, size_t size, const ModuleOptions& options = ModuleOptions());

  bool ok() const { return status_ == Status::Ok; }
  // Of the last call that failed; Ok and "" when none did since.
  Status status() const { return status_; }
  const char* error() const { return message_.c_str(); }

  const Program& program() const;
  size_t method_count() const;
  const char* method_name(size_t index) const;
  Status method_meta(const char* method, MethodMeta& meta);

  // Prepares a method now instead of at its first call. Null when that fails.
  Method* load(const char* method);
  // Runs a method. `max_jumps` bounds its backward jumps.
  Outputs run(const char* method, const Argument* arguments, size_t count, uint64_t max_jumps = UINT64_MAX);

  template <class... Args>
  Outputs forward(const Args&... arguments) {
    return call("forward", arguments...);
  }
  template <class... Args>
  Outputs call(const char* method, const Args&... arguments) {
    const Argument list[] = {Argument(), Argument(arguments)...};
    return run(method, list + 1, sizeof...(Args));
  }

  // State of all methods, each tensor once. Prepares all methods that it can;
  // fails when none can be prepared.
  Status load_state();
  size_t state_count() const;
  const StateTensor& state(size_t index) const;
  // Null when there is none of that name.
  const StateTensor* find_state(const char* name);
  // Copies `size` bytes in or out; the size must be the tensor's.
  Status set_state(const char* name, const void* data, size_t size);
  Status get_state(const char* name, void* data, size_t size);
  // Puts back the initial values.
  Status reset_state();

  // Random operators of all methods begin anew, as determined by `seed` (0 when opened).
  void seed(uint64_t seed);

  // Told of each instruction of a method; null to stop.
  Status set_tracer(const char* method, EventTracer* tracer);

  // Does a run write to any of these bytes: those of planned regions and of outputs?
  bool has_memory_in(const void* data, size_t size) const;

  // Bytes in use: planned regions, and what methods keep for themselves.
  size_t arena_bytes() const;
  size_t method_bytes() const;

 private:
  struct Implementation;
  struct LoadedMethod;

  Status fail(Status status);
  Status start(DataLoader* loader, const ModuleOptions& options);
  LoadedMethod* prepare(const char* method);

  Implementation* impl_;
  Status status_;
  Message message_;
};

}  // namespace penlight
