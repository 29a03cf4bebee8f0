// Kernel files written for ExecuTorch, compiled as they are: the names that such files
// use for tensors, contexts, errors, checks and dtype switches, each said in Penlight's
// own terms. Every ExecuTorch header that a kernel file includes leads here.
//
// Sizes are as wide as pointers (SizesType is intptr_t), and resize_tensor() asks the
// context of the kernel that is running.
#pragma once

#include <math.h>
#include <penlight/kernel.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if __STDC_HOSTED__
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#endif
// What such files take for granted; a bare-metal target may have none of it.
#if __has_include(<optional>)
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#define PENLIGHT_HAS_STD 1
#else
#define PENLIGHT_HAS_STD 0
#endif

namespace executorch {

namespace runtime {

enum class Error : uint32_t {
  Ok = 0x00,
  Internal = 0x01,
  InvalidState = 0x02,
  EndOfMethod = 0x03,
  NotSupported = 0x10,
  NotImplemented = 0x11,
  InvalidArgument = 0x12,
  InvalidType = 0x13,
  OperatorMissing = 0x14,
  NotFound = 0x20,
  MemoryAllocationFailed = 0x21,
  AccessFailed = 0x22,
  InvalidProgram = 0x23,
  OutOfResources = 0x25,
};

inline ::penlight::Status status_of(Error error) {
  switch (error) {
    case Error::Ok:
      return ::penlight::Status::Ok;
    case Error::InvalidState:
    case Error::EndOfMethod:
      return ::penlight::Status::InvalidState;
    case Error::NotSupported:
    case Error::NotImplemented:
      return ::penlight::Status::NotSupported;
    case Error::InvalidArgument:
    case Error::InvalidType:
      return ::penlight::Status::InvalidArgument;
    case Error::MemoryAllocationFailed:
    case Error::OutOfResources:
      return ::penlight::Status::OutOfMemory;
    default:
      return ::penlight::Status::KernelFailed;
  }
}

// A value, or why there is none.
template <class T>
class Result {
 public:
  Result(Error error) : value_(), error_(error == Error::Ok ? Error::Internal : error) {}
  Result(const T& value) : value_(value), error_(Error::Ok) {}
  bool ok() const { return error_ == Error::Ok; }
  Error error() const { return error_; }
  T& get() { return value_; }
  const T& get() const { return value_; }
  T& operator*() { return value_; }
  const T& operator*() const { return value_; }
  T* operator->() { return &value_; }

 private:
  T value_;
  Error error_;
};

namespace detail {
// The context of the kernel that runs on this thread: these kernels resize tensors
// without naming one.
#if __STDC_HOSTED__
inline thread_local ::penlight::KernelContext* running = nullptr;
#else
inline ::penlight::KernelContext* running = nullptr;
#endif
}  // namespace detail

class KernelRuntimeContext {
 public:
  // A context of a kernel's own making speaks to that of the kernel that runs.
  KernelRuntimeContext() : context_(detail::running) {}
  explicit KernelRuntimeContext(::penlight::KernelContext& context) : context_(&context) {}

  void fail(Error error) { fail(error, "the kernel reported an error"); }
  void fail(Error error, const char* text) {
    if (failure_ != Error::Ok) return;
    failure_ = error;
    if (context_) context_->fail(status_of(error), "{}", text);
  }
  Error failure_state() const { return failure_; }

  // Memory that lives until the kernel returns.
  Result<void*> allocate_temp(size_t size, size_t alignment = alignof(double)) {
    void* memory = context_ ? context_->allocate_scratch(size, alignment < 16 ? 16 : alignment) : nullptr;
    if (!memory) return Error::MemoryAllocationFailed;
    return memory;
  }

