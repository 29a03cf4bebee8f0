// Scaled dot-product attention for float32; the portable kernel takes what this declines.
//
// Two operators: ATen's, over a matrix for each head, and one that reads heads where
// projections wrote them, as columns of rows, and writes them so.
#include <math.h>
#include <string.h>

#include "heads.h"
#include "isa.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

// A matrix for each batch and head, rows of which are dense.
bool has_dense_rows(const Tensor& tensor) {
  return tensor.scalar_type() == ScalarType::Float && tensor.dim() >= 2 &&
         (tensor.stride(-1) == 1 || tensor.size(-1) == 1);
}

// Sizes from the third last on: those of `query`, or 1; heads may be shared evenly.
bool fits_batches(const Tensor& tensor, const Tensor& query, bool shared) {
  if (tensor.dim() > query.dim()) return false;
  for (dim_t d = 3; d <= tensor.dim(); ++d) {
    const dim_t own = tensor.size(-d), wanted = query.size(-d);
    if (own != wanted && own != 1 && !(shared && d == 3 && own > 0 && wanted % own == 0)) return false;
  }
  return true;
}

// Where the matrix of batch `index` begins, in elements.
dim_t matrix_at(const Tensor& tensor, const Tensor& out, dim_t index) {
  dim_t at = 0;
  for (dim_t d = 3; d <= out.dim(); ++d) {
    const dim_t size = out.size(-d), i = index % size;
    index /= size;
    if (d > tensor.dim() || tensor.size(-d) == 1) continue;
    at += i / (size / tensor.size(-d)) * tensor.stride(-d);
  }
  return at;
}

bool is_usable_mask(const Tensor& mask, dim_t queries, dim_t keys) {
  const bool known = mask.scalar_type() == ScalarType::Float || mask.scalar_type() == ScalarType::Bool;
  if (!known || mask.dim() < 1) return false;
  const bool rows = mask.dim() < 2 || mask.size(-2) == 1 || mask.size(-2) == queries;
  return rows && (mask.size(-1) == 1 || mask.size(-1) == keys);
}

// Fewer are not worth laying out keys and values for; of such, so many share a call.
constexpr dim_t kFewQueries = 4;

// The tensors of a call; the mask may be null.
enum Operand { kQuery, kKey, kValue, kMask, kOutput };
struct Operands {
  Operands(const Tensor& query, const Tensor& key, const Tensor& value, const Optional<Tensor>& mask,
           const Tensor& output)
      : tensors{&query, &key, &value, mask.has_value() ? &mask.value() : nullptr, &output} {}

  const Tensor* tensors[5];
};

Attention sizes_of(dim_t queries, dim_t keys, dim_t width, dim_t value_width, const Optional<Tensor>& mask,
                   bool causal, const Optional<double>& scale, bool safe_softmax,
                   const Optional<double>& hidden_score) {
  Attention a{};
  a.queries = queries;
  a.keys = keys;
  a.width = width;
  a.value_width = value_width;
  a.scale = static_cast<float>(scale.has_value() ? scale.value() : 1 / sqrt(static_cast<double>(width)));
  a.fills = hidden_score.has_value();
  if (a.fills) a.hidden_score = static_cast<float>(hidden_score.value());
  a.hidden = safe_softmax ? 0.0f : NAN;
  a.causal = causal;
  a.few = queries < kFewQueries;
  a.wide_tiles = prefers_wide_tiles();
  a.tall_tiles = prefers_tall_tiles();
  if (mask.has_value()) {
    const Tensor& m = mask.value();
    a.mask_row = m.dim() < 2 || m.size(-2) == 1 ? 0 : m.stride(-2);
    a.mask_column = m.size(-1) == 1 ? 0 : m.stride(-1);
  }
  return a;
}

// Matrices [first, first + count) are heads of single queries that read the same keys,
// values and mask, each as far from the one before: queries of one matrix.
template <class Matrices>
dim_t alike(const Matrices& matrices, dim_t first, dim_t left, Attention& a) {
  dim_t count = 1;
  for (; count < left && count < kFewQueries; ++count) {
    const dim_t i = first + count;
    bool same = true;
    for (int operand = kKey; operand <= kMask; ++operand) {
      if (matrices.tensors[operand]) same &= matrices.at(operand, i) == matrices.at(operand, first);
    }
    const dim_t query = matrices.at(kQuery, i) - matrices.at(kQuery, i - 1);
    const dim_t output = matrices.at(kOutput, i) - matrices.at(kOutput, i - 1);
    if (count == 1) {
      a.query_pitch = query;
      a.output_pitch = output;
    }
    if (!same || query != a.query_pitch || output != a.output_pitch) break;
  }
  return count;
}

