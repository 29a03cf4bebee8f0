/* The runtime behind plain C: opaque handles, C types, no exceptions.
 *
 * Meant for bindings of other languages; C++ programs use penlight/module.h. Every
 * function that can fail returns a pl_status (0 is ok; the numbers are those of
 * penlight/status.h) and, where it takes `error`, writes one line of text there.
 * Structures are part of the interface: pl_abi() changes when one of them does.
 *
 * One thread at a time may use a module; different modules are independent. */
#ifndef PENLIGHT_C_API_H_
#define PENLIGHT_C_API_H_

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define PL_API __declspec(dllexport)
#else
#define PL_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

enum { PL_MAX_DIM = 16, PL_ERROR_SIZE = 512, PL_ABI = 2 };
#define PL_UNKNOWN_DIM 0xffffffffu

typedef int32_t pl_status;
typedef struct pl_module pl_module;
typedef struct pl_method pl_method;

/* A number, a tensor or a list. `tag` as in penlight/value.h: 0 none, 1 int, 2 bool,
 * 3 double, 4 tensor, 5 string, 6 int list, 7 double list, 8 bool list, 9 tensor
 * list, 10 optional tensor list. */
typedef struct pl_value {
  uint32_t tag;
  int32_t dtype; /* PyTorch's number */
  uint32_t dim;
  uint32_t reserved;
  void* data;      /* tensor: its elements; string: bytes; list: items (pl_value for lists of tensors) */
  uint64_t size;   /* tensor: bytes at `data`; string and list: items */
  int64_t integer; /* int and bool */
  double real;
  int64_t sizes[PL_MAX_DIM];
  int64_t strides[PL_MAX_DIM]; /* in elements */
} pl_value;

/* What a program says of an input, an output or a state tensor. */
typedef struct pl_info {
  uint32_t tag;
  int32_t dtype;
  uint32_t dim;
  uint32_t dynamic; /* 0 fixed, 1: sizes are upper bounds */
  uint32_t planned; /* its memory is in an arena */
  uint32_t reserved;
  uint64_t size;   /* bytes, at the bound */
  int64_t integer; /* value that a number was traced with */
  double real;
  int64_t sizes[PL_MAX_DIM];
  uint8_t dim_order[PL_MAX_DIM];
  const char* name; /* of state; null when the file has none */
} pl_info;

typedef struct pl_method_info {
  const char* name;
  const char* input_structure; /* pytree as JSON; null when absent */
  const char* output_structure;
  uint64_t input_count, output_count, arena_count, instruction_count, delegate_count, value_count;
  uint64_t method_bytes;
} pl_method_info;

typedef struct pl_options {
  const char* libraries;         /* "optimized,portable"; null for all that are linked */
  const char* const* data_paths; /* .ptd files */
  uint64_t data_path_count;
  int32_t map;     /* 1: map the file; 0: read it in parts */
  int32_t threads; /* for kernels, the caller's own included; 0: one for each physical core */
} pl_options;

/* One call, prepared once and used again. The caller fills inputs; pl_run() fills
 * outputs, whose data stays valid until the module's next call. An output that the
 * program lists as unshared is written to `lent` memory, if there is some for it: of
 * pl_info's size, aligned to 16 bytes. Its data says where it is. */
typedef struct pl_call {
  pl_method* method;
  pl_value* inputs;
  pl_value* outputs;
  void* const* lent; /* an address, or null, for each output; null when there are none */
  uint64_t input_count;
  uint64_t output_count;
  uint64_t max_jumps;
  uint32_t changed; /* an output has another address, size or tag than the structure held before */
  pl_status status; /* of the last run */
  char error[PL_ERROR_SIZE];
} pl_call;

typedef struct pl_operator {
  const char* name; /* "aten::add.out" */
  const char* library;
  const char* signature; /* penlight/boxing.h */
  const char* key;       /* dtypes and dim orders; null for any */
  const char* source;    /* file that defines it; may be null */
} pl_operator;

typedef struct pl_plugin pl_plugin;
typedef struct pl_plugin_operator {
  const char* name; /* of its kernel, "myop::linear.out" */
  const char* library;
  const char* signature;
  const char* schema;   /* as it was written, perhaps a name alone */
  const char* shapes;   /* the rule for sizes; null when there is none */
  const char* backward; /* the operators that give gradients; null when not said */
  const char* source;   /* file:line */
} pl_plugin_operator;

PL_API const char* pl_version(void);
PL_API int32_t pl_abi(void);
PL_API const char* pl_status_name(pl_status status);

/* `options` may be null. Bytes are copied. */
PL_API pl_status pl_open_path(const char* path, const pl_options* options, pl_module** module, char* error,
                              size_t error_size);
PL_API pl_status pl_open_bytes(const void* bytes, size_t size, const pl_options* options, pl_module** module,
                               char* error, size_t error_size);
PL_API void pl_close(pl_module* module);

PL_API uint64_t pl_method_count(const pl_module* module);
PL_API const char* pl_method_name(const pl_module* module, uint64_t index);
PL_API pl_status pl_describe_method(pl_module* module, const char* name, pl_method_info* info, char* error,
                                    size_t error_size);