 private:
  ::penlight::KernelContext* context_;
  Error failure_ = Error::Ok;
};
using RuntimeContext = KernelRuntimeContext;

constexpr size_t kTensorDimensionLimit = ::penlight::kMaxDim;

}  // namespace runtime

namespace aten {

using ::penlight::ArrayRef;
using ::penlight::Device;
using ::penlight::Layout;
using ::penlight::MemoryFormat;
using ::penlight::Scalar;
using ::penlight::ScalarType;
using ::penlight::Tensor;
using ::penlight::TensorImpl;
using ::penlight::TensorList;
using BFloat16 = ::penlight::BFloat16;
using Half = ::penlight::Half;
using DimOrderType = uint8_t;
using IntArrayRef = ::penlight::ArrayRef<int64_t>;
using SizesType = ::penlight::dim_t;
using StridesType = ::penlight::dim_t;
#if PENLIGHT_HAS_STD
template <class T>
using optional = ::std::optional<T>;
using nullopt_t = ::std::nullopt_t;
using ::std::nullopt;
using string_view = ::std::string_view;
#else
template <class T>
using optional = ::penlight::Optional<T>;
using nullopt_t = ::penlight::nullopt_t;
using ::penlight::nullopt;
using string_view = ::penlight::StringView;
#endif

}  // namespace aten

namespace runtime {

using ::executorch::aten::ScalarType;
using ::executorch::aten::Tensor;

inline size_t elementSize(ScalarType type) { return ::penlight::element_size(type); }
inline const char* toString(ScalarType type) { return ::penlight::dtype_name(type); }
inline bool isFloatingType(ScalarType type) { return ::penlight::is_floating(type); }
inline bool isComplexType(ScalarType type) { return ::penlight::is_complex(type); }
inline bool isIntegralType(ScalarType type, bool include_bool) {
  return ::penlight::is_integral(type) || (include_bool && type == ScalarType::Bool);
}
inline bool isRealType(ScalarType type) {
  return isIntegralType(type, false) || type == ScalarType::Float || type == ScalarType::Double;
}
inline bool isRealHType(ScalarType type) { return isRealType(type) || type == ScalarType::Half; }
inline bool isRealHBType(ScalarType type) { return isRealHType(type) || type == ScalarType::Bool; }

inline Error resize_tensor(Tensor tensor, ::executorch::aten::ArrayRef<::executorch::aten::SizesType> sizes) {
  if (!detail::running || !detail::running->resize(tensor, sizes)) return Error::InvalidArgument;
  return Error::Ok;
}
template <class T>
Error resize_tensor(Tensor tensor, ::executorch::aten::ArrayRef<T> sizes) {
  ::executorch::aten::SizesType copy[kTensorDimensionLimit];
  if (sizes.size() > kTensorDimensionLimit) return Error::InvalidArgument;
  for (size_t d = 0; d < sizes.size(); ++d) copy[d] = static_cast<::executorch::aten::SizesType>(sizes[d]);
  return resize_tensor(tensor, {copy, sizes.size()});
}
template <class T>
Error resize(Tensor tensor, ::executorch::aten::ArrayRef<T> sizes) {
  return resize_tensor(tensor, sizes);
}

inline bool tensors_have_same_shape(const Tensor& a, const Tensor& b) { return a.sizes().equals(b.sizes()); }
inline bool tensors_have_same_dtype(const Tensor& a, const Tensor& b) {
  return a.scalar_type() == b.scalar_type();
}
inline bool tensors_have_same_rank(const Tensor& a, const Tensor& b) { return a.dim() == b.dim(); }
template <class... More>
bool tensors_have_same_shape(const Tensor& a, const Tensor& b, const Tensor& c, const More&... more) {
  return tensors_have_same_shape(a, b) && tensors_have_same_shape(b, c, more...);
}
template <class... More>
bool tensors_have_same_dtype(const Tensor& a, const Tensor& b, const Tensor& c, const More&... more) {
  return tensors_have_same_dtype(a, b) && tensors_have_same_dtype(b, c, more...);
}
template <class... More>
bool tensors_have_same_shape_and_dtype(const Tensor& a, const Tensor& b, const More&... more) {
  return tensors_have_same_shape(a, b, more...) && tensors_have_same_dtype(a, b, more...);
}
inline bool tensor_is_contiguous(const Tensor& tensor) { return tensor.is_contiguous(); }
inline bool tensor_is_default_dim_order(const Tensor& tensor) { return tensor.is_contiguous(); }
inline bool tensor_is_rank(const Tensor& tensor, size_t rank) {
  return static_cast<size_t>(tensor.dim()) == rank;
}
inline bool tensor_is_scalar(const Tensor& tensor) { return tensor.dim() == 0 && tensor.numel() == 1; }
inline bool tensor_is_floating_type(const Tensor& tensor) { return isFloatingType(tensor.scalar_type()); }
inline bool tensor_is_integral_type(const Tensor& tensor, bool include_bool = false) {
  return isIntegralType(tensor.scalar_type(), include_bool);
}
inline bool tensor_is_bool_type(const Tensor& tensor) { return tensor.scalar_type() == ScalarType::Bool; }
inline bool tensor_is_real_type(const Tensor& tensor) { return isRealType(tensor.scalar_type()); }
inline bool tensor_has_rank_greater_or_equal_to(const Tensor& tensor, size_t rank) {
  return static_cast<size_t>(tensor.dim()) >= rank;
}
inline bool tensor_has_dim(const Tensor& tensor, int64_t d) {
  const int64_t limit = tensor.dim() ? tensor.dim() : 1;
  return d >= -limit && d < limit;
}
inline bool dim_is_valid(int64_t d, int64_t limit) {
  return d >= -(limit ? limit : 1) && d < (limit ? limit : 1);
}
inline ::penlight::dim_t nonzero_dim(const Tensor& tensor) { return tensor.dim() == 0 ? 1 : tensor.dim(); }
inline ::penlight::dim_t nonempty_size(const Tensor& tensor, ::penlight::dim_t d) {
  return tensor.dim() == 0 ? 1 : tensor.size(d);
}
inline size_t getLeadingDims(const Tensor& tensor, int64_t dim) {
  size_t count = 1;
  for (int64_t d = 0; d < dim; ++d)
    count *= static_cast<size_t>(tensor.size(static_cast<::penlight::dim_t>(d)));
  return count;
}
inline size_t getTrailingDims(const Tensor& tensor, int64_t dim) {
  size_t count = 1;
  for (int64_t d = dim + 1; d < tensor.dim(); ++d) {
    count *= static_cast<size_t>(tensor.size(static_cast<::penlight::dim_t>(d)));
  }
  return count;
}

}  // namespace runtime

}  // namespace executorch

