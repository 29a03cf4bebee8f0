// TORCH_LIBRARY for files that bring ExecuTorch kernels into PyTorch with WRAP_TO_ATEN. An
// operator's out variant gives kernel and schema; the functional form is made of it, so the
// function that such files write for that is compiled and left alone.
#pragma once

#include <executorch/extension/aten_util/make_aten_functor_from_et_functor.h>

namespace at {

using ::executorch::aten::ArrayRef;
using ::executorch::aten::IntArrayRef;
using ::executorch::aten::Scalar;
using ::executorch::aten::ScalarType;
constexpr ScalarType kFloat = ScalarType::Float;
constexpr ScalarType kDouble = ScalarType::Double;
constexpr ScalarType kInt = ScalarType::Int;
constexpr ScalarType kLong = ScalarType::Long;
constexpr ScalarType kBool = ScalarType::Bool;
constexpr ScalarType kHalf = ScalarType::Half;

struct TensorOptions {
  template <class T>
  TensorOptions dtype(T) const {
    return {};
  }
  template <class T>
  TensorOptions device(T) const {
    return {};
  }
};

struct Tensor : ::penlight::Tensor {
  using ::penlight::Tensor::Tensor;
  Tensor() = default;
  Tensor(const ::penlight::Tensor& other) : ::penlight::Tensor(other) {}
  TensorOptions options() const { return {}; }
  Tensor contiguous() const { return *this; }
};
using TensorList = ArrayRef<Tensor>;

#define PENLIGHT_AT_FACTORY(name)                                 \
  template <class... Rest>                                        \
  Tensor name(::std::initializer_list<int64_t>, const Rest&...) { \
    return {};                                                    \
  }                                                               \
  template <class Sizes, class... Rest>                           \
  Tensor name(const Sizes&, const Rest&...) {                     \
    return {};                                                    \
  }
PENLIGHT_AT_FACTORY(empty)
PENLIGHT_AT_FACTORY(zeros)
PENLIGHT_AT_FACTORY(ones)
#undef PENLIGHT_AT_FACTORY
template <class... Rest>
Tensor empty_like(const Tensor&, const Rest&...) {
  return {};
}
template <class... Rest>
Tensor zeros_like(const Tensor&, const Rest&...) {
  return {};
}

}  // namespace at

namespace c10 {
template <class T>
using optional = ::executorch::aten::optional<T>;
using ::executorch::aten::ArrayRef;
using ::executorch::aten::nullopt;
using ::executorch::aten::Scalar;
using ::executorch::aten::ScalarType;
}  // namespace c10

namespace torch {

using at::empty;
using at::empty_like;
using at::Tensor;
using at::zeros;
using at::zeros_like;

class Library {
 public:
  constexpr Library(const char* ns, const char* file, int line) : ns_(ns), file_(file), line_(line) {}

  // A schema; its kernel comes with impl().
  Library& def(const char* schema) {
    if (count_ < kMost) schemas_[count_++] = schema;
    return *this;
  }
  // The functional form, which is made of the out variant.
  template <class Function>
  Library& def(const char* schema, Function&&) {
    return def(schema);
  }
  template <auto function>
  Library& def(const char* schema, ::penlight::executorch_kernel::Wrapped<function>) {
    add<function>(schema);
    return *this;
  }
  template <class Function>
  Library& impl(const char*, Function&&) {
    return *this;
  }
  template <auto function>
  Library& impl(const char* name, ::penlight::executorch_kernel::Wrapped<function>) {
    const char* schema = name;
    for (size_t i = 0; i < count_; ++i) {
      const ::penlight::Schema read = ::penlight::read_schema(schemas_[i]);
      if (::penlight::detail::text_is(schemas_[i], read.operator_start, read.overload_end, name))
        schema = schemas_[i];
    }
    add<function>(schema);
    return *this;
  }

 private:
  template <auto function>
  void add(const char* schema) {
    using Place = ::penlight::executorch_kernel::Wrapped<function>;
    if (Place::record.schema) return;
    const ::penlight::Schema read = ::penlight::read_schema(schema);
    size_t size = 0;
    const auto append = [&](const char* from, size_t start, size_t end) {
      for (size_t i = start; i < end && size + 1 < sizeof Place::name; ++i) Place::name[size++] = from[i];
    };
    append(ns_, 0, strlen(ns_));
    append("::", 0, 2);
    append(schema, read.operator_start, read.overload_end);
    Place::record.library.name = ns_;
    Place::record.library.kernels = &Place::record.kernel;
    Place::record.kernel.name = Place::name;
    Place::record.kernel.source = file_;
    Place::record.schema = schema;
    Place::record.file = file_;
    Place::record.line = line_;
    ::penlight::detail::join(Place::record);
  }

  static constexpr size_t kMost = 256;
  const char* ns_;
  const char* file_;
  int line_;
  size_t count_ = 0;
  const char* schemas_[kMost] = {};
};

namespace detail {
struct LibraryInit {
  LibraryInit(Library& library, void (*body)(Library&)) { body(library); }
};
}  // namespace detail

}  // namespace torch

#define PENLIGHT_TORCH_LIBRARY_2_(number, ns, m)                                                          \
  static void penlight_torch_body_##number(::torch::Library&);                                            \
  static ::torch::Library penlight_torch_library_##number(#ns, __FILE__ ":" PENLIGHT_TEXT(__LINE__),      \
                                                          __LINE__);                                      \
  static const ::torch::detail::LibraryInit penlight_torch_init_##number(penlight_torch_library_##number, \
                                                                         &penlight_torch_body_##number);  \
  static void penlight_torch_body_##number([[maybe_unused]] ::torch::Library& m)
#define PENLIGHT_TORCH_LIBRARY_1_(number, ns, m) PENLIGHT_TORCH_LIBRARY_2_(number, ns, m)
#define TORCH_LIBRARY(ns, m) PENLIGHT_TORCH_LIBRARY_1_(__COUNTER__, ns, m)
#define TORCH_LIBRARY_FRAGMENT(ns, m) PENLIGHT_TORCH_LIBRARY_1_(__COUNTER__, ns, m)
#define TORCH_LIBRARY_IMPL(ns, key, m) PENLIGHT_TORCH_LIBRARY_1_(__COUNTER__, ns, m)
