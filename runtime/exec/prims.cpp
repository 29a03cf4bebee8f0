#include "exec/prims.h"

#include <penlight/context.h>
#include <penlight/half.h>
#include <string.h>

#include "exec/method_loader.h"

namespace penlight {

namespace {

// Overflow wraps instead of being undefined: sizes in a damaged file may be anything.
int64_t add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
int64_t multiply(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
int64_t negate(int64_t a) { return static_cast<int64_t>(0 - static_cast<uint64_t>(a)); }

// Towards zero; false when the number has no integer of 64 bits.
bool truncate(double value, int64_t& whole) {
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return false;
  whole = static_cast<int64_t>(value);
  return true;
}

// A slot keeps the tag that the file gives it, on which others rely.
void write(KernelContext& ctx, Value& out, int64_t number) {
  (void)ctx;
  if (out.tag == Tag::Double) {
    out.as_double = static_cast<double>(number);
  } else {
    out.as_int = out.tag == Tag::Bool ? number != 0 : number;
  }
}

void write(KernelContext& ctx, Value& out, double number) {
  if (out.tag == Tag::Double) {
    out.as_double = number;
    return;
  }
  int64_t whole = 0;
  if (truncate(number, whole)) return write(ctx, out, whole);
  ctx.fail(Status::KernelFailed, "a result is no integer of 64 bits");
}

enum class Op { Add, Sub, Mul, Eq, Lt, Le, Gt, Ge, Max, Min };

template <class T>
T combine(Op op, T a, T b) {
  switch (op) {
    case Op::Max:
      return a > b ? a : b;
    case Op::Min:
      return a < b ? a : b;
    case Op::Eq:
      return static_cast<T>(a == b);
    case Op::Lt:
      return static_cast<T>(a < b);
    case Op::Le:
      return static_cast<T>(a <= b);
    case Op::Gt:
      return static_cast<T>(a > b);
    case Op::Ge:
      return static_cast<T>(a >= b);
    default:
      return T(0);
  }
}

double compute(Op op, double a, double b) {
  if (op == Op::Add) return a + b;
  if (op == Op::Sub) return a - b;
  return op == Op::Mul ? a * b : combine(op, a, b);
}

int64_t compute(Op op, int64_t a, int64_t b) {
  if (op == Op::Add) return add(a, b);
  if (op == Op::Sub) return add(a, negate(b));
  return op == Op::Mul ? multiply(a, b) : combine(op, a, b);
}

// Integers with integers, everything else as floating point, as in Python.
void combine_numbers(KernelContext& ctx, Value** args, Op op) {
  const Value &a = *args[0], &b = *args[1];
  if (a.tag == Tag::Double || b.tag == Tag::Double) {
    write(ctx, *args[2], compute(op, a.to_double(), b.to_double()));
  } else {
    write(ctx, *args[2], compute(op, a.to_int(), b.to_int()));
  }
}

template <Op op>
void binary(KernelContext& ctx, Value** args) {
  combine_numbers(ctx, args, op);
}

// Both round down, so that a == floordiv(a, b) * b + mod(a, b) and the rest has
// the sign of b.
bool divide(KernelContext& ctx, const Value& a, const Value& b, int64_t& quotient, int64_t& rest) {
  const int64_t x = a.to_int(), y = b.to_int();
  if (y == 0) {
    ctx.fail(Status::KernelFailed, "{} is divided by zero", x);
    return false;
  }
  quotient = y == -1 ? negate(x) : x / y;
  rest = y == -1 ? 0 : x % y;
  if (rest != 0 && (rest < 0) != (y < 0)) {
    --quotient;
    rest += y;
  }
  return true;
}

double floor_of(double value) {
  int64_t whole;
  if (!truncate(value, whole)) return value;
  const double below = static_cast<double>(whole);
  return below > value ? below - 1 : below;
}

void divide_down(KernelContext& ctx, Value** args, bool want_rest) {
  const Value &a = *args[0], &b = *args[1];
  if (a.tag == Tag::Double || b.tag == Tag::Double) {
    const double quotient = floor_of(a.to_double() / b.to_double());
    return write(ctx, *args[2], want_rest ? a.to_double() - quotient * b.to_double() : quotient);
  }
  int64_t quotient = 0, rest = 0;
  if (divide(ctx, a, b, quotient, rest)) write(ctx, *args[2], want_rest ? rest : quotient);
}

void divide_rounding_down(KernelContext& ctx, Value** args) { divide_down(ctx, args, false); }
void rest_of_division(KernelContext& ctx, Value** args) { divide_down(ctx, args, true); }

void divide_exactly(KernelContext& ctx, Value** args) {
  const double b = args[1]->to_double();
  if (b == 0) return ctx.fail(Status::KernelFailed, "a number is divided by zero");
  write(ctx, *args[2], args[0]->to_double() / b);
}

void copy_number(KernelContext& ctx, const Value& from, Value& to) {
  if (from.tag == Tag::Double) {
    write(ctx, to, from.as_double);
  } else {
    write(ctx, to, from.to_int());
  }
}

void copy(KernelContext& ctx, Value** args) { copy_number(ctx, *args[0], *args[1]); }

void negative(KernelContext& ctx, Value** args) {
  if (args[0]->tag == Tag::Double) return write(ctx, *args[1], -args[0]->as_double);
  write(ctx, *args[1], negate(args[0]->to_int()));
}

bool is_true(const Value& value) { return value.tag == Tag::Double ? value.as_double != 0 : value.to_bool(); }

void logical_not(KernelContext& ctx, Value** args) {
  write(ctx, *args[1], static_cast<int64_t>(!is_true(*args[0])));
}

void choose(KernelContext& ctx, Value** args) {
  copy_number(ctx, *args[is_true(*args[0]) ? 1 : 2], *args[3]);
}

enum class Rounding { Up, Nearest, Down };

// To an integer; halves to the even one.
void round_number(KernelContext& ctx, Value** args, Rounding how) {
  if (args[0]->tag != Tag::Double) return copy(ctx, args);
  const double value = args[0]->as_double;
  const double below = floor_of(value);
  const double above = below < value ? below + 1 : below;
  double result = value < 0 ? above : below;  // towards zero
  if (how == Rounding::Up) result = above;
  if (how == Rounding::Nearest) {
    const double up = above - value, down = value - below;
    const bool even = floor_of(below / 2) * 2 == below;
    result = down < up || (down == up && even) ? below : above;
  }
  write(ctx, *args[1], result);
}

template <Rounding how>
void rounded(KernelContext& ctx, Value** args) {
  round_number(ctx, args, how);
}

void size_of(KernelContext& ctx, Value** args) {
  const Tensor& tensor = args[0]->as_tensor;
  const int64_t dim = args[1]->to_int(), wrapped = dim < 0 ? dim + tensor.dim() : dim;
  if (wrapped < 0 || wrapped >= tensor.dim()) {
    return ctx.fail(Status::InvalidArgument, "dimension {} of a tensor of {} dimensions", dim, tensor.dim());
  }
  write(ctx, *args[2], static_cast<int64_t>(tensor.sizes()[static_cast<size_t>(wrapped)]));
}

void numel_of(KernelContext& ctx, Value** args) {
  write(ctx, *args[1], static_cast<int64_t>(args[0]->as_tensor.numel()));
}

// The one element of a tensor as a number.
void element_of(KernelContext& ctx, Value** args) {
  const Tensor& tensor = args[0]->as_tensor;
  if (tensor.numel() != 1) {
    return ctx.fail(Status::InvalidArgument, "a tensor of {} elements is no number", tensor.numel());
  }
  const void* data = tensor.const_data_ptr();
  Value& out = *args[1];
  switch (tensor.scalar_type()) {
#define PENLIGHT_READ(type, cpp_type, as)             \
  case ScalarType::type: {                            \
    cpp_type element;                                 \
    memcpy(&element, data, sizeof element);           \
    return write(ctx, out, static_cast<as>(element)); \
  }
    PENLIGHT_READ(Byte, uint8_t, int64_t)
    PENLIGHT_READ(Char, int8_t, int64_t)
    PENLIGHT_READ(Short, int16_t, int64_t)
    PENLIGHT_READ(Int, int32_t, int64_t)
    PENLIGHT_READ(Long, int64_t, int64_t)
    PENLIGHT_READ(Bool, uint8_t, int64_t)
    PENLIGHT_READ(UInt16, uint16_t, int64_t)
    PENLIGHT_READ(UInt32, uint32_t, int64_t)
    PENLIGHT_READ(Float, float, double)
    PENLIGHT_READ(Double, double, double)
#undef PENLIGHT_READ
    case ScalarType::Half:
      return write(ctx, out, static_cast<double>(static_cast<float>(*tensor.const_data_ptr<Half>())));
    case ScalarType::BFloat16:
      return write(ctx, out, static_cast<double>(static_cast<float>(*tensor.const_data_ptr<BFloat16>())));
    default:
      ctx.fail(Status::NotSupported, "an element of {} is no number", dtype_name(tensor.scalar_type()));
  }
}

}  // namespace

void view(KernelContext& ctx, Value** args) {
  const Tensor& self = args[0]->as_tensor;
  const ArrayRef<int64_t> wanted = args[1]->to_int_list();
  Tensor& out = args[2]->as_tensor;
  dim_t sizes[kMaxDim];
  int64_t known = 1;
  size_t inferred = wanted.size();
  if (wanted.size() > kMaxDim)
    return ctx.fail(Status::InvalidArgument, "a view of {} dimensions", wanted.size());
  for (size_t d = 0; d < wanted.size(); ++d) {
    sizes[d] = static_cast<dim_t>(wanted[d]);
    if (wanted[d] == -1 && inferred == wanted.size()) {
      inferred = d;
    } else if (wanted[d] < 0) {
      return ctx.fail(Status::InvalidArgument, "a view has size {} in dimension {}", wanted[d], d);
    } else {
      known = multiply(known, wanted[d]);
    }
  }
  if (inferred < wanted.size()) {
    if (known == 0) return ctx.fail(Status::InvalidArgument, "a view has size -1 beside a size of 0");
    sizes[inferred] = static_cast<dim_t>(self.numel() / known);
    known = multiply(known, sizes[inferred]);
  }
  if (known != self.numel() || out.scalar_type() != self.scalar_type()) {
    return ctx.fail(Status::InvalidArgument, "{} elements of {} are viewed as {} of {}", self.numel(),
                    dtype_name(self.scalar_type()), known, dtype_name(out.scalar_type()));
  }
  TensorImpl& impl = *out.unsafeGetTensorImpl();
  if ((impl.flags & (kUnplacedTensor | kGivenTensor)) == kUnplacedTensor && wanted.size() > 0 &&
      out.dim() == static_cast<dim_t>(wanted.size())) {
    // It had no sizes to keep either.
    impl.flags |= kViewTensor;
    impl.data = self.data_ptr();
    impl.capacity = self.unsafeGetTensorImpl()->capacity;
    for (size_t d = 0; d < wanted.size(); ++d) impl.sizes[d] = sizes[d];
    return refresh_layout(impl);
  }
  if (!ctx.resize(out, {sizes, wanted.size()}) || self.nbytes() == 0) return;
  if (impl.data != self.data_ptr()) memmove(impl.data, self.const_data_ptr(), self.nbytes());
}

namespace {

// Writes row `index` of a tensor that grows row by row, as a loop gives them.
void copy_row(KernelContext& ctx, Value** args) {
  Tensor& to = args[0]->as_tensor;
  const Tensor& from = args[1]->as_tensor;
  const int64_t index = args[2]->to_int();
  const size_t dim = static_cast<size_t>(to.dim());
  bool fits = index >= 0 && to.dim() == from.dim() + 1 && to.scalar_type() == from.scalar_type();
  for (size_t d = 1; fits && d < dim; ++d) {
    // A tensor with bounds takes the sizes of its first row.
    fits = to.sizes()[d] == from.sizes()[d - 1] ||
           (index == 0 && to.unsafeGetTensorImpl()->dynamism != Dynamism::Static);
  }
  if (!fits || !to.is_contiguous() || !from.is_contiguous()) {
    return ctx.fail(Status::InvalidArgument, "a row of {} elements is no row {} of a tensor with {} in a row",
                    from.numel(), index, dim && to.sizes()[0] ? to.numel() / to.sizes()[0] : 0);
  }
  if (to.unsafeGetTensorImpl()->dynamism != Dynamism::Static) {
    if (index >= INTPTR_MAX) return ctx.fail(Status::InvalidArgument, "row {} is not possible", index);
    dim_t sizes[kMaxDim];
    sizes[0] = static_cast<dim_t>(index + 1);
    for (size_t d = 1; d < dim; ++d) sizes[d] = from.sizes()[d - 1];
    if (!ctx.resize(to, {sizes, dim})) return;
  } else if (index >= to.sizes()[0]) {
    return ctx.fail(Status::InvalidArgument, "row {} of a tensor with {}", index, to.sizes()[0]);
  }
  const size_t bytes = from.nbytes();
  if (bytes)
    memmove(to.mutable_data_ptr<uint8_t>() + static_cast<size_t>(index) * bytes, from.const_data_ptr(),
            bytes);
}

// Names, signatures and functions, in the same order. Text in arrays, and functions
// behind a switch, so that none of it is a pointer which a loader must relocate.
#define PENLIGHT_PRIMS(PRIM)                                              \
  PRIM("executorch_prim::add.Scalar", binary<Op::Add>, "nnN")             \
  PRIM("executorch_prim::sub.Scalar", binary<Op::Sub>, "nnN")             \
  PRIM("executorch_prim::mul.Scalar", binary<Op::Mul>, "nnN")             \
  PRIM("executorch_prim::floordiv.Scalar", divide_rounding_down, "nnN")   \
  PRIM("executorch_prim::mod.Scalar", rest_of_division, "nnN")            \
  PRIM("executorch_prim::truediv.Scalar", divide_exactly, "nnN")          \
  PRIM("executorch_prim::eq.Scalar", binary<Op::Eq>, "nnN")               \
  PRIM("executorch_prim::lt.Scalar", binary<Op::Lt>, "nnN")               \
  PRIM("executorch_prim::le.Scalar", binary<Op::Le>, "nnN")               \
  PRIM("executorch_prim::gt.Scalar", binary<Op::Gt>, "nnN")               \
  PRIM("executorch_prim::ge.Scalar", binary<Op::Ge>, "nnN")               \
  PRIM("executorch_prim::sym_max.Scalar", binary<Op::Max>, "nnN")         \
  PRIM("executorch_prim::sym_min.Scalar", binary<Op::Min>, "nnN")         \
  PRIM("executorch_prim::neg.Scalar", negative, "nN")                     \
  PRIM("executorch_prim::sym_not.Scalar", logical_not, "nN")              \
  PRIM("executorch_prim::sym_ite.Scalar", choose, "nnnN")                 \
  PRIM("executorch_prim::sym_float.Scalar", copy, "nN")                   \
  PRIM("executorch_prim::sym_int.Scalar", copy, "nN")                     \
  PRIM("executorch_prim::ceil.Scalar", rounded<Rounding::Up>, "nN")       \
  PRIM("executorch_prim::round.Scalar", rounded<Rounding::Nearest>, "nN") \
  PRIM("executorch_prim::trunc.Scalar", rounded<Rounding::Down>, "nN")    \
  PRIM("executorch_prim::et_view.default", view, "TJO")                   \
  PRIM("executorch_prim::et_copy_index.tensor", copy_row, "OTI")          \
  PRIM("aten::sym_size.int", size_of, "TIN")                              \
  PRIM("aten::sym_numel", numel_of, "TN")                                 \
  PRIM("aten::_local_scalar_dense", element_of, "TN")

// A selective build gives the rows that its programs use.
#ifdef PENLIGHT_PRIMS_FILE
#undef PENLIGHT_PRIMS
#include PENLIGHT_PRIMS_FILE
#endif

// Name and signature, each with its zero, one after the other.
constexpr char kTexts[] = ""
#define PENLIGHT_TEXTS(name, function, letters) name "\0" letters "\0"
    PENLIGHT_PRIMS(PENLIGHT_TEXTS);
#undef PENLIGHT_TEXTS

BoxedKernel function_of(int index) {
  enum {
    kBefore = __COUNTER__,
  };
  switch (index) {
#define PENLIGHT_CASE(name, function, letters) \
  case __COUNTER__ - kBefore - 1:              \
    return function;
    PENLIGHT_PRIMS(PENLIGHT_CASE)
#undef PENLIGHT_CASE
    default:
      return nullptr;
  }
}

}  // namespace

bool find_prim(const char* name, Kernel& kernel) {
  int index = 0;
  for (const char* text = kTexts; *text; ++index) {
    const char* letters = text + strlen(text) + 1;
    if (strcmp(text, name) == 0) {
      kernel = {text, function_of(index), letters, nullptr, "runtime"};
      return true;
    }
    text = letters + strlen(letters) + 1;
  }
  return false;
}

}  // namespace penlight
