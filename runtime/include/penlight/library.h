// PENLIGHT_LIBRARY: an operator of your own, from one function and one line.
//
//   #include <penlight/kernel.h>
//   using namespace penlight;
//
//   Tensor& scale_out(KernelContext& ctx, const Tensor& x, double factor, Tensor& out) { ... }
//
//   PENLIGHT_LIBRARY(myop, "scale(Tensor x, float factor=2.0) -> Tensor", scale_out, shapes("[n] -> [n]"))
//
// The schema is PyTorch's: that of the functional operator, from which the one with
// `out` follows, or of the out variant, or only its name ("scale.out"). The function
// is the out variant's kernel, named `myop::scale.out`: context first, then the
// arguments, then one Tensor& for each result. It returns nothing, or its outputs.
// `shapes` says how the sizes of the results follow from those of the tensors, and
// `backward` which operators give the gradients:
//
//   PENLIGHT_LIBRARY(myop, "scale(Tensor x, float factor=2.0) -> Tensor", scale_out, shapes("[n] -> [n]"),
//                    backward("scale(grad, factor) -> x"))
//
// The line makes a constant record, and a static constructor that puts it on a list.
// In a program the list is part of default_registry(); in a plug-in the loader reads
// it through `penlight_plugin`.
#pragma once

#include <penlight/boxing.h>
#include <penlight/registry.h>
#include <penlight/schema.h>

namespace penlight {

// The notation for sizes, as an argument of PENLIGHT_LIBRARY.
struct Shapes {
  const char* text;
};
constexpr Shapes shapes(const char* text) { return {text}; }

// Which operators give the gradients, as another one.
struct Backward {
  const char* text;
};
constexpr Backward backward(const char* text) { return {text}; }

// What one PENLIGHT_LIBRARY line says.
struct OperatorRecord {
  KernelLibrary library;  // holds `kernel` and nothing else
  Kernel kernel;
  const char* schema;    // as it was written
  const char* shapes;    // null when not given
  const char* backward;  // the same
  const char* file;
  int line;
  OperatorRecord* next;
};

// Changes when one of the structures between a plug-in and its host, or the meaning
// of one, does.
constexpr uint32_t kPluginAbi = 2;

// What `penlight_plugin` returns. Only `abi` and `layout` may be read before both
// are known to be the host's own.
struct PluginTable {
  uint32_t abi;
  uint32_t reserved;
  uint64_t layout;
  OperatorRecord* first;
};
using PluginEntry = const PluginTable* (*)();

// A number that differs where compiler flags or versions of the headers gave the
// structures that kernels are called with another shape.
constexpr uint64_t plugin_layout() {
  const size_t sizes[] = {sizeof(KernelContext),
                          sizeof(Message),
                          sizeof(TensorImpl),
                          sizeof(Value),
                          sizeof(Kernel),
                          sizeof(Scalar),
                          sizeof(OperatorRecord),
                          sizeof(ListStorage<int64_t>),
                          sizeof(dim_t),
                          sizeof(void*),
                          sizeof(ScratchSource),
                          sizeof(Optional<Tensor>),
                          alignof(Value),
                          alignof(TensorImpl),
                          size_t{kMaxDim},
                          offsetof(TensorImpl, dtype),
                          offsetof(TensorImpl, numel),
                          offsetof(Kernel, signature),
                          offsetof(OperatorRecord, schema)};
  uint64_t hash = 14695981039346656037u;
  for (const size_t size : sizes) hash = (hash ^ size) * 1099511628211u;
  return hash;
}

namespace detail {

// Puts a record on the list of this program or plug-in.
void join(OperatorRecord& record);

struct OperatorRegistration {
  explicit OperatorRegistration(OperatorRecord& record) {
    record.library.kernels = &record.kernel;
    join(record);
  }
};

template <size_t N>
struct KernelName {
  char text[N] = {};
};

// `ns::name.out`, or `ns::name.overload_out`, of a schema; the operator's own name
// when it has no results and writes to arguments only.
template <size_t NamespaceSize, size_t SchemaSize>
constexpr auto kernel_name(const char (&ns)[NamespaceSize], const char (&text)[SchemaSize]) {
  KernelName<NamespaceSize + SchemaSize + 8> name;
  size_t size = 0;
  const auto append = [&](const char* from, size_t start, size_t end) {
    for (size_t i = start; i < end; ++i) name.text[size++] = from[i];
  };
  const Schema schema = read_schema(text);
  append(ns, 0, NamespaceSize - 1);
  append("::", 0, 2);
  append(text, schema.operator_start, schema.overload_end);
  const bool functional = schema.name_only || schema.results > 0;
  if (functional && !is_out_variant(schema, text)) {
    const bool overloaded = schema.overload_end > schema.operator_end;
    append(overloaded ? "_out" : ".out", 0, 4);
  }
  return name;
}

template <class T>
struct IsResult {
  // Something like a tuple of outputs; a Tensor by value would be one that nobody reads.
  static constexpr bool value = __is_class(T);
};
template <>
struct IsResult<void> {
  static constexpr bool value = true;
};
template <>
struct IsResult<Tensor> {
  static constexpr bool value = false;
};
template <class T>
struct IsResult<T&> {
  static constexpr bool value = true;
};

template <auto function>
constexpr bool returns_outputs = IsResult<typename FunctionOf<decltype(function)>::Result>::value;

// What stands behind the function in a PENLIGHT_LIBRARY line, in any order.
struct Clauses {
  const char* shapes;
  const char* backward;

