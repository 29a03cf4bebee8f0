// Elementwise operators: a functor for one element, and map() for the rest. Most are a row:
//
//   PENLIGHT_FORMULA_1(relu_out, Real, x < T(0) ? T(0) : x)
//
// Others call map() with functors of their own, lambdas or structs that hold parameters:
//
//   return map<Domain::Floating>(ctx, LeakyRelu{slope}, out, self);
//
// A functor is compiled for the compute types only: float (also for the 16-bit
// floats), double, int64_t for integers and bool, and Complex where the domain says
// so; integers wrap when they are stored. map() promotes the operands' types as ATen does, broadcasts, gives
// `out` its sizes and calls the functor's block loop. The driver is one function for all
// operators: operands that are not dense and of the compute type are converted
// block by block into buffers on the stack, so mixed dtypes, strides, broadcasting
// and 16-bit floats cost a functor no code.
//
// Functors that return bool are predicates: their result is the same for every
// `out` dtype. Operands may be tensors or Scalars, which count as ATen's wrapped
// numbers. `out` may share memory with an operand of the same layout.
#pragma once

#include <penlight/kernel.h>

#include "kernels/common/complex.h"
#include "kernels/common/convert.h"
#include "kernels/common/dispatch.h"
#include "kernels/common/math.h"
#include "kernels/common/strided.h"

namespace penlight {

// The dtypes an operator computes in.
enum class Domain : uint8_t {
  Real,            // whatever the operands promote to
  Floating,        // integers and bool are computed as float, ATen's default dtype
  Integral,        // integers and bool; others are refused
  Number,          // Real and complex
  FloatingNumber,  // Floating and complex
};

constexpr bool is_complex_domain(Domain domain) {
  return domain == Domain::Number || domain == Domain::FloatingNumber;
}
constexpr Domain without_complex(Domain domain) {
  return domain == Domain::Number           ? Domain::Real
         : domain == Domain::FloatingNumber ? Domain::Floating
                                            : domain;
}

class Operand {
 public:
  Operand() : tensor_(nullptr) {}
  Operand(const Tensor& tensor) : tensor_(tensor.unsafeGetTensorImpl()) {}
  Operand(const Scalar& scalar) : tensor_(nullptr), scalar_(scalar) {}

  const TensorImpl* tensor() const { return tensor_; }  // null for a scalar
  const Scalar& scalar() const { return scalar_; }

 private:
  const TensorImpl* tensor_;
  Scalar scalar_;
};

// The dtype that operands promote to: tensors with dimensions decide, then those
// without, then scalars; a lower rank counts only where it is of a higher kind
// (bool < integer < floating).
ScalarType promote(const Operand* operands, int count);
ScalarType promote(ScalarType a, ScalarType b);

// A number as a functor's parameter, in each compute type.
class Parameter {
 public:
  Parameter(double value) : floating_(value), integer_(detail::truncate_to_int64(value)) {}
  Parameter(const Scalar& value)
      : floating_(value.to<double>()),
        integer_(value.isFloatingPoint() ? detail::truncate_to_int64(value.to<double>())
                                         : value.to<int64_t>()) {}

  template <class C>
  C as() const {
    if constexpr (is_floating_type<C>) {
      return static_cast<C>(floating_);
    } else {
      return static_cast<C>(integer_);
    }
  }

 private:
  double floating_;
  int64_t integer_;
};

constexpr int kMaxOperands = StridedLoop::kMaxOperands - 1;

// to[i] = functor(in[0][i], ...) for i < count, all of one compute type.
using BlockLoop = void (*)(const void* functor, const void* const* in, void* to, dim_t count);

// One operator, without its functor's type. `loops` are for float, double, int64_t
// and Complex.
struct ElementwiseOp {
  BlockLoop loops[4];
  Domain domain;
  bool predicate;
  uint8_t operands;
  uint8_t promote_first, promote_count;  // the operands whose dtypes count
};

void run_elementwise(KernelContext& ctx, const ElementwiseOp& op, const void* functor,
                     const Operand* operands, Tensor& out);

namespace detail {

template <class C, size_t>
C value_of();  // never defined: gives a type where no value is needed

// The loop of one functor for one compute type, whatever its operands are.
template <class F, class C, class Positions>
struct BlockOf;

template <class F, class C, size_t... I>
struct BlockOf<F, C, Indices<I...>> {
  using Result = decltype(value_of<const F&, 0>()(value_of<C, I>()...));