// Computes `count` matrices, whose sizes and pitches `head` has; at(operand, index) of
// `matrices` is where each begins, in elements.
template <class Matrices>
void attend(KernelContext& ctx, const Attention& head, const Matrices& matrices, dim_t count) {
  const Operands& operands = matrices;
  const double keys = static_cast<double>(head.keys), all = static_cast<double>(count),
               widths = static_cast<double>(head.width + head.value_width);
  // With few queries it is reading keys and values that takes the time.
  const double rows = static_cast<double>(head.few ? 8 : head.queries);
  // Of many queries some make an item, so that few heads are enough for many threads.
  const dim_t block = routines().attention_block(head), blocks = (head.queries + block - 1) / block;
  const dim_t parts = parts_of(ctx, 2.0 * all * rows * keys * widths, count * blocks);
  const bool single = head.queries == 1 && !head.causal;
  Attention largest = head;
  if (single) largest.queries = kFewQueries;
  PartMemory memory;
  if (!allocate_parts(ctx, parts, routines().attention_scratch(largest), memory)) return;
  const auto part = [&](size_t index) {
    Attention mine = head;
    mine.scratch = memory.of(index);
    const Range range = range_of(index, parts, count * blocks);
    for (dim_t item = range.first, next; item < range.last; item = next) {
      const dim_t i = item / blocks, first = item % blocks;
      if (single) mine.queries = alike(matrices, i, range.last - i, mine);
      next = single ? item + mine.queries : (i + 1) * blocks < range.last ? (i + 1) * blocks : range.last;
      mine.first_query = first * block;
      mine.last_query =
          (next - i * blocks) * block < mine.queries ? (next - i * blocks) * block : mine.queries;
      const float* key = operands.tensors[kKey]->const_data_ptr<float>() + matrices.at(kKey, i);
      const float* value = operands.tensors[kValue]->const_data_ptr<float>() + matrices.at(kValue, i);
      mine.fresh = key != mine.key || value != mine.value;
      mine.key = key;
      mine.value = value;
      mine.query = operands.tensors[kQuery]->const_data_ptr<float>() + matrices.at(kQuery, i);
      mine.output = operands.tensors[kOutput]->mutable_data_ptr<float>() + matrices.at(kOutput, i);
      if (const Tensor* mask = operands.tensors[kMask]) {
        const dim_t at = matrices.at(kMask, i);
        if (mask->scalar_type() == ScalarType::Bool) {
          mine.bool_mask = mask->const_data_ptr<uint8_t>() + at;
        } else {
          mine.float_mask = mask->const_data_ptr<float>() + at;
        }
      }
      routines().attention(mine);
    }
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

// Heads as ATen has them: a matrix for each index of the dimensions before the last two.
struct Dense : Operands {
  dim_t at(int operand, dim_t index) const { return matrix_at(*tensors[operand], *tensors[kOutput], index); }
};

struct InRows : Operands {
  Heads operands[3];
  dim_t queries_heads;
  dim_t output_batch, output_head;

  dim_t at(int operand, dim_t index) const {
    const dim_t batch = index / queries_heads, head = index % queries_heads;
    if (operand == kOutput) return batch * output_batch + head * output_head;
    if (operand == kMask) {
      const Tensor& mask = *tensors[kMask];
      dim_t place = 0;
      if (mask.dim() > 2 && mask.size(-3) != 1) place += head * mask.stride(-3);
      if (mask.dim() > 3 && mask.size(-4) != 1) place += batch * mask.stride(-4);
      return place;
    }
    const Heads& h = operands[operand];
    return (h.batches == 1 ? 0 : batch) * h.batch_pitch + head / (queries_heads / h.heads) * h.head_pitch +
           h.offset;
  }
};

}  // namespace

Tensor& scaled_dot_product_attention_out(KernelContext& ctx, const Tensor& query, const Tensor& key,
                                         const Tensor& value, const Optional<Tensor>& attn_mask,
                                         double dropout_p, bool is_causal, Optional<double> scale,
                                         bool enable_gqa, bool safe_softmax, Optional<double> hidden_score,
                                         Tensor& out) {
  const bool mine =
      dropout_p <= 0 && has_dense_rows(query) && has_dense_rows(key) && has_dense_rows(value) &&
      out.scalar_type() == ScalarType::Float && query.size(-1) == key.size(-1) &&
      key.size(-2) == value.size(-2) && fits_batches(key, query, enable_gqa) &&
      fits_batches(value, query, enable_gqa) && query.size(-1) > 0 && key.size(-2) > 0 &&
      (!attn_mask.has_value() || (!is_causal && fits_batches(attn_mask.value(), query, false) &&
                                  is_usable_mask(attn_mask.value(), query.size(-2), key.size(-2))));
  if (!mine) {
    ctx.decline();
    return out;
  }
  const dim_t rank = query.dim();
  dim_t sizes[kMaxDim];
  for (dim_t d = 0; d < rank; ++d) sizes[d] = query.size(d);
  sizes[rank - 1] = value.size(-1);
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(rank))) || out.numel() == 0) return out;
  if (!has_dense_rows(out)) {
    ctx.decline();
    return out;
  }
  Attention head = sizes_of(query.size(-2), key.size(-2), query.size(-1), value.size(-1), attn_mask,
                            is_causal, scale, safe_softmax, hidden_score);
  head.query_pitch = query.stride(-2);
  head.key_pitch = key.stride(-2);
  head.value_pitch = value.stride(-2);
  head.output_pitch = out.stride(-2);
  const Dense matrices{{query, key, value, attn_mask, out}};
  dim_t batches = 1;
  for (dim_t d = 3; d <= rank; ++d) batches *= out.size(-d);
  attend(ctx, head, matrices, batches);
  return out;
}