namespace exec_aten = ::executorch::aten;

namespace torch {
namespace executor {
// One by one, for those that are names of torch's own too.
using ::executorch::aten::ArrayRef;
using ::executorch::aten::BFloat16;
using ::executorch::aten::Device;
using ::executorch::aten::DimOrderType;
using ::executorch::aten::Half;
using ::executorch::aten::IntArrayRef;
using ::executorch::aten::Layout;
using ::executorch::aten::MemoryFormat;
using ::executorch::aten::nullopt;
using ::executorch::aten::nullopt_t;
using ::executorch::aten::optional;
using ::executorch::aten::Scalar;
using ::executorch::aten::ScalarType;
using ::executorch::aten::SizesType;
using ::executorch::aten::StridesType;
using ::executorch::aten::string_view;
using ::executorch::aten::Tensor;
using ::executorch::aten::TensorImpl;
using ::executorch::aten::TensorList;
using namespace ::executorch::runtime;
namespace native {
using namespace ::executorch::runtime;
}  // namespace native
}  // namespace executor
}  // namespace torch

namespace penlight {

#if PENLIGHT_HAS_STD
namespace detail {
template <class T>
struct ArgumentOf<::std::optional<T>> {
  static constexpr char letter = ArgumentOf<Optional<T>>::letter;
  static ::std::optional<T> get(const Value& value) {
    const Optional<T> given = ArgumentOf<Optional<T>>::get(value);
    return given.has_value() ? ::std::optional<T>(*given) : ::std::nullopt;
  }
};
template <>
struct ArgumentOf<::std::string_view> {
  static constexpr char letter = 'Z';
  static ::std::string_view get(const Value& value) {
    return {value.as_string->data(), value.as_string->size()};
  }
};
template <>
struct ArgumentOf<::std::optional<::std::string_view>> {
  static constexpr char letter = 'z';
  static ::std::optional<::std::string_view> get(const Value& value) {
    if (value.is_none()) return ::std::nullopt;
    return ArgumentOf<::std::string_view>::get(value);
  }
};
}  // namespace detail
#endif

// Kernels of ExecuTorch's kind as kernels of ours.
namespace executorch_kernel {

struct Running {
  explicit Running(KernelContext& context) : before(::executorch::runtime::detail::running) {
    ::executorch::runtime::detail::running = &context;
  }
  ~Running() { ::executorch::runtime::detail::running = before; }
  KernelContext* before;
};

template <auto function, class Type>
struct Adapted;
template <auto function, class Result, class... Args>
struct Adapted<function, Result (*)(::executorch::runtime::KernelRuntimeContext&, Args...)> {
  static Result call(KernelContext& context, Args... args) {
    const Running running(context);
    ::executorch::runtime::KernelRuntimeContext own(context);
    return function(own, static_cast<Args&&>(args)...);
  }
};
template <auto function, class Result, class... Args>
struct Adapted<function, Result (*)(const Tensor&, Args...)> {
  static Result call(KernelContext& context, const Tensor& first, Args... args) {
    const Running running(context);
    return function(first, static_cast<Args&&>(args)...);
  }
};
template <auto function, class Result, class... Args>
struct Adapted<function, Result (*)(Tensor&, Args...)> {
  static Result call(KernelContext& context, Tensor& first, Args... args) {
    const Running running(context);
    return function(first, static_cast<Args&&>(args)...);
  }
};
template <auto function, class Result, class... Args>
struct Adapted<function, Result (*)(TensorList, Args...)> {
  static Result call(KernelContext& context, TensorList first, Args... args) {
    const Running running(context);
    return function(first, static_cast<Args&&>(args)...);
  }
};

template <auto function>
constexpr auto adapted = &Adapted<function, decltype(function)>::call;

template <ScalarType type>
struct TypeOfNumber;
#define PENLIGHT_ET_TYPE(name, cpp_type)  \
  template <>                             \
  struct TypeOfNumber<ScalarType::name> { \
    using type = cpp_type;                \
  };
PENLIGHT_ET_TYPE(Bool, bool)
PENLIGHT_ET_TYPE(Half, Half)
PENLIGHT_ET_TYPE(BFloat16, BFloat16)
PENLIGHT_ET_TYPE(UInt16, uint16_t)
PENLIGHT_ET_TYPE(UInt32, uint32_t)
PENLIGHT_ET_TYPE(UInt64, uint64_t)
#undef PENLIGHT_ET_TYPE
template <ScalarType type>
using TypeOf = typename TypeOfNumber<type>::type;

// What a dtype switch gives for a dtype that it has no case for.
template <class Body>
auto not_called(Body& body) -> decltype(body()) {
  using Given = decltype(body());
  return Given();
}

template <class Context>
void refuse(Context& context, const char* name, ScalarType type) {
  Message text;
  text.set("{}: element type {} is not supported here", name, dtype_name(type));
  context.fail(::executorch::runtime::Error::InvalidArgument, text.c_str());
}
inline void refuse(KernelContext& context, const char* name, ScalarType type) {
  context.fail(Status::NotSupported, "{}: element type {} is not supported here", name, dtype_name(type));
}

#if __STDC_HOSTED__
// Text of a check in printf's format.
struct Formatted {
  char text[200];
  __attribute__((format(printf, 2, 3))) explicit Formatted(const char* format, ...) {
    __builtin_va_list args;
    __builtin_va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    __builtin_va_end(args);
  }
};
#endif

}  // namespace executorch_kernel

}  // namespace penlight

