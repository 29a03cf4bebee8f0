// Steps over numbers in blocks that the nearest cache holds. An operand that does not lie as the output does
// is gathered into such a block first, and one of another type converted there.
#include "numbers.h"

#include <string.h>

#include "isa.h"
#include "kernels/common/move.h"
#include "kernels/common/strided.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

bool is_short_float(ScalarType type) { return type == ScalarType::Half || type == ScalarType::BFloat16; }

bool is_known(ScalarType type) {
  return type <= ScalarType::Double || type == ScalarType::Bool || type == ScalarType::BFloat16;
}

static_assert(static_cast<int>(ScalarType::Long) == static_cast<int>(NumberType::Int64) &&
              static_cast<int>(ScalarType::Double) == static_cast<int>(NumberType::Float64));

struct Buffers {
  alignas(64) char pairs[NumberChain::kOperands][2][kBlockBytes];
  char room[kNumberBytes];  // for what copy_run() writes beyond
  alignas(64) char results[NumberChain::kSteps][kBlockBytes];
  alignas(64) char numbers[NumberChain::kOperands][kNumberBytes];
};

constexpr int64_t kZeros[kNumberBytes / 8] = {};

void run_step(NumberOp op, ScalarType type, const void* const* from, const bool* is_number, void* to,
              dim_t count) {
  NumberStep step = {op, number_type(type), {}, {}, to, count};
  for (int k = 0; k < 2; ++k) {
    step.from[k] = from[k];
    step.is_number[k] = is_number[k];
  }
  routines().numbers(step);
}

}  // namespace

const void* convert_block(ScalarType from_type, const void* from, ScalarType to, dim_t count,
                          char (*buffers)[kBlockBytes], void* last) {
  int side = from == buffers[0] ? 1 : 0;
  const auto target = [&](bool ends) {
    void* const place = ends && last ? last : buffers[side];
    side = 1 - side;
    return place;
  };
  if (is_short_float(from_type)) {
    const Format format = from_type == ScalarType::Half ? Format::Float16 : Format::BFloat16;
    void* const place = target(to == ScalarType::Float);
    routines().widen({static_cast<const uint16_t*>(from), static_cast<float*>(place), count, format});
    from_type = ScalarType::Float;
    from = place;
  }
  // What a caller gives as bool may hold any byte.
  if (to == ScalarType::Bool || from_type == ScalarType::Bool) {
    void* const place = target(element_size(to) == 1 && !is_floating(to));
    const void* const operands[2] = {from, kZeros};
    const bool numbers[2] = {false, true};
    run_step(NumberOp::NotEqual, from_type, operands, numbers, place, count);
    from_type = ScalarType::Byte;
    from = place;
  }
  const bool narrows = is_short_float(to);
  NumberType type = number_type(from_type);
  const NumberType wanted = narrows ? NumberType::Float32 : number_type(to);
  const bool both_bytes = type <= NumberType::Int8 && wanted <= NumberType::Int8;
  while (type != wanted && !both_bytes) {
    const NumberType next = next_type(type, wanted);
    void* const place = target(next == wanted && !narrows);
    routines().convert_numbers({type, next, from, place, count});
    from = place;
    type = next;
  }
  if (narrows) {
    const Format format = to == ScalarType::Half ? Format::Float16 : Format::BFloat16;
    void* const place = target(true);
    routines().narrow({static_cast<const float*>(from), static_cast<uint16_t*>(place), count, format});
    from = place;
  }
  return from;
}

namespace {

// May write up to kNumberBytes beyond.
template <class Item>
void copy_run(const char* from, dim_t stride, dim_t count, char* to) {
  constexpr dim_t size = sizeof(Item);
  if (stride == 1) {
    memcpy(to, from, static_cast<size_t>(count * size));
  } else if (stride == 0) {
    Item copies[kNumberBytes / size];
    for (Item& copy : copies) copy = detail::load_item<Item>(from);
    for (dim_t done = 0; done < count * size; done += kNumberBytes) memcpy(to + done, copies, sizeof copies);
  } else {
    detail::move_row<Item>(count, from, stride * size, to, size);
  }
}

// How operands lie about the output, whose elements are walked in their order in memory.
class Layout {
 public:
  Layout(const NumberChain& chain, const Tensor& out) : loop_(out.sizes()) {
    loop_.add(out);
    for (int k = 0; k < chain.operand_count; ++k) loop_.add(chain.operands[k].tensor());
    loop_.simplify();
  }