  static void loop(const void* functor_, const void* const* in, void* to_, dim_t count) {
    const F functor = *static_cast<const F*>(functor_);
    const C* from[] = {static_cast<const C*>(in[I])...};
    Result* to = static_cast<Result*>(to_);
    dim_t i = 0;
    // Runs of a fixed length become vector code at -O2.
    constexpr dim_t kRun = 16;
    for (; i + kRun <= count; i += kRun) {
      PENLIGHT_INDEPENDENT
      for (dim_t k = 0; k < kRun; ++k) to[i + k] = functor(from[I][i + k]...);
    }
    for (; i < count; ++i) to[i] = functor(from[I][i]...);
  }
};

// The functor is compiled for C only where that is wanted.
template <class F, size_t operands, class C, bool wanted>
constexpr void add_loop(ElementwiseOp& op, BlockLoop& loop) {
  if constexpr (wanted) {
    using Block = BlockOf<F, C, typename MakeIndices<operands>::type>;
    loop = Block::loop;
    op.predicate = same_type<typename Block::Result, bool>;
  }
}

PENLIGHT_BY_DTYPES_BEGIN

template <Domain any_domain, class F, size_t operands>
constexpr ElementwiseOp make_op(uint8_t promote_first, uint8_t promote_count) {
  constexpr Domain domain = without_complex(any_domain);
  constexpr bool real = domain != Domain::Integral, integral = domain != Domain::Floating;
  // Functions of floats take integers as float.
  constexpr bool single = kFloatSelected || (domain == Domain::Floating && kIntegerSelected);
  ElementwiseOp op{{}, domain, false, operands, promote_first, promote_count};
  add_loop<F, operands, float, real && single>(op, op.loops[0]);
  add_loop<F, operands, double, real && kDoubleSelected>(op, op.loops[1]);
  add_loop<F, operands, int64_t, integral && kIntegerSelected>(op, op.loops[2]);
  add_loop<F, operands, Complex, is_complex_domain(any_domain) && kComplexSelected>(op, op.loops[3]);
  return op;
}

template <Domain domain, class F, size_t operands, int promote_first, int promote_count>
constexpr ElementwiseOp op_of = make_op<domain, F, operands>(promote_first, promote_count);

PENLIGHT_BY_DTYPES_END

}  // namespace detail

PENLIGHT_BY_DTYPES_BEGIN

// Computes `out` from operands that are Tensors or Scalars. Only the dtypes of
// `promote_count` operands from `promote_first` on decide the compute type; the
// others are converted to it.
template <Domain domain, int promote_first, int promote_count, class F, class... Operands>
void map_promoting(KernelContext& ctx, const F& functor, Tensor& out, const Operands&... operands) {
  const Operand list[] = {Operand(operands)...};
  run_elementwise(ctx, detail::op_of<domain, F, sizeof...(Operands), promote_first, promote_count>, &functor,
                  list, out);
}

template <Domain domain, class F, class... Operands>
void map(KernelContext& ctx, const F& functor, Tensor& out, const Operands&... operands) {
  map_promoting<domain, 0, sizeof...(Operands)>(ctx, functor, out, operands...);
}

PENLIGHT_BY_DTYPES_END

// A formula as a functor; T is the compute type.
#define PENLIGHT_OF_1(...)                  \
  []([[maybe_unused]] auto x) {             \
    using T [[maybe_unused]] = decltype(x); \
    return __VA_ARGS__;                     \
  }
#define PENLIGHT_OF_2(...)                               \
  []([[maybe_unused]] auto a, [[maybe_unused]] auto b) { \
    using T [[maybe_unused]] = decltype(a);              \
    return __VA_ARGS__;                                  \
  }

// Kernels by name, domain and functor: of a tensor, of two, of a tensor and a
// number.
#define PENLIGHT_MAP_1(kernel, domain, ...)                          \
  void kernel(KernelContext& ctx, const Tensor& self, Tensor& out) { \
    map<Domain::domain>(ctx, __VA_ARGS__, out, self);                \
  }
#define PENLIGHT_MAP_2(kernel, domain, ...)                                               \
  void kernel(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) { \
    map<Domain::domain>(ctx, __VA_ARGS__, out, self, other);                              \
  }
#define PENLIGHT_MAP_SCALAR(kernel, domain, ...)                                          \
  void kernel(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) { \
    map<Domain::domain>(ctx, __VA_ARGS__, out, self, other);                              \
  }

// The same by a formula of x, or of a and b.
#define PENLIGHT_FORMULA_1(kernel, domain, ...)                      \
  void kernel(KernelContext& ctx, const Tensor& self, Tensor& out) { \
    map<Domain::domain>(ctx, PENLIGHT_OF_1(__VA_ARGS__), out, self); \
  }
#define PENLIGHT_FORMULA_2(kernel, domain, ...)                                           \
  void kernel(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) { \
    map<Domain::domain>(ctx, PENLIGHT_OF_2(__VA_ARGS__), out, self, other);               \
  }

constexpr auto kConvert = PENLIGHT_OF_1(x);  // map(ctx, kConvert, out, x) converts

}  // namespace penlight