// --- registration ---------------------------------------------------------------------------------

#define EXECUTORCH_LIBRARY(ns, op_name, func) \
  PENLIGHT_LIBRARY(ns, op_name, (::penlight::executorch_kernel::adapted<&func>))

// --- checks and log -------------------------------------------------------------------------------

#if __STDC_HOSTED__
#define PENLIGHT_ET_TEXT(...) ::penlight::executorch_kernel::Formatted(__VA_ARGS__).text
#define ET_LOG(level, ...) fprintf(stderr, "%s\n", PENLIGHT_ET_TEXT(__VA_ARGS__))
#define PENLIGHT_ET_ABORT() abort()
#else
#define PENLIGHT_ET_TEXT(format, ...) format
#define ET_LOG(level, ...) ((void)0)
#define PENLIGHT_ET_ABORT() __builtin_trap()
#endif

#define ET_CHECK_MSG(condition, ...) \
  do {                               \
    if (!(condition)) {              \
      ET_LOG(Fatal, __VA_ARGS__);    \
      PENLIGHT_ET_ABORT();           \
    }                                \
  } while (0)
#define ET_CHECK(condition) ET_CHECK_MSG(condition, "%s", "check failed: " #condition)
#define ET_DCHECK(condition) ET_CHECK(condition)
#define ET_DCHECK_MSG(condition, ...) ET_CHECK_MSG(condition, __VA_ARGS__)
#define ET_ASSERT_UNREACHABLE() ET_CHECK_MSG(false, "%s", "unreachable")