  dim_t width() const { return loop_.inner_size(); }
  dim_t inner_stride(int operand) const { return loop_.inner_stride(operand + 1); }

  bool is_number(int operand) const {
    dim_t any = 0;
    for (int d = 0; d < loop_.dim(); ++d) any |= loop_.stride(operand + 1, d);
    return any == 0;
  }
  bool is_flat(int operand) const {
    dim_t different = 0;
    for (int d = 0; d < loop_.dim(); ++d) different |= loop_.stride(0, d) ^ loop_.stride(operand + 1, d);
    return different == 0;
  }

  // Elements from the operand's start to that of a row.
  dim_t offset(int operand, dim_t row) const {
    dim_t offset = 0;
    for (int d = loop_.dim() - 2; d >= 0 && row > 0; --d) {
      offset += row % loop_.size(d) * loop_.stride(operand + 1, d);
      row /= loop_.size(d);
    }
    return offset;
  }

  void gather(int operand, const char* data, size_t item, dim_t place, dim_t count, char* to) const {
    detail::with_item(item, [&](auto tag) {
      using Item = typename decltype(tag)::type;
      constexpr dim_t size = sizeof(Item);
      const dim_t stride = inner_stride(operand), rows = loop_.dim() > 1 ? loop_.size(loop_.dim() - 2) : 1;
      const dim_t step = loop_.dim() > 1 ? loop_.stride(operand + 1, loop_.dim() - 2) : 0;
      dim_t row = place / width(), column = place % width();
      while (count > 0) {
        const char* from = data + offset(operand, row) * size;
        for (dim_t left = rows - row % rows; left > 0 && count > 0; --left, ++row, from += step * size) {
          const dim_t rest = width() - column, some = count < rest ? count : rest;
          copy_run<Item>(from + column * stride * size, stride, some, to);
          to += some * size;
          count -= some;
          column = 0;
        }
      }
    });
  }

