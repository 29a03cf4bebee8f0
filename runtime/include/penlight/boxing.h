// Boxing: one calling convention for kernels of every type.
//
// boxed<&relu_out> is a BoxedKernel that reads typed arguments from Values and
// calls relu_out; signature<&relu_out> spells its argument types, one letter
// each, so that a program is checked against it when it is loaded:
//
//   T Tensor      L Tensor[]        S Scalar   I int   J int[]    Z str
//   O out Tensor  Q Tensor?[]       F float    D float[]          E ScalarType
//   B bool        C bool[]          Y Layout   M MemoryFormat     G Device
//   R Generator
//
// A lower-case letter is the optional form.
#pragma once

#include <penlight/context.h>
#include <penlight/registry.h>
#include <penlight/value.h>

namespace penlight {

namespace detail {

template <class T>
constexpr bool kNever = false;

template <class T>
struct ArgumentOf {
  static_assert(kNever<T>,
                "a kernel cannot have a parameter of this type: penlight/boxing.h lists those it can");
  static constexpr char letter = '?';
  static T get(const Value&);
};

// How one argument type is read from a Value, and the letter it is checked by.
#define PENLIGHT_ARGUMENT(cpp_type, char_code, expression)         \
  template <>                                                      \
  struct ArgumentOf<cpp_type> {                                    \
    static constexpr char letter = char_code;                      \
    static cpp_type get(const Value& value) { return expression; } \
  };
// The same, and its optional form under the lower-case letter.
#define PENLIGHT_ARGUMENT_AND_OPTIONAL(cpp_type, char_code, expression) \
  PENLIGHT_ARGUMENT(cpp_type, char_code, expression)                    \
  template <>                                                           \
  struct ArgumentOf<Optional<cpp_type>> {                               \
    static constexpr char letter = char_code + ('a' - 'A');             \
    static Optional<cpp_type> get(const Value& value) {                 \
      if (value.is_none()) return nullopt;                              \
      return Optional<cpp_type>(expression);                            \
    }                                                                   \
  };

PENLIGHT_ARGUMENT_AND_OPTIONAL(Tensor, 'T', value.as_tensor)
PENLIGHT_ARGUMENT_AND_OPTIONAL(TensorList, 'L', value.to_tensor_list())
PENLIGHT_ARGUMENT_AND_OPTIONAL(ArrayRef<Optional<Tensor>>, 'Q', value.to_optional_tensor_list())
PENLIGHT_ARGUMENT_AND_OPTIONAL(Scalar, 'S', value.to_scalar())
PENLIGHT_ARGUMENT_AND_OPTIONAL(int64_t, 'I', value.to_int())
PENLIGHT_ARGUMENT_AND_OPTIONAL(double, 'F', value.to_double())
PENLIGHT_ARGUMENT_AND_OPTIONAL(bool, 'B', value.to_bool())
PENLIGHT_ARGUMENT_AND_OPTIONAL(ArrayRef<int64_t>, 'J', value.to_int_list())
PENLIGHT_ARGUMENT_AND_OPTIONAL(ArrayRef<double>, 'D', value.to_double_list())
PENLIGHT_ARGUMENT_AND_OPTIONAL(ArrayRef<bool>, 'C', value.to_bool_list())
PENLIGHT_ARGUMENT_AND_OPTIONAL(StringView, 'Z', *value.as_string)
PENLIGHT_ARGUMENT_AND_OPTIONAL(ScalarType, 'E', static_cast<ScalarType>(value.as_int))
PENLIGHT_ARGUMENT_AND_OPTIONAL(Layout, 'Y', static_cast<Layout>(value.as_int))
PENLIGHT_ARGUMENT_AND_OPTIONAL(MemoryFormat, 'M', static_cast<MemoryFormat>(value.as_int))
PENLIGHT_ARGUMENT_AND_OPTIONAL(Device, 'G', ((void)value, Device{}))
PENLIGHT_ARGUMENT_AND_OPTIONAL(Generator, 'R', ((void)value, Generator{}))
#undef PENLIGHT_ARGUMENT_AND_OPTIONAL
#undef PENLIGHT_ARGUMENT

template <class T>
struct ArgumentOf<const T&> : ArgumentOf<T> {};

// A tensor the kernel writes to.
template <>
struct ArgumentOf<Tensor&> {
  static constexpr char letter = 'O';
  static Tensor& get(Value& value) { return value.as_tensor; }
};

template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct MakeIndices : MakeIndices<N - 1, N - 1, I...> {};
template <size_t... I>
struct MakeIndices<0, I...> {
  using type = Indices<I...>;
};

// What a kernel is called with first, made for one call; headers for kernels of other
// projects add their own kinds of context here.
template <class T>
struct ContextOf {
  static constexpr bool is_context = false;
};
template <>
struct ContextOf<KernelContext&> {
  static constexpr bool is_context = true;
  KernelContext& context;
};

template <class Function>
struct FunctionOf;
template <class Result_, class First_, class... Rest>
struct FunctionOf<Result_ (*)(First_, Rest...)> {
  using Result = Result_;
  using First = First_;
  static_assert(ContextOf<First>::is_context, "the first parameter of a kernel is KernelContext&");
  static constexpr char letters[] = {ArgumentOf<Rest>::letter..., '\0'};

  template <auto function, size_t... I>
  static void unpack(KernelContext& ctx, Value** args, Indices<I...>) {
    (void)args;
    ContextOf<First> first{ctx};
    function(first.context, ArgumentOf<Rest>::get(*args[I])...);
  }
  template <auto function>
  static void call(KernelContext& ctx, Value** args) {
    unpack<function>(ctx, args, typename MakeIndices<sizeof...(Rest)>::type{});
  }
};
template <class Result, class... Args>
struct FunctionOf<Result (*)(Args...) noexcept> : FunctionOf<Result (*)(Args...)> {};

template <auto function, auto value, class = decltype(function)>
struct Given;
template <auto function, auto value, class Result, class Context, class First, class... Rest>
struct Given<function, value, Result (*)(Context, First, Rest...)> {
  static Result call(Context context, Rest... rest) { return function(context, value, rest...); }
};

}  // namespace detail

// A kernel whose first argument is this value, for operators that differ by it.
template <auto function, auto value>
constexpr auto given = &detail::Given<function, value>::call;

template <auto function>
constexpr BoxedKernel boxed = &detail::FunctionOf<decltype(function)>::template call<function>;

template <auto function>
constexpr const char* signature = detail::FunctionOf<decltype(function)>::letters;

}  // namespace penlight
