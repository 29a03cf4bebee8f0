// Programs of elementwise operations, as the compiler fuses them: penlight::elementwise.
//
//   program    five numbers a step: operation, register it writes, and what it reads. Sources
//              count the registers first, then the inputs, the wholes, and the constants.
//   windows    five numbers each: which of the wholes it is a part of, and the arguments of
//              slice, or of select where the step is 0. Several of one are taken in order.
//
// A program comes from a file: nothing of it is used before all of it was looked at.
#include "chain.h"
#include "kernels/common/view.h"

namespace penlight::optimized {

namespace {

constexpr int kRegisters = kElementRegisters, kOperands = kElementOperands;
constexpr size_t kStepWords = 5, kWindowWords = 5;

bool are_operands(KernelContext& ctx, TensorList tensors) {
  for (const Tensor& tensor : tensors) {
    if (tensor.scalar_type() == ScalarType::Float || tensor.scalar_type() == ScalarType::Bool) continue;
    return ctx.refuse("elementwise: an input is neither float32 nor bool");
  }
  return true;
}

// Parts of tensors: the same memory with sizes and strides of their own.
struct Parts {
  TensorImpl tensors[kOperands];
  View views[kOperands];

  // `view`, whose strides are in bytes, as a tensor with the dtype of `whole`.
  Tensor tensor_of(int place, const Tensor& whole) {
    TensorImpl& part = tensors[place] = *whole.unsafeGetTensorImpl();
    View& view = views[place];
    for (int d = 0; d < view.dim; ++d) view.strides[d] /= static_cast<dim_t>(whole.element_size());
    part.data = view.data;
    part.sizes = view.sizes;
    part.strides = view.strides;
    part.dim_order = nullptr;
    part.dim = static_cast<uint8_t>(view.dim);
    part.numel = view.numel();
    return Tensor(&part);
  }
};

// The arguments of slice, or of select where the step is 0.
bool take_window(KernelContext& ctx, const int64_t* window, View& view) {
  return window[4] == 0 ? select_view(ctx, view, window[1], window[2])
                        : slice_view(ctx, view, window[1], window[2], window[3], window[4]);
}

bool read_wholes(KernelContext& ctx, TensorList wholes, ArrayRef<int64_t> windows, Parts& parts,
                 Chain& chain) {
  const size_t count = windows.size() / kWindowWords;
  bool fits = count * kWindowWords == windows.size();
  for (size_t w = 0; w < count; ++w) {
    const int64_t whole = windows[w * kWindowWords];
    fits &= whole >= 0 && whole < static_cast<int64_t>(wholes.size());
  }
  if (!fits)
    return ctx.refuse("elementwise: windows are five numbers each, the first one of {} wholes",
                      wholes.size());
  int place = 0;
  for (const Tensor& whole : wholes) {
    View& view = parts.views[place] = view_of(whole);
    for (const int64_t* window = windows.begin(); window != windows.end(); window += kWindowWords) {
      if (window[0] == place && !take_window(ctx, window, view)) return false;
    }
    chain.add(parts.tensor_of(place++, whole));
  }
  return true;
}

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
  if (steps == 0 || steps * kStepWords != program.size() || steps > static_cast<size_t>(kElementSteps))
    return ctx.refuse("elementwise: a program of {} numbers; it is 1 to {} steps of 5", program.size(),
                      kElementSteps);
  unsigned written = 0;
  for (size_t s = 0; s < steps; ++s) {
    const int64_t* words = program.data() + s * kStepWords;
    if (!read_step(words, written, chain))
      return ctx.refuse(
          "elementwise: step {} of the program (operation {}) is unknown, or reads what is not there", s,
          words[0]);
    written |= 1u << words[1];
  }
  return true;
}

}  // namespace

Tensor& elementwise_out(KernelContext& ctx, TensorList inputs, TensorList wholes, ArrayRef<int64_t> windows,
                        ArrayRef<int64_t> program, ArrayRef<double> constants, Tensor& out) {
  Chain chain;
  const size_t most = kOperands;
  if (inputs.size() > most || wholes.size() > most - inputs.size() ||
      constants.size() > most - inputs.size() - wholes.size())
    return ctx.fail(out, Status::InvalidArgument,
                    "elementwise: {} inputs, {} wholes and {} constants; there may be {}", inputs.size(),
                    wholes.size(), constants.size(), kOperands);
  if (!are_operands(ctx, inputs) || !are_operands(ctx, wholes)) return out;
  for (const Tensor& input : inputs) chain.add(input);
  Parts parts;
  if (!read_wholes(ctx, wholes, windows, parts, chain)) return out;
  for (double constant : constants) chain.add(constant);
  if (!read_program(ctx, program, chain)) return out;
  dim_t sizes[kMaxDim];
  int dim = 0;
  if (!broadcast_shape(chain, sizes, dim))
    return ctx.fail(out, Status::InvalidArgument, "elementwise: the inputs do not broadcast");
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(dim)))) return out;
  const bool is_condition = gives_condition(chain.steps[chain.step_count - 1].op);
  if (out.scalar_type() != (is_condition ? ScalarType::Bool : ScalarType::Float) ||
      !run_chain(ctx, chain, out)) {
    ctx.fail("elementwise: the result is float32, or bool of a condition, without gaps");
  }
  return out;
}

}  // namespace penlight::optimized