 private:
  StridedLoop loop_;
};

enum class Lies : uint8_t { Number, Flat, Elsewhere };

struct Work {
  const NumberChain& chain;
  const Layout& layout;
  Tensor& out;
  Lies lies[NumberChain::kOperands];
  const Buffers& numbers;
};

// An operand's elements from `place` on, before they are converted.
const void* read_block(const Work& work, int k, dim_t place, dim_t count, Buffers& buffers) {
  const TensorImpl& tensor = *work.chain.operands[k].tensor();
  const size_t item = element_size(tensor.dtype);
  const char* const data = static_cast<const char*>(tensor.data);
  const dim_t size = static_cast<dim_t>(item);
  if (work.lies[k] == Lies::Flat) return data + place * size;
  const dim_t width = work.layout.width(), column = place % width;
  if (work.layout.inner_stride(k) == 1 && column + count <= width) {
    return data + (work.layout.offset(k, place / width) + column) * size;
  }
  work.layout.gather(k, data, item, place, count, buffers.pairs[k][0]);
  return buffers.pairs[k][0];
}

void run_block(const Work& work, dim_t place, dim_t count, Buffers& buffers) {
  const NumberChain& chain = work.chain;
  char* const to =
      static_cast<char*>(work.out.mutable_data_ptr()) + place * static_cast<dim_t>(work.out.element_size());
  const ScalarType type = work.out.scalar_type();
  const void* values[NumberChain::kOperands + NumberChain::kSteps] = {};
  bool is_number[NumberChain::kOperands + NumberChain::kSteps] = {};
  for (int k = 0; k < chain.operand_count; ++k) {
    is_number[k] = work.lies[k] == Lies::Number;
    if (is_number[k]) {
      values[k] = work.numbers.numbers[k];
      continue;
    }
    const void* const from = read_block(work, k, place, count, buffers);
    const ScalarType own = chain.operands[k].tensor()->dtype;
    void* const last = chain.step_count == 0 ? to : nullptr;
    values[k] = own == chain.as[k] && own != ScalarType::Bool
                    ? from
                    : convert_block(own, from, chain.as[k], count, buffers.pairs[k], last);
  }
  if (chain.step_count == 0) {
    if (values[0] != to) memcpy(to, values[0], static_cast<size_t>(count) * work.out.element_size());
    return;
  }
  for (int s = 0; s < chain.step_count; ++s) {
    const NumberChain::Step& step = chain.steps[s];
    const void* from[2];
    bool numbers[2];
    for (int i = 0; i < 2; ++i) {
      from[i] = values[step.from[i]];
      numbers[i] = is_number[step.from[i]];
    }
    const ScalarType made = is_predicate(step.op) ? ScalarType::Bool : step.type;
    const bool is_last = s + 1 == chain.step_count;
    const bool fits = is_last && (made == type || (element_size(made) == 1 && element_size(type) == 1));
    void* const result = fits ? to : buffers.results[s];
    run_step(step.op, step.type, from, numbers, result, count);
    values[NumberChain::kOperands + s] = result;
    if (is_last && !fits) convert_block(made, result, type, count, buffers.pairs[0], to);
  }
}

// Copies of a number; false where it is not what integers are made from.
bool put_number(const Operand& operand, ScalarType as, char* to) {
  char element[8] = {};
  const size_t size = element_size(as);
  if (const TensorImpl* tensor = operand.tensor()) {
    alignas(64) char pairs[2][kBlockBytes];
    const void* value = tensor->data;
    if (tensor->dtype != as || as == ScalarType::Bool) {
      value = convert_block(tensor->dtype, value, as, 1, pairs, nullptr);
    }
    memcpy(element, value, size);
  } else {
    if (operand.scalar().isFloatingPoint() && !is_floating(as) && as != ScalarType::Bool) return false;
    store_scalar(as, element, operand.scalar());
  }
  for (dim_t i = 0; i < kNumberBytes; i += static_cast<dim_t>(size)) memcpy(to + i, element, size);
  return true;
}

bool takes(const NumberChain& chain, const Tensor& out) {
  bool known = is_known(out.scalar_type());
  for (int k = 0; k < chain.operand_count; ++k) {
    const TensorImpl* tensor = chain.operands[k].tensor();
    if (tensor) known &= is_known(tensor->dtype);
  }
  return known;
}

bool has_gaps(const Tensor& x) {
  dim_t span = 1;
  for (dim_t d = 0; d < x.dim(); ++d) span += (x.size(d) - 1) * x.stride(d);
  return span != x.numel();
}

// Elements of a block: as many as buffers hold, or more where none is used.
dim_t block_of(const NumberChain& chain, const Tensor& out, const Lies* lies) {
  constexpr dim_t kUnbuffered = 16384;
  size_t widest = out.element_size();
  bool buffered = chain.step_count != 1;
  for (int k = 0; k < chain.operand_count; ++k) {
    const TensorImpl* tensor = chain.operands[k].tensor();
    if (lies[k] == Lies::Number) continue;
    const size_t own = element_size(tensor->dtype), as = element_size(chain.as[k]);
    const bool converts = tensor->dtype != chain.as[k] || tensor->dtype == ScalarType::Bool;
    buffered |= converts || lies[k] != Lies::Flat;
    widest = widest > own ? widest : own;
    widest = widest > as ? widest : as;
    // Bytes come to 64 bits, and floats to bytes, by 32.
    if (converts && widest < 4 && own + as > 2) widest = 4;
  }
  for (int s = 0; s < chain.step_count; ++s) {
    const size_t size = element_size(chain.steps[s].type);
    buffered |= chain.steps[s].type != out.scalar_type() && !is_predicate(chain.steps[s].op);
    widest = widest > size ? widest : size;
  }
  return buffered ? kBlockBytes / static_cast<dim_t>(widest) : kUnbuffered;
}

}  // namespace