#define ET_KERNEL_CHECK(context, condition, error, retval)                              \
  do {                                                                                  \
    if (!(condition)) {                                                                 \
      (context).fail(::executorch::runtime::Error::error, "check failed: " #condition); \
      return retval;                                                                    \
    }                                                                                   \
  } while (0)
#define ET_KERNEL_CHECK_MSG(context, condition, error, retval, ...)                       \
  do {                                                                                    \
    if (!(condition)) {                                                                   \
      (context).fail(::executorch::runtime::Error::error, PENLIGHT_ET_TEXT(__VA_ARGS__)); \
      return retval;                                                                      \
    }                                                                                     \
  } while (0)
#define ET_CHECK_OR_RETURN_ERROR(condition, error, ...) \
  do {                                                  \
    if (!(condition)) {                                 \
      ET_LOG(Error, __VA_ARGS__);                       \
      return ::executorch::runtime::Error::error;       \
    }                                                   \
  } while (0)
#define ET_CHECK_OK_OR_RETURN_ERROR(expression, ...)                     \
  do {                                                                   \
    const ::executorch::runtime::Error et_error_ = (expression);         \
    if (et_error_ != ::executorch::runtime::Error::Ok) return et_error_; \
  } while (0)
#define ET_CHECK_OR_RETURN_FALSE(condition, ...) \
  do {                                           \
    if (!(condition)) {                          \
      ET_LOG(Error, __VA_ARGS__);                \
      return false;                              \
    }                                            \
  } while (0)
#define ET_LOG_AND_RETURN_IF_FALSE(condition) \
  ET_CHECK_OR_RETURN_FALSE(condition, "%s", "check failed: " #condition)
#define ET_LOG_MSG_AND_RETURN_IF_FALSE(condition, ...) ET_CHECK_OR_RETURN_FALSE(condition, __VA_ARGS__)
#define ET_UNUSED __attribute__((unused))
#define ET_INLINE inline
#define ET_NODISCARD [[nodiscard]]
#define ET_EXPERIMENTAL
#define ET_DEPRECATED

#include <executorch/switches.h>
