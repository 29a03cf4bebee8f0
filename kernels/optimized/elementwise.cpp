// Elementwise operators of float32: chains of them, as the compiler fuses them, and the single
// ones of ATen, which are chains of one.
//
//   program    five numbers a step: operation, register it writes, and what it reads. Sources
//              count the registers first, then the inputs, then the constants.
//
// A program comes from a file: nothing of it is used before all of it was looked at.
#include <string.h>

#include "isa.h"
#include "packed.h"
#include "parallel.h"
#include "parameters.h"
#include "vector/elements.h"

namespace penlight::optimized {

namespace {

constexpr int kRegisters = kElementRegisters, kOperands = kElementOperands;
constexpr size_t kStepWords = 5;
constexpr dim_t kTile = 1024;  // elements; a few of these fit the nearest cache

struct Chain {
  ElementStep steps[kElementSteps];
  int step_count = 0, registers = 0;
  double cost = 0;  // operations an element
  Tensor tensors[kOperands];
  float numbers[kOperands];
  int operand_count = 0;

  void add(const Tensor& tensor) { tensors[operand_count++] = tensor; }
  void add(double number) { numbers[operand_count++] = static_cast<float>(number); }
  void step(ElementOp op, int to, int a, int b = 0, int c = 0) {
    steps[step_count++] = {op, to, {a, b, c}};
    if (to >= registers) registers = to + 1;
    cost += op >= ElementOp::Exp ? 24 : 3;
  }
};

// --- how the work is laid out --------------------------------------------------------------------

bool is_operand(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Float || tensor.scalar_type() == ScalarType::Bool;
}

// The shape that all tensors broadcast to. False where they do not.
bool broadcast_shape(const Chain& chain, dim_t* sizes, int& dim) {
  dim = 0;
  for (int k = 0; k < chain.operand_count; ++k) {
    if (chain.tensors[k].defined() && chain.tensors[k].dim() > dim)
      dim = static_cast<int>(chain.tensors[k].dim());
  }
  for (int d = 0; d < dim; ++d) sizes[d] = 1;
  for (int k = 0; k < chain.operand_count; ++k) {
    const Tensor& tensor = chain.tensors[k];
    if (!tensor.defined()) continue;
    for (dim_t d = 0; d < tensor.dim(); ++d) {
      dim_t& size = sizes[dim - tensor.dim() + d];
      const dim_t own = tensor.size(d);
      if (size != own && own != 1) {
        if (size != 1) return false;
        size = own;
      }
    }
  }
  return true;
}

// The loops over `out`, outermost first, without those of size 1. False if it has gaps.
bool order_loops(const Tensor& out, int* dims, int& count) {
  count = 0;
  for (int d = 0; d < out.dim(); ++d) {
    if (out.size(d) == 1) continue;
    int at = count++;
    for (; at > 0 && out.stride(dims[at - 1]) < out.stride(d); --at) dims[at] = dims[at - 1];
    dims[at] = d;
  }
  dim_t expected = 1;
  for (int l = count; l-- > 0;) {
    if (out.stride(dims[l]) != expected) return false;
    expected *= out.size(dims[l]);
  }
  return true;
}

// Fills sizes, strides and kinds; loops that all operands walk alike become one.
void merge_loops(const Chain& chain, const Tensor& out, const int* dims, int count, Elementwise& work,
                 ElementOperand* operands) {
  dim_t strides[kOperands][kMaxDim];
  for (int k = 0; k < chain.operand_count; ++k) {
    const Tensor& tensor = chain.tensors[k];
    for (int l = 0; l < count; ++l) {
      const dim_t d = tensor.defined() ? dims[l] - (out.dim() - tensor.dim()) : -1;
      strides[k][l] = d < 0 || tensor.size(d) == 1 ? 0 : tensor.stride(d);
    }
  }
  work.loops = 0;
  for (int l = 0; l < count; ++l) {
    const dim_t size = out.size(dims[l]);
    bool joins = work.loops > 0;
    for (int k = 0; joins && k < chain.operand_count; ++k) {
      joins = operands[k].strides[work.loops - 1] == strides[k][l] * size;
    }
    const int loop = joins ? work.loops - 1 : work.loops++;
    work.sizes[loop] = joins ? work.sizes[loop] * size : size;
    for (int k = 0; k < chain.operand_count; ++k) operands[k].strides[loop] = strides[k][l];
  }
  if (work.loops == 0) {
    work.loops = 1;
    work.sizes[0] = 1;
    for (int k = 0; k < chain.operand_count; ++k) operands[k].strides[0] = 0;
  }
}

// Of one operand, more loops are as one than of all of them together.
void find_run(const Elementwise& work, ElementOperand& operand) {
  const int last = work.loops - 1;
  operand.outer = last;
  operand.run = work.sizes[last];
  while (operand.outer > 0 && operand.strides[operand.outer - 1] == operand.strides[last] * operand.run) {
    operand.run *= work.sizes[--operand.outer];
  }
}

ElementRead reading_of(const Elementwise& work, const ElementOperand& operand) {
  bool dense = !operand.is_mask, number = true, row = true;
  dim_t expected = 1;
  for (int l = work.loops; l-- > 0;) {
    dense &= operand.strides[l] == expected;
    number &= operand.strides[l] == 0;
    row &= operand.strides[l] == 0 || l == work.loops - 1;
    expected *= work.sizes[l];
  }
  // A single element is a number before it is anything else: it is read before the output is written.
  return number  ? ElementRead::Number
         : dense ? ElementRead::Dense
         : row   ? ElementRead::Row
                 : ElementRead::Other;
}

// Cuts the work into items that fit a tile.
dim_t cut(Elementwise& work) {
  const dim_t width = work.sizes[work.loops - 1], rows = work.count / width;
  work.tile = work.tiles <= 4 ? kTile : work.tiles <= 8 ? kTile / 2 : kTile / 4;
  if (work.count < work.tile) work.tile = round_to_panel(work.count);
  if (2 * width <= work.tile && rows > 1) {
    const dim_t some = work.tile / width;
    work.item = some * width;
    work.row_items = 0;
    return (rows + some - 1) / some;
  }
  work.row_items = (width + work.tile - 1) / work.tile;
  work.item = round_to_panel((width + work.row_items - 1) / work.row_items);
  work.row_items = (width + work.item - 1) / work.item;
  return rows * work.row_items;
}

void compute(KernelContext& ctx, const Elementwise& whole, dim_t items, double cost) {
  const size_t each = elementwise_scratch(whole.tiles, whole.operand_count, whole.tile) * sizeof(float);
  const dim_t parts = parts_of(ctx, cost * static_cast<double>(whole.count), items);
  alignas(64) char small[2048];
  PartMemory memory = {small, sizeof small};
  if ((parts > 1 || each > sizeof small) && !allocate_parts(ctx, parts, each, memory)) return;
  const auto part = [&](size_t index) {
    Elementwise mine = whole;
    const Range range = range_of(index, parts, items);
    mine.first = range.first;
    mine.last = range.last;
    mine.scratch = static_cast<float*>(memory.of(index));
    routines().elementwise(mine);
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

// False, with nothing written, if `out` has gaps.
bool run(KernelContext& ctx, const Chain& chain, Tensor& out) {
  int dims[kMaxDim], count = 0;
  if (out.numel() == 0) return true;
  if (!order_loops(out, dims, count)) return false;
  Elementwise work{};
  ElementOperand operands[kOperands];
  double dense = 1;
  for (int k = 0; k < chain.operand_count; ++k) {
    const Tensor& tensor = chain.tensors[k];
    operands[k].is_mask = tensor.defined() && tensor.scalar_type() == ScalarType::Bool;
    operands[k].data = tensor.defined() ? tensor.const_data_ptr() : &chain.numbers[k];
  }
  merge_loops(chain, out, dims, count, work, operands);
  const bool is_condition = out.scalar_type() == ScalarType::Bool;
  work.tiles = chain.step_count > 1 || is_condition ? chain.registers : 0;
  for (int k = 0; k < chain.operand_count; ++k) {
    find_run(work, operands[k]);
    operands[k].read = reading_of(work, operands[k]);
    const bool is_copied = operands[k].read == ElementRead::Row || operands[k].read == ElementRead::Other;
    operands[k].tile = is_copied ? work.tiles++ : 0;
    if (operands[k].read != ElementRead::Number) dense += 1;
  }
  work.steps = chain.steps;
  work.step_count = chain.step_count;
  work.operands = operands;
  work.operand_count = chain.operand_count;
  work.count = out.numel();
  if (is_condition) {
    work.conditions = static_cast<uint8_t*>(out.mutable_data_ptr());
  } else {
    work.output = out.mutable_data_ptr<float>();
  }
  const dim_t items = cut(work);
  compute(ctx, work, items, chain.cost + 3 * dense);
  return true;
}

// --- programs of a file --------------------------------------------------------------------------

bool read_step(const int64_t* words, unsigned written, Chain& chain) {
  const int64_t op = words[0], to = words[1];
  if (op < 1 || op >= kElementOps || to < 0 || to >= kRegisters) return false;
  if (!is_compiled(static_cast<ElementOp>(op))) return false;
  for (int a = 0; a < arity_of(static_cast<ElementOp>(op)); ++a) {
    const int64_t from = words[2 + a];
    if (from < 0 || from >= kRegisters + chain.operand_count) return false;
    if (from < kRegisters && !(written >> from & 1)) return false;
  }
  chain.step(static_cast<ElementOp>(op), static_cast<int>(to), static_cast<int>(words[2]),
             static_cast<int>(words[3]), static_cast<int>(words[4]));
  return true;
}

bool read_program(KernelContext& ctx, ArrayRef<int64_t> program, Chain& chain) {
  const size_t steps = program.size() / kStepWords;
  if (steps == 0 || steps * kStepWords != program.size() || steps > static_cast<size_t>(kElementSteps)) {
    ctx.fail(Status::InvalidArgument, "elementwise: a program of {} numbers; it is 1 to {} steps of 5",
             program.size(), kElementSteps);
    return false;
  }
  unsigned written = 0;
  for (size_t s = 0; s < steps; ++s) {
    const int64_t* words = program.data() + s * kStepWords;
    if (!read_step(words, written, chain)) {
      ctx.fail(Status::InvalidArgument,
               "elementwise: step {} of the program (operation {}) is unknown, or reads what is not there", s,
               words[0]);
      return false;
    }
    written |= 1u << words[1];
  }
  return true;
}

// --- single operators ----------------------------------------------------------------------------

bool lies_as(const TensorImpl& x, const TensorImpl& other) {
  dim_t different = x.dim ^ other.dim;
  if (different != 0) return false;
  for (int d = 0; d < x.dim; ++d) {
    different |= (x.sizes[d] ^ other.sizes[d]) | (x.strides[d] ^ other.strides[d]);
  }
  return different == 0;
}

bool has_gaps(const TensorImpl& x) {
  dim_t span = 1;
  for (int d = 0; d < x.dim; ++d) span += (x.sizes[d] - 1) * x.strides[d];
  return span != x.numel;
}

// One step over elements that all lie in a row; `other` is one number, or as many.
void run_row(ElementOp op, const float* from, const float* other, bool is_number, float* result,
             dim_t count) {
  alignas(64) float numbers[2 * kPanel];
  const ElementStep step = {op, 0, {kRegisters, kRegisters + 1, 0}};
  ElementOperand operands[2];
  for (ElementOperand& operand : operands) {
    operand.read = ElementRead::Dense;
    operand.strides[0] = 1;
    operand.is_mask = false;
    operand.tile = 0;
  }
  operands[0].data = from;
  operands[1].data = other;
  if (is_number) operands[1].read = ElementRead::Number;
  Elementwise work;
  work.steps = &step;
  work.step_count = 1;
  work.operands = operands;
  work.operand_count = 2;
  work.loops = 1;
  work.sizes[0] = work.count = work.item = work.tile = count;
  work.output = result;
  work.conditions = nullptr;
  work.row_items = work.last = 1;
  work.first = 0;
  work.tiles = 0;
  work.scratch = numbers;
  routines().elementwise(work);
}

// Two tensors of one layout, the second perhaps one number, of not so many elements that
// threads would help.
bool run_row_of(ElementOp op, const Tensor& a, const Tensor& b, Tensor& out) {
  constexpr dim_t kMost = 16384;
  const TensorImpl &to = *out.unsafeGetTensorImpl(), &x = *a.unsafeGetTensorImpl(),
                   &y = *b.unsafeGetTensorImpl();
  const bool is_number = y.dim == 0;
  if (to.numel > kMost || to.numel == 0 || !lies_as(x, to) || has_gaps(to) || !is_compiled(op)) return false;
  if (!is_number && !lies_as(y, to)) return false;
  run_row(op, static_cast<const float*>(x.data), static_cast<const float*>(y.data), is_number,
          static_cast<float*>(to.data), to.numel);
  return true;
}

// Three tensors of one layout, of so few elements that anything but doing it would take longer.
template <class F>
inline bool run_few(const Tensor& a, const Tensor& b, Tensor& out, F&& f) {
  constexpr dim_t kFew = 32, kAtOnce = 4;
  const TensorImpl &to = *out.unsafeGetTensorImpl(), &x = *a.unsafeGetTensorImpl(),
                   &y = *b.unsafeGetTensorImpl();
  const dim_t count = to.numel;
  if (count > kFew || x.dim != to.dim || y.dim != to.dim) return false;
  // One loop after the other: all at once takes more registers than there are.
  dim_t different = 0, span = 1;
  for (int d = 0; d < to.dim; ++d) {
    different |= (x.sizes[d] ^ to.sizes[d]) | (x.strides[d] ^ to.strides[d]);
    span += (to.sizes[d] - 1) * to.strides[d];
  }
  for (int d = 0; d < to.dim; ++d) {
    different |= (y.sizes[d] ^ to.sizes[d]) | (y.strides[d] ^ to.strides[d]);
  }
  if (different != 0 || span != count) return false;
  const float *from = static_cast<const float*>(x.data), *other = static_cast<const float*>(y.data);
  float* result = static_cast<float*>(to.data);
  dim_t i = 0;
  for (; i + kAtOnce <= count; i += kAtOnce) {
    float some[kAtOnce];
    for (int j = 0; j < kAtOnce; ++j) some[j] = f(from[i + j], other[i + j]);
    memcpy(result + i, some, sizeof some);
  }
  for (; i < count; ++i) result[i] = f(from[i], other[i]);
  return true;
}

// One step, or two, over operands that are there. What is neither float32 nor without gaps is
// left to the portable kernels.
Tensor& run_alone(KernelContext& ctx, Chain& chain, Tensor& out) {
  dim_t sizes[kMaxDim];
  int dim = 0;
  bool takes = is_float(out) && broadcast_shape(chain, sizes, dim);
  for (int s = 0; s < chain.step_count; ++s) takes &= is_compiled(chain.steps[s].op);
  if (!takes) {
    ctx.decline();
    return out;
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim)))) return out;
  if (!run(ctx, chain, out)) ctx.decline();
  return out;
}

constexpr int kFirst = kRegisters, kSecond = kRegisters + 1, kThird = kRegisters + 2;

Tensor& one(KernelContext& ctx, ElementOp op, const Tensor& x, Tensor& out) {
  if (!is_float(x)) return decline(ctx, out);
  Chain chain;
  chain.add(x);
  chain.step(op, 0, kFirst);
  return run_alone(ctx, chain, out);
}

// `a` and `b` are tensors or numbers.
template <class A, class B>
Tensor& two(KernelContext& ctx, ElementOp op, const A& a, const B& b, Tensor& out) {
  Chain chain;
  chain.add(a);
  chain.add(b);
  chain.step(op, 0, kFirst, kSecond);
  return run_alone(ctx, chain, out);
}

__attribute__((noinline)) Tensor& two_tensors(KernelContext& ctx, ElementOp op, const Tensor& a,
                                              const Tensor& b, Tensor& out) {
  return run_row_of(op, a, b, out) ? out : two(ctx, op, a, b, out);
}

template <class F>
inline Tensor& two_tensors(KernelContext& ctx, ElementOp op, const Tensor& a, const Tensor& b, Tensor& out,
                           F&& f) {
  if (!is_float(a) || !is_float(b) || !is_float(out)) return decline(ctx, out);
  return run_few(a, b, out, f) ? out : two_tensors(ctx, op, a, b, out);
}

bool is_one(const Scalar& number) { return number.to<double>() == 1.0; }

// a + alpha * b
template <class B>
Tensor& scaled(KernelContext& ctx, ElementOp op, const Tensor& a, const B& b, const Scalar& alpha,
               Tensor& out) {
  Chain chain;
  chain.add(a);
  chain.add(b);
  chain.add(alpha.to<double>());
  chain.step(ElementOp::Mul, 0, kSecond, kThird);
  chain.step(op, 0, kFirst, 0);
  return run_alone(ctx, chain, out);
}

Tensor& clamp(KernelContext& ctx, const Tensor& x, double low, double high, Tensor& out) {
  if (!is_float(x) || low != low || high != high) return decline(ctx, out);
  Chain chain;
  chain.add(x);
  chain.add(low);
  chain.add(high);
  chain.step(ElementOp::Clamp, 0, kFirst, kSecond, kThird);
  return run_alone(ctx, chain, out);
}

}  // namespace

