// Sums and extremes of integers and truth values: of rows by lanes of vectors, of columns by adding row to
// row. Sums have 64 bits, in whatever width the numbers come.
#include "fold.h"

#include <string.h>

#include "isa.h"
#include "kernels/common/reduce.h"
#include "numbers.h"
#include "parallel.h"
#include "parameters.h"
#include "run.h"

namespace penlight::optimized {

namespace {

constexpr dim_t kColumns = kBlockBytes / 8;  // elements of a block, of any width

struct FoldWork {
  NumberFold kind;
  ScalarType from, to;  // of the elements, and of the results
  const char* input;
  char* output;
  Run run;

  const char* in(dim_t at) const { return input + at * static_cast<dim_t>(element_size(from)); }
  char* out(dim_t at) const { return output + at * static_cast<dim_t>(element_size(to)); }
  NumberOp op() const {
    return kind == NumberFold::Sum     ? NumberOp::Add
           : kind == NumberFold::Least ? NumberOp::Minimum
                                       : NumberOp::Maximum;
  }
};

struct Pair {
  alignas(64) char bytes[2][kBlockBytes];
};

void fold_block(const FoldWork& fold, ScalarType type, const void* from, void* to, dim_t rows, dim_t length) {
  routines().fold_number_rows({fold.kind, number_type(type), from, to, rows, length});
}

// Sums of a block of few bits do not leave 32; those of more are of 64.
void sum_rows(const FoldWork& fold, dim_t first, dim_t last) {
  const bool narrow = fold.from != ScalarType::Int && fold.from != ScalarType::Long;
  const ScalarType type = narrow ? ScalarType::Int : ScalarType::Long;
  const dim_t length = fold.run.count, rows = length < kColumns ? kColumns / length : 1;
  Pair pair;
  for (dim_t row = first; row < last; row += rows) {
    const dim_t some = last - row < rows ? last - row : rows;
    int64_t* const to = reinterpret_cast<int64_t*>(fold.out(row));
    if (length <= kColumns) {
      const void* block = convert_block(fold.from, fold.in(row * length), type, some * length, pair.bytes);
      fold_block(fold, type, block, to, some, length);
      continue;
    }
    uint64_t total = 0;
    for (dim_t done = 0; done < length; done += kColumns) {
      const dim_t part = length - done < kColumns ? length - done : kColumns;
      uint64_t sum = 0;
      const void* block = convert_block(fold.from, fold.in(row * length + done), type, part, pair.bytes);
      fold_block(fold, type, block, &sum, 1, part);
      total += sum;
    }
    memcpy(to, &total, sizeof total);
  }
}

void fold_rows(const FoldWork& fold, dim_t first, dim_t last) {
  const dim_t length = fold.run.count;
  if (fold.kind == NumberFold::Sum && fold.from != ScalarType::Long) return sum_rows(fold, first, last);
  fold_block(fold, fold.from, fold.in(first * length), fold.out(first), last - first, length);
}

// Some columns of all rows. Where rows are short, several count as one, and are folded into each other last.
void fold_columns(const FoldWork& fold, dim_t outer, dim_t first, dim_t columns) {
  const dim_t inner = fold.run.inner, rows = fold.run.count;
  const dim_t at_once = columns == inner && inner < kColumns ? kColumns / inner : 1;
  const dim_t item = static_cast<dim_t>(element_size(fold.to));
  alignas(64) char total[kBlockBytes];
  Pair pair;
  const auto add = [&](const void* block, dim_t count) {
    routines().numbers({fold.op(), number_type(fold.to), {total, block}, {false, false}, total, count});
  };
  dim_t held = rows < at_once ? rows : at_once;
  for (dim_t row = 0; row < rows; row += held) {
    const dim_t some = rows - row < held ? rows - row : held;
    const char* const from = fold.in((outer * rows + row) * inner + first);
    const void* block =
        fold.from == fold.to ? from : convert_block(fold.from, from, fold.to, some * columns, pair.bytes);
    if (row > 0) {
      add(block, some * columns);
    } else {
      memcpy(total, block, static_cast<size_t>(some * columns * item));
    }
  }
  for (dim_t half; held > 1; held -= half) {
    half = held / 2;
    add(total + (held - half) * columns * item, half * columns);
  }
  memcpy(fold.out(outer * inner + first), total, static_cast<size_t>(columns * item));
}

// Do results that lie as what they are made from, without gaps, lie as `out` does?
bool results_lie(const Tensor& self, uint32_t mask, bool keepdim, const Tensor& out) {
  dim_t stride = 1;
  bool same = true;
  for (dim_t k = self.dim(); k-- > 0;) {
    const dim_t d = dim_at(self, k);
    if (mask >> d & 1u) continue;
    dim_t at = d;
    for (dim_t before = 0; !keepdim && before < d; ++before) at -= mask >> before & 1u;
    same &= out.size(at) == 1 || out.stride(at) == stride;
    stride *= self.size(d);
  }
  return same;
}

bool resize(KernelContext& ctx, const Tensor& self, uint32_t mask, bool keepdim, Tensor& out) {
  Shape shape;
  for (dim_t d = 0; d < self.dim(); ++d) {
    const bool left = !(mask >> d & 1u);
    if (left || keepdim) shape.append(left ? self.size(d) : 1);
  }
  return ctx.resize(out, shape);
}

}  // namespace

bool fold_numbers(KernelContext& ctx, NumberFold kind, const Tensor& self, Optional<ArrayRef<int64_t>> dims,
                  bool keepdim, Tensor& out) {
  const ScalarType type = self.scalar_type(), to = out.scalar_type();
  const bool truths = type == ScalarType::Bool;
  const bool known = truths || (type >= ScalarType::Byte && type <= ScalarType::Long);
  if (!known || to != (kind == NumberFold::Sum ? ScalarType::Long : type)) return false;
  uint32_t mask = 0;
  Run run{};
  if (!reduced_dims(ctx, self, dims, mask)) return true;
  if (self.numel() == 0 || !read_run(self, mask, run) || !routines().numbers) return false;
  if (!resize(ctx, self, mask, keepdim, out)) return true;
  if (!results_lie(self, mask, keepdim, out)) return false;
  const FoldWork fold = {kind,
                         type,
                         to,
                         static_cast<const char*>(self.const_data_ptr()),
                         static_cast<char*>(out.mutable_data_ptr()),
                         run};
  const double elements = static_cast<double>(self.numel());
  if (run.inner == 1) {
    in_parts(ctx, run.outer, elements / static_cast<double>(run.outer),
             [&](Range range) { fold_rows(fold, range.first, range.last); });
  } else {
    const dim_t blocks = (run.inner + kColumns - 1) / kColumns, items = run.outer * blocks;
    in_parts(ctx, items, elements / static_cast<double>(items), [&](Range range) {
      for (dim_t i = range.first; i < range.last; ++i) {
        const dim_t first = i % blocks * kColumns, left = run.inner - first;
        fold_columns(fold, i / blocks, first, left < kColumns ? left : kColumns);
      }
    });
  }
  if (truths && to == ScalarType::Bool) {
    for (dim_t done = 0; done < out.numel(); done += kBlockBytes) {
      Pair pair;
      const dim_t left = out.numel() - done, some = left < kBlockBytes ? left : kBlockBytes;
      convert_block(type, fold.out(done), type, some, pair.bytes, fold.out(done));
    }
  }
  return true;
}

}  // namespace penlight::optimized