  template <class Function, class... Clause>
  constexpr explicit Clauses(Function, Clause... given) : shapes(nullptr), backward(nullptr) {
    (take(given), ...);
  }
  constexpr void take(Shapes given) { shapes = given.text; }
  constexpr void take(Backward given) { backward = given.text; }
};

}  // namespace detail

}  // namespace penlight

#define PENLIGHT_TEXT_(x) #x
#define PENLIGHT_TEXT(x) PENLIGHT_TEXT_(x)
#define PENLIGHT_FIRST_(first, ...) first
#define PENLIGHT_FIRST(...) PENLIGHT_FIRST_(__VA_ARGS__, )

// In a plug-in its loader compares schema and function and shows both; elsewhere the
// compiler does.
#ifdef PENLIGHT_PLUGIN
#define PENLIGHT_CHECK_SCHEMA(schema, function)
#else
#define PENLIGHT_CHECK_SCHEMA(schema, function)                                                  \
  constexpr ::penlight::SchemaFault kFault =                                                     \
      ::penlight::compare_schema(schema, ::penlight::signature<function>).fault;                 \
  static_assert(kFault != ::penlight::SchemaFault::Syntax,                                       \
                "the schema is not `name(Type argument, ...) -> Tensor`");                       \
  static_assert(kFault != ::penlight::SchemaFault::Type,                                         \
                "the schema has a type that operators cannot have");                             \
  static_assert(kFault != ::penlight::SchemaFault::Result, "an operator's results are Tensors"); \
  static_assert(kFault != ::penlight::SchemaFault::NoOut,                                        \
                "the kernel has no out argument (`Tensor& out`, last)");                         \
  static_assert(kFault != ::penlight::SchemaFault::Count,                                        \
                "schema and function have different numbers of arguments");                      \
  static_assert(kFault != ::penlight::SchemaFault::Mismatch,                                     \
                "an argument's type in the schema is not the function's");                       \
  static_assert(kFault != ::penlight::SchemaFault::OutName,                                      \
                "an out variant's overload is `out` or ends with `_out`");                       \
  static_assert(kFault != ::penlight::SchemaFault::TooMany, "the schema has too many arguments");
#endif

// PENLIGHT_LIBRARY(namespace, "schema", function), and behind it shapes("..."), backward("...").
#define PENLIGHT_LIBRARY(ns, schema, ...) PENLIGHT_LIBRARY_1_(__COUNTER__, ns, schema, __VA_ARGS__)
#define PENLIGHT_LIBRARY_1_(number, ns, schema, ...) PENLIGHT_LIBRARY_2_(number, ns, schema, __VA_ARGS__)
#define PENLIGHT_LIBRARY_2_(number, ns, schema, ...)                                          \
  namespace {                                                                                 \
  namespace penlight_operator_##number {                                                      \
    using namespace ::penlight; /* for shapes(...), backward(...) */                          \
    constexpr auto kFunction = PENLIGHT_FIRST(__VA_ARGS__);                                   \
    static_assert(::penlight::detail::returns_outputs<kFunction>,                             \
                  "a kernel returns nothing, its Tensor&, or a tuple of its outputs");        \
    PENLIGHT_CHECK_SCHEMA(schema, kFunction)                                                  \
    constexpr auto kName = ::penlight::detail::kernel_name(#ns, schema);                      \
    ::penlight::OperatorRecord record = {                                                     \
        {#ns, nullptr, 1, true, nullptr},                                                     \
        {kName.text, ::penlight::boxed<kFunction>, ::penlight::signature<kFunction>, nullptr, \
         __FILE__ ":" PENLIGHT_TEXT(__LINE__)},                                               \
        schema,                                                                               \
        ::penlight::detail::Clauses(__VA_ARGS__).shapes,                                      \
        ::penlight::detail::Clauses(__VA_ARGS__).backward,                                    \
        __FILE__,                                                                             \
        __LINE__,                                                                             \
        nullptr};                                                                             \
    const ::penlight::detail::OperatorRegistration registration(record);                      \
  }                                                                                           \
  }