Tensor& add_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar& alpha,
                Tensor& out) {
  if (is_one(alpha)) {
    return two_tensors(ctx, ElementOp::Add, self, other, out, [](float a, float b) { return a + b; });
  }
  return is_float(self) && is_float(other) ? scaled(ctx, ElementOp::Add, self, other, alpha, out)
                                           : decline(ctx, out);
}

Tensor& sub_out(KernelContext& ctx, const Tensor& self, const Tensor& other, const Scalar& alpha,
                Tensor& out) {
  if (is_one(alpha)) {
    return two_tensors(ctx, ElementOp::Sub, self, other, out, [](float a, float b) { return a - b; });
  }
  return is_float(self) && is_float(other) ? scaled(ctx, ElementOp::Sub, self, other, alpha, out)
                                           : decline(ctx, out);
}

Tensor& mul_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return two_tensors(ctx, ElementOp::Mul, self, other, out, [](float a, float b) { return a * b; });
}

Tensor& div_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return two_tensors(ctx, ElementOp::Div, self, other, out, [](float a, float b) { return a / b; });
}

Tensor& maximum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return is_float(self) && is_float(other) ? two(ctx, ElementOp::Maximum, self, other, out)
                                           : decline(ctx, out);
}

Tensor& minimum_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return is_float(self) && is_float(other) ? two(ctx, ElementOp::Minimum, self, other, out)
                                           : decline(ctx, out);
}