PL_API pl_status pl_describe_input(pl_module* module, const char* method, uint64_t index, pl_info* info);
PL_API pl_status pl_describe_output(pl_module* module, const char* method, uint64_t index, pl_info* info);
PL_API pl_status pl_describe_arena(pl_module* module, const char* method, uint64_t index, uint64_t* size,
                                   int32_t* is_state);
PL_API uint64_t pl_program_size(const pl_module* module); /* bytes, without segments */
/* Bytes kept in the file under a name; valid for the module's life. */
PL_API pl_status pl_named_data(pl_module* module, const char* key, const void** data, uint64_t* size);

/* Prepares a method: finds its kernels, checks every instruction. The handle lives
 * as long as the module. */
PL_API pl_status pl_load_method(pl_module* module, const char* name, pl_method** method, char* error,
                                size_t error_size);
/* Prepares every method; the first failure ends it. */
PL_API pl_status pl_verify(pl_module* module, char* error, size_t error_size);
PL_API pl_status pl_run(pl_call* call);

/* State of all methods. Prepares them. */
PL_API pl_status pl_state_count(pl_module* module, uint64_t* count, char* error, size_t error_size);
PL_API pl_status pl_state(pl_module* module, uint64_t index, pl_value* value, const char** name);
PL_API pl_status pl_set_state(pl_module* module, const char* name, const void* data, size_t size, char* error,
                              size_t error_size);
PL_API pl_status pl_get_state(pl_module* module, const char* name, void* data, size_t size, char* error,
                              size_t error_size);
PL_API pl_status pl_reset(pl_module* module, char* error, size_t error_size);
/* Random operators of all methods begin anew, as determined by `seed` (0 when opened). */
PL_API void pl_seed(pl_module* module, uint64_t seed);

/* Adds the nanoseconds (reading the clock is not counted) and the number of runs of each
 * instruction to the arrays, which hold one entry an instruction, at every run from now;
 * null ends it. */
PL_API pl_status pl_trace_times(pl_method* method, uint64_t* nanoseconds, uint64_t* runs, uint64_t count);
/* Called after each instruction with its arguments, outputs included; null ends it. */
typedef void (*pl_observer)(void* user, uint32_t instruction, const char* name, const pl_value* arguments,
                            uint64_t count);
PL_API pl_status pl_trace_values(pl_method* method, pl_observer observer, void* user);
/* Operator or backend of an instruction. */
PL_API void pl_instruction_name(const pl_method* method, uint64_t index, char* name, size_t size);

/* Kernels that are linked or were added by plug-ins, library by library. */
PL_API uint64_t pl_operator_count(void);
PL_API pl_status pl_describe_operator(uint64_t index, pl_operator* described);
/* Loads a shared object made of files with PENLIGHT_LIBRARY; it stays for the life of
 * the process. Again: nothing changes. On failure `error` has up to three lines, what
 * happened, where, and what was found, and nothing of the plug-in is added. */
PL_API pl_status pl_load_plugin(const char* path, const pl_plugin** plugin, char* error, size_t error_size);
/* Takes back what the last pl_load_plugin() added, before anything of it was used. */
PL_API void pl_undo_plugin(void);
/* Its operators in the order of their lines; InvalidArgument past the last. */
PL_API pl_status pl_describe_plugin(const pl_plugin* plugin, uint64_t index, pl_plugin_operator* described);
/* Calls one kernel by its name. The last arguments are its outputs, whose sizes are
 * written back; their memory holds `size` bytes. `libraries` as in pl_options. */
PL_API pl_status pl_kernel_call(const char* name, const char* libraries, pl_value* arguments, uint64_t count,
                                char* error, size_t error_size);
/* Runs a kernel until it has given each result its sizes, which are written to the
 * arguments. Results are the tensors whose `dim` is PL_UNKNOWN_DIM; tensors without
 * data are taken as zeros. */
PL_API pl_status pl_kernel_shapes(const char* name, const char* libraries, pl_value* arguments,
                                  uint64_t count, char* error, size_t error_size);

/* A kernel as an operator of eager PyTorch in this process: no header of torch is compiled, no
 * library of it linked. */
typedef struct pl_torch_operator {
  const char* kernel;    /* "myop::linear.out" */
  const char* name;      /* as torch has its schema: "myop::linear" or "myop::linear.out" */
  const char* key;       /* dispatch key, "CPU" */
  uint64_t results;      /* that are allocated, or given by the caller; 0 for what works in place */
  const int32_t* dtypes; /* of those, PyTorch's numbers; -1 for that of the first tensor, -2 - i for what
                            argument i says; null for the first tensor's */
  const int64_t* rule;   /* sizes of arguments and results (hosted/shape_rule.h), or null */
  uint64_t rule_size;
  int32_t raises;   /* Python raises its errors, by pl_torch_failed(), once that is connected */
  int32_t given;    /* the out form: results are its last arguments, resized and converted to as torch does */
  uint32_t allowed; /* dtypes that it takes, a bit for each of PyTorch's numbers; 0 for all */
  int32_t prepared; /* calls come by a front, pl_torch_front_register() */
  int32_t faked;    /* which tells what results are like */
  uint64_t changed_lists; /* a bit for each argument that is a list of tensors which are changed */
} pl_torch_operator;
/* `path` of the libtorch_cpu that is loaded. Once, before the other. */
PL_API pl_status pl_torch_connect(const char* path, char* error, size_t error_size);
/* NotSupported for what only a Python function can take (Scalar, Generator). Again: the
 * kernel that the name has now serves it. */
