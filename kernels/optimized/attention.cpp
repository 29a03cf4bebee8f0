// Scaled dot-product attention for float32; the portable kernel takes what this declines.
#include <math.h>

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

bool is_usable_mask(const Tensor& mask, const Tensor& query, dim_t keys) {
  const bool known = mask.scalar_type() == ScalarType::Float || mask.scalar_type() == ScalarType::Bool;
  if (!known || mask.dim() < 1 || !fits_batches(mask, query, false)) return false;
  const bool rows = mask.dim() < 2 || mask.size(-2) == 1 || mask.size(-2) == query.size(-2);
  return rows && (mask.size(-1) == 1 || mask.size(-1) == keys);
}

}  // namespace

Tensor& scaled_dot_product_attention_out(KernelContext& ctx, const Tensor& query, const Tensor& key,
                                         const Tensor& value, const Optional<Tensor>& attn_mask,
                                         double dropout_p, bool is_causal, Optional<double> scale,
                                         bool enable_gqa, Tensor& out) {
  const bool mine =
      dropout_p <= 0 && has_dense_rows(query) && has_dense_rows(key) && has_dense_rows(value) &&
      out.scalar_type() == ScalarType::Float && query.size(-1) == key.size(-1) &&
      key.size(-2) == value.size(-2) && fits_batches(key, query, enable_gqa) &&
      fits_batches(value, query, enable_gqa) && query.size(-1) > 0 && key.size(-2) > 0 &&
      (!attn_mask.has_value() || (!is_causal && is_usable_mask(attn_mask.value(), query, key.size(-2))));
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
  Attention head{};
  head.queries = query.size(-2);
  head.keys = key.size(-2);
  head.width = query.size(-1);
  head.value_width = value.size(-1);
  head.query_pitch = query.stride(-2);
  head.key_pitch = key.stride(-2);
  head.value_pitch = value.stride(-2);
  head.output_pitch = out.stride(-2);
  head.scale =
      static_cast<float>(scale.has_value() ? scale.value() : 1 / sqrt(static_cast<double>(head.width)));
  head.causal = is_causal;
  if (attn_mask.has_value()) {
    const Tensor& mask = attn_mask.value();
    head.mask_row = mask.dim() < 2 || mask.size(-2) == 1 ? 0 : mask.stride(-2);
    head.mask_column = mask.size(-1) == 1 ? 0 : mask.stride(-1);
  }
  dim_t batches = 1;
  for (dim_t d = 3; d <= rank; ++d) batches *= out.size(-d);
  const double operations = 2.0 * static_cast<double>(out.numel()) * static_cast<double>(head.keys) *
                            (1.0 + static_cast<double>(head.width) / static_cast<double>(head.value_width));
  const dim_t parts = parts_of(ctx, operations, batches);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, routines().attention_scratch(head), memory)) return out;
  const auto part = [&](size_t index) {
    Attention mine = head;
    mine.scratch = memory.of(index);
    const Range range = range_of(index, parts, batches);
    for (dim_t i = range.first; i < range.last; ++i) {
      const float* keys = key.const_data_ptr<float>() + matrix_at(key, out, i);
      const float* values = value.const_data_ptr<float>() + matrix_at(value, out, i);
      mine.fresh = keys != mine.key || values != mine.value;
      mine.key = keys;
      mine.value = values;
      mine.query = query.const_data_ptr<float>() + matrix_at(query, out, i);
      mine.output = out.mutable_data_ptr<float>() + matrix_at(out, out, i);
      if (attn_mask.has_value()) {
        const Tensor& mask = attn_mask.value();
        const dim_t at = matrix_at(mask, out, i);
        if (mask.scalar_type() == ScalarType::Bool) {
          mine.bool_mask = mask.const_data_ptr<uint8_t>() + at;
        } else {
          mine.float_mask = mask.const_data_ptr<float>() + at;
        }
      }
      routines().attention(mine);
    }
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return out;
}

}  // namespace penlight::optimized