Tensor& add_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, const Scalar& alpha,
                       Tensor& out) {
  if (!is_float(self)) return decline(ctx, out);
  return is_one(alpha) ? two(ctx, ElementOp::Add, self, other.to<double>(), out)
                       : scaled(ctx, ElementOp::Add, self, other.to<double>(), alpha, out);
}

Tensor& sub_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, const Scalar& alpha,
                       Tensor& out) {
  if (!is_float(self)) return decline(ctx, out);
  return is_one(alpha) ? two(ctx, ElementOp::Sub, self, other.to<double>(), out)
                       : scaled(ctx, ElementOp::Sub, self, other.to<double>(), alpha, out);
}

Tensor& rsub_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, const Scalar& alpha,
                        Tensor& out) {
  if (!is_float(self) || !is_one(alpha)) return decline(ctx, out);
  return two(ctx, ElementOp::Sub, other.to<double>(), self, out);
}

Tensor& mul_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return is_float(self) ? two(ctx, ElementOp::Mul, self, other.to<double>(), out) : decline(ctx, out);
}

Tensor& div_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& other, Tensor& out) {
  return is_float(self) ? two(ctx, ElementOp::Div, self, other.to<double>(), out) : decline(ctx, out);
}

Tensor& pow_tensor_scalar_out(KernelContext& ctx, const Tensor& self, const Scalar& exponent, Tensor& out) {
  const double power = exponent.to<double>();
  const ElementOp op = power == 2 ? ElementOp::Square : power == 0.5 ? ElementOp::Sqrt : ElementOp::Rsqrt;
  return power == 2 || power == 0.5 || power == -0.5 ? one(ctx, op, self, out) : decline(ctx, out);
}

