// How the elements of a chain are walked, and cut into tiles and threads.
#include "chain.h"

#include "isa.h"
#include "packed.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

constexpr int kOperands = kElementOperands;
constexpr dim_t kTile = 1024;                  // elements; several of these fit the nearest cache
constexpr dim_t kLongTile = 8192, kItems = 8;  // of a step alone, and how many it leaves threads to share
constexpr dim_t kWideRow = 384;  // of which each is begun sooner than a number of its own is spread over it

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

dim_t within(dim_t number, dim_t least, dim_t most) {
  return number < least ? least : number > most ? most : number;
}

// Is there an operand of one number for each row?
bool has_columns(const Elementwise& work) {
  for (int k = 0; k < work.operand_count; ++k) {
    const ElementOperand& operand = work.operands[k];
    if (operand.read == ElementRead::Other && operand.strides[work.loops - 1] == 0) return true;
  }
  return false;
}

// Cuts the work into items that fit a tile.
dim_t cut(Elementwise& work) {
  const dim_t width = work.sizes[work.loops - 1], rows = work.count / width;
  work.tile = work.tiles <= 16 ? kTile : kTile / 2;
  // Nothing comes back to a step that is alone: what it takes to begin is better shared by more elements.
  if (work.tiles == 0) work.tile = round_to_panel(within(width / kItems, work.tile, kLongTile));
  if (work.count < work.tile) work.tile = round_to_panel(work.count);
  const bool is_wide = width > work.tile / 2 || (width >= kWideRow && has_columns(work));
  if (!is_wide && rows > 1) {
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

}  // namespace

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

bool run_chain(KernelContext& ctx, const Chain& chain, Tensor& out) {
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

}  // namespace penlight::optimized