bool run_numbers(KernelContext& ctx, const NumberChain& chain, Tensor& out) {
  if (!routines().numbers || !takes(chain, out)) return false;
  Shape shape;
  for (int k = 0; k < chain.operand_count; ++k) {
    const TensorImpl* tensor = chain.operands[k].tensor();
    if (tensor && !broadcast_into(ctx, shape, {tensor->sizes, tensor->dim})) return true;
  }
  if (!ctx.resize(out, shape) || out.numel() == 0) return true;
  if (has_gaps(out)) return false;
  const Layout layout(chain, out);
  Buffers numbers;
  Work work = {chain, layout, out, {}, numbers};
  bool all_flat = true;
  for (int k = 0; k < chain.operand_count; ++k) {
    const bool is_number = layout.is_number(k) && (chain.step_count > 0 || out.numel() > 1);
    work.lies[k] = is_number ? Lies::Number : layout.is_flat(k) ? Lies::Flat : Lies::Elsewhere;
    all_flat &= work.lies[k] != Lies::Elsewhere;
    if (is_number && !put_number(chain.operands[k], chain.as[k], numbers.numbers[k])) return false;
  }
  if (chain.step_count == 0 && work.lies[0] == Lies::Number) return false;
  // Where rows are long, blocks are parts of them: what lies in one needs no copy.
  const dim_t block = block_of(chain, out, work.lies), count = out.numel(), width = layout.width();
  const bool by_rows = !all_flat && width >= block / 4;
  const dim_t length = by_rows ? width : count, blocks = (length + block - 1) / block;
  in_parts(ctx, count / length * blocks, static_cast<double>(block), [&](Range range) {
    Buffers buffers;
    for (dim_t i = range.first; i < range.last; ++i) {
      const dim_t first = i % blocks * block, left = length - first;
      run_block(work, i / blocks * length + first, left < block ? left : block, buffers);
    }
  });
  return true;
}

bool numbers_of_two(KernelContext& ctx, NumberOp op, const Operand& a, const Operand& b, Tensor& out) {
  const Operand both[] = {a, b};
  const ScalarType promoted = promote(both, 2);
  const bool truths = promoted == ScalarType::Bool;
  if (!is_integral(promoted) && !truths) return false;
  if (out.scalar_type() != (is_predicate(op) ? ScalarType::Bool : promoted)) return false;
  ScalarType type = promoted;
  if (op == NumberOp::ShiftLeft || op == NumberOp::ShiftRight) {
    if (truths) return false;
    if (element_size(type) < 4) {
      // Of 32 bits, what fewer have; but not where an operand would have lost some first.
      for (const Operand& operand : both) {
        const TensorImpl* tensor = operand.tensor();
        const int64_t number = tensor ? 0 : operand.scalar().to<int64_t>();
        if (tensor ? tensor->dtype != promoted : number < 0 || number > INT8_MAX) return false;
      }
      type = ScalarType::Int;
    }
  }
  if (truths) {
    if (op == NumberOp::Sub) return false;
    if (op == NumberOp::Add) op = NumberOp::Or;
    if (op == NumberOp::Mul) op = NumberOp::And;
  }
  NumberChain chain;
  const int first = chain.add(a, type), second = chain.add(b, type);
  chain.step(op, type, first, second);
  return run_numbers(ctx, chain, out);
}

bool numbers_within(KernelContext& ctx, const Operand& x, const Operand* low, const Operand* high,
                    Tensor& out) {
  Operand all[3] = {x};
  int count = 1;
  if (low) all[count++] = *low;
  if (high) all[count++] = *high;
  const ScalarType type = promote(all, count);
  if (count == 1 || !is_integral(type) || out.scalar_type() != type) return false;
  NumberChain chain;
  int result = chain.add(x, type);
  if (low) result = chain.step(NumberOp::Maximum, type, result, chain.add(*low, type));
  if (high) chain.step(NumberOp::Minimum, type, result, chain.add(*high, type));
  return run_numbers(ctx, chain, out);
}

bool absolute_numbers(KernelContext& ctx, const Tensor& x, Tensor& out) {
  const ScalarType type = x.scalar_type();
  NumberChain chain;
  const int number = chain.add(x, type), zero = chain.add(Scalar(int64_t{0}), type);
  if (type != ScalarType::Byte) {
    chain.step(NumberOp::Maximum, type, number, chain.step(NumberOp::Sub, type, zero, number));
  } else {
    chain.step(NumberOp::Add, type, number, zero);
  }
  return run_numbers(ctx, chain, out);
}

}  // namespace penlight::optimized