Tensor& where_self_out(KernelContext& ctx, const Tensor& condition, const Tensor& self, const Tensor& other,
                       Tensor& out) {
  if (condition.scalar_type() != ScalarType::Bool || !is_float(self) || !is_float(other)) {
    return decline(ctx, out);
  }
  Chain chain;
  chain.add(condition);
  chain.add(self);
  chain.add(other);
  chain.step(ElementOp::Where, 0, kFirst, kSecond, kThird);
  return run_alone(ctx, chain, out);
}

Tensor& clamp_out(KernelContext& ctx, const Tensor& self, const Optional<Scalar>& min,
                  const Optional<Scalar>& max, Tensor& out) {
  const double infinity = __builtin_inf();
  return clamp(ctx, self, min.has_value() ? min.value().to<double>() : -infinity,
               max.has_value() ? max.value().to<double>() : infinity, out);
}

Tensor& hardtanh_out(KernelContext& ctx, const Tensor& self, const Scalar& min_val, const Scalar& max_val,
                     Tensor& out) {
  return clamp(ctx, self, min_val.to<double>(), max_val.to<double>(), out);
}

Tensor& leaky_relu_out(KernelContext& ctx, const Tensor& self, const Scalar& negative_slope, Tensor& out) {
  return is_float(self) ? two(ctx, ElementOp::LeakyRelu, self, negative_slope.to<double>(), out)
                        : decline(ctx, out);
}