PL_API pl_status pl_torch_register(const pl_torch_operator* described, char* error, size_t error_size);

/* What such an operator failed of, for the operator of Python's that raises it: the kernel, the status,
 * its line of text, and for sizes that do not fit the shape rule the call's arguments and results as
 * `t6:2,3 n i4 j1,2 lt6:1;n` (a float32 tensor [2, 3], None, 4, [1, 2], [float32 [1], None]), b1 (True),
 * f0x1p-1 (0.5), z6162 ("ab"). Of this thread;
 * the texts hold until its next failure. */
typedef struct pl_torch_failure {
  const char* kernel;
  const char* text;
  const char* arguments; /* empty when not the rule but the kernel refused */
  pl_status status;
} pl_torch_failure;
PL_API void pl_torch_failed(pl_torch_failure* failure);

/* C++ within torch's dispatcher (hosted/torch_dispatch.h). `keys` are of two dispatch keys where an
 * operator has functions in Python: for gradients, and what computes it where C++ cannot. What is made by
 * pl_torch_dispatch_probe() until pl_torch_dispatch_probed() are probes: such an operator tells in `probed`
 * what it is called with, and calls its function of the first key; the one called last is what raises errors
 * from then on. One of them should be called with eight arguments: a tensor, None, an int, another tensor, a
 * float, True, a list of the first, the second and the fourth, and PL_TORCH_PROBED_TEXT. */
enum { PL_TORCH_PROBED = 8 };
#define PL_TORCH_PROBED_TEXT "a text that tells where texts are"
typedef struct pl_torch_probe {
  uint64_t count;
  uint64_t payloads[PL_TORCH_PROBED];
  uint32_t tags[PL_TORCH_PROBED];
  uint64_t list_at, text_at; /* words from the start of what the payload points to; 0: not found */
  const void* op[2];         /* torch's handle of the operator */
} pl_torch_probe;
/* `plain` is a tensor's address (its _cdata in Python) without gradients. */
PL_API pl_status pl_torch_dispatch_connect(const char* path, const uint64_t* keys, const void* plain,
                                           pl_torch_probe* probed, char* error, size_t error_size);
PL_API pl_status pl_torch_dispatch_probe(const char* name, char* error, size_t error_size);
/* It was as it should be. */
PL_API void pl_torch_dispatch_probed(void);

/* Autograd of operator `name`, in C++ while no tensor asks for a gradient. Once for each. */
PL_API pl_status pl_torch_autograd_register(const char* name, char* error, size_t error_size);
/* The dispatch keys of the call that a function for gradients was called for, right after it was; and were
 * gradients enabled? They are not at that moment. */
PL_API uint64_t pl_torch_autograd_keys(int32_t* grad_mode);

/* What stands before an operator that a trampoline cannot serve alone (hosted/torch_front.cpp). Again: it is
 * as described now. */
typedef struct pl_torch_front {
  const char* name;
  const void* op[2];     /* torch's handle of it */
  const void* behind[2]; /* and of the operator that pl_torch_register() was called for, with `prepared` */
  uint64_t keys;         /* to call that one with */
  uint64_t count;        /* arguments */
  uint64_t numbers;      /* a bit for each of them that is a Scalar; the other operator has ints there */
  int32_t faked;         /* results are as pl_torch_front_remember() says */
} pl_torch_front;
PL_API pl_status pl_torch_front_register(const pl_torch_front* described, char* error, size_t error_size);
/* The key of the call that came to the function in Python just now; its size, 0 where there is none. */
PL_API uint64_t pl_torch_front_asked(uint8_t* key, uint64_t size);
/* What results of calls with this key are like, in numbers: for each result -1, or for a list of tensors
 * their count; then for each tensor its dtype and rank, or -1 when the kernel says its sizes, and sizes. */
PL_API void pl_torch_front_remember(const char* name, const uint8_t* key, uint64_t key_size,
                                    const int64_t* results, uint64_t count);

/* The instruction set that the optimized kernels compute with: "base", "avx2", "avx512",
 * on AMD's processors from Zen 5 on "avx512-zen5", on Intel's "avx512-intel" and, with a matrix
 * unit, "amx", the widest that this one has. Another one can be taken, for all modules, while none of them
 * runs: 0 when it was not built or the processor lacks it. */
PL_API const char* pl_isa(void);
PL_API int32_t pl_select_isa(const char* name);

#ifdef __cplusplus
}
#endif

#endif