Tensor& attention_in_rows_out(KernelContext& ctx, const Tensor& query, const Tensor& key, const Tensor& value,
                              const Optional<Tensor>& attn_mask, ArrayRef<int64_t> query_heads,
                              ArrayRef<int64_t> key_heads, ArrayRef<int64_t> value_heads, bool rows_first,
                              bool is_causal, Optional<double> scale, bool safe_softmax,
                              Optional<double> hidden_score, Tensor& out) {
  InRows matrices{{query, key, value, attn_mask, out}, {}, 0, 0, 0};
  Heads &q = matrices.operands[kQuery], &k = matrices.operands[kKey], &v = matrices.operands[kValue];
  const bool read = q.read(query, query_heads) && k.read(key, key_heads) && v.read(value, value_heads) &&
                    out.scalar_type() == ScalarType::Float;
  const auto fits = [&](const Heads& h) {
    return (h.batches == q.batches || h.batches == 1) && h.heads > 0 && q.heads % h.heads == 0;
  };
  if (!read || !fits(k) || !fits(v) || q.width != k.width || k.rows != v.rows || q.width < 1)
    return ctx.fail(out, Status::InvalidArgument, "attention over {} heads in rows cannot read its operands",
                    read ? q.heads : 0);
  if (attn_mask.has_value()) {
    const Tensor& mask = attn_mask.value();
    const auto is = [&](dim_t d, dim_t size) {
      return mask.dim() < d || mask.size(-d) == 1 || mask.size(-d) == size;
    };
    if (is_causal || mask.dim() > 4 || !is(3, q.heads) || !is(4, q.batches) ||
        !is_usable_mask(mask, q.rows, k.rows))
      return ctx.fail(out, Status::InvalidArgument, "mask of {} dimensions does not fit attention",
                      mask.dim());
  }
  dim_t columns = 0;
  if (__builtin_mul_overflow(q.heads, v.width, &columns)) columns = -1;
  const dim_t sizes[] = {rows_first ? q.rows : q.batches, rows_first ? q.batches : q.rows, columns};
  if (!ctx.resize(out, SizesRef(sizes, 3)) || out.numel() == 0) return out;
  if (!out.is_contiguous())
    return ctx.fail(out, Status::InvalidArgument,
                    "attention in rows writes dense rows, not {} dimensions of others", out.dim());
  if (k.rows == 0) {
    memset(out.mutable_data_ptr<float>(), 0, static_cast<size_t>(out.numel()) * sizeof(float));
    return out;
  }
  Attention head =
      sizes_of(q.rows, k.rows, q.width, v.width, attn_mask, is_causal, scale, safe_softmax, hidden_score);
  head.query_pitch = q.row_pitch;
  head.key_pitch = k.row_pitch;
  head.value_pitch = v.row_pitch;
  head.output_pitch = rows_first ? out.stride(0) : out.stride(1);
  matrices.output_batch = rows_first ? out.stride(1) : out.stride(0);
  matrices.output_head = v.width;
  matrices.queries_heads = q.heads;
  attend(ctx, head, matrices, q.batches * q.heads);
  return out;
}

}  // namespace penlight::optimized