Tensor& prelu_kernel_out(KernelContext& ctx, const Tensor& self, const Tensor& weight, Tensor& out) {
  return is_float(self) && is_float(weight) ? two(ctx, ElementOp::LeakyRelu, self, weight, out)
                                            : decline(ctx, out);
}

Tensor& gelu_out(KernelContext& ctx, const Tensor& self, StringView approximate, Tensor& out) {
  const bool tanh = approximate.size() == 4 && memcmp(approximate.data(), "tanh", 4) == 0;
  const bool none = approximate.size() == 4 && memcmp(approximate.data(), "none", 4) == 0;
  // The portable kernel says what there is.
  return tanh || none ? one(ctx, tanh ? ElementOp::GeluTanh : ElementOp::Gelu, self, out) : decline(ctx, out);
}

Tensor& neg_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Neg, self, out);
}

Tensor& abs_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Abs, self, out);
}

Tensor& relu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Relu, self, out);
}

Tensor& sqrt_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Sqrt, self, out);
}

Tensor& rsqrt_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Rsqrt, self, out);
}

Tensor& reciprocal_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Reciprocal, self, out);
}

Tensor& exp_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Exp, self, out);
}

Tensor& expm1_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Expm1, self, out);
}

Tensor& log1p_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Log1p, self, out);
}

Tensor& log_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Log, self, out);
}

Tensor& sin_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Sin, self, out);
}

Tensor& cos_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Cos, self, out);
}

Tensor& atan_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Atan, self, out);
}

Tensor& atan2_out(KernelContext& ctx, const Tensor& self, const Tensor& other, Tensor& out) {
  return is_float(self) && is_float(other) ? two(ctx, ElementOp::Atan2, self, other, out) : decline(ctx, out);
}

Tensor& asin_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Asin, self, out);
}

Tensor& acos_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Acos, self, out);
}

Tensor& erf_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Erf, self, out);
}

Tensor& sigmoid_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Sigmoid, self, out);
}

Tensor& tanh_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Tanh, self, out);
}

Tensor& silu_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::Silu, self, out);
}

Tensor& hardsigmoid_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::HardSigmoid, self, out);
}

Tensor& hardswish_out(KernelContext& ctx, const Tensor& self, Tensor& out) {
  return one(ctx, ElementOp::HardSwish, self, out);
}

Tensor& elementwise_out(KernelContext& ctx, TensorList inputs, ArrayRef<int64_t> program,
                        ArrayRef<double> constants, Tensor& out) {
  Chain chain;
  if (inputs.size() > static_cast<size_t>(kOperands) ||
      constants.size() > static_cast<size_t>(kOperands) - inputs.size()) {
    ctx.fail(Status::InvalidArgument, "elementwise: {} inputs and {} constants; there may be {}",
             inputs.size(), constants.size(), kOperands);
    return out;
  }
  for (const Tensor& input : inputs) {
    if (!is_operand(input)) {
      ctx.fail(Status::InvalidArgument, "elementwise: an input is neither float32 nor bool");
      return out;
    }
    chain.add(input);
  }
  for (double constant : constants) chain.add(constant);
  if (!read_program(ctx, program, chain)) return out;
  dim_t sizes[kMaxDim];
  int dim = 0;
  if (!broadcast_shape(chain, sizes, dim)) {
    ctx.fail(Status::InvalidArgument, "elementwise: the inputs do not broadcast");
    return out;
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim)))) return out;
  const bool is_condition = gives_condition(chain.steps[chain.step_count - 1].op);
  if (out.scalar_type() != (is_condition ? ScalarType::Bool : ScalarType::Float) || !run(ctx, chain, out)) {
    ctx.fail(Status::InvalidArgument,
             "elementwise: the result is float32, or bool of a condition, without gaps");
  }
  return out;
}

}  // namespace penlight::optimized
