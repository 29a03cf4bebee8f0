// Scaled dot-product attention in one pass over the keys.
//
//   out = softmax(query key^T * scale + mask) value
//
// Queries are taken a block at a time and keys a tile at a time, so that only one
// tile of scores exists. Each row keeps the largest score seen so far, the sum of
// exponentials relative to it and the weighted sum of values; a tile that brings
// a larger score scales down what was summed before (Milakov & Gimelshein 2018,
// arXiv:1805.02867). Rows that the mask leaves nothing to attend to become zero,
// as in ATen; or NaN, as with a softmax that is written out.
#include "exponential.h"
#include "kernels/common/checks.h"
#include "kernels/common/span.h"
#include "product.h"

namespace penlight::portable {

namespace {

constexpr dim_t kQueryBlock = 64;
constexpr dim_t kKeyTile = 256;

struct Attention {
  const Tensor& query;
  const Tensor& key;
  const Tensor& value;
  Optional<Tensor> mask;
  bool causal;
  double scale;
  bool safe_softmax;
  Optional<double> hidden_score;  // of a key that a bool mask hides; without it -inf is added
  dim_t queries, keys, width, value_width;
};

template <class T>
constexpr T kNothing = -static_cast<T>(__builtin_inff());  // the score of what is not attended to

// Offset of the matrix of `tensor` that belongs to batch `index` of `out`; heads
// are shared by `out` heads / own heads neighbours.
dim_t batch_offset(const Tensor& tensor, const Tensor& out, dim_t index, bool share_heads) {
  dim_t at = 0;
  for (dim_t d = 3; d <= out.dim(); ++d) {
    const dim_t size = out.size(-d), i = index % size;
    index /= size;
    if (d > tensor.dim()) continue;
    const dim_t own = tensor.size(-d);
    if (own == size) {
      at += i * tensor.stride(-d);
    } else if (own != 1 && share_heads && d == 3) {
      at += i / (size / own) * tensor.stride(-d);
    }
  }
  return at;
}

// A block of rows as T: the tensor's own memory where it has that type, else a copy.
template <class T>
MatrixView rows_as(const Tensor& tensor, dim_t offset, dim_t first, dim_t count, T* copy) {
  const dim_t row = tensor.stride(-2), column = tensor.stride(-1), width = tensor.size(-1);
  const dim_t at = offset + first * row;
  if (tensor.dtype() == ScalarTypeOf<T>::value) return {tensor.const_data_ptr<T>() + at, row, column};
  for (dim_t i = 0; i < count; ++i) load_block(copy + i * width, tensor, at + i * row, column, width);
  return {copy, width, 1};
}

template <class T>
class Pass {
 public:
  Pass(KernelContext& ctx, const Attention& attention) : attention_(attention) {
    block_ = smaller(attention.queries, kQueryBlock);
    tile_ = smaller(attention.keys, kKeyTile);
    const dim_t width = attention.width, value_width = attention.value_width;
    scores_ = scratch<T>(ctx, block_ * tile_);
    sums_ = scratch<T>(ctx, block_ * (value_width + 2));
    largest_ = sums_ + block_ * value_width;
    total_ = largest_ + block_;
    mask_ = scratch<T>(ctx, tile_);
    const bool copies = attention.query.dtype() != ScalarTypeOf<T>::value;
    query_copy_ = copies ? scratch<T>(ctx, block_ * width) : nullptr;
    key_copy_ = copies ? scratch<T>(ctx, tile_ * width) : nullptr;
    value_copy_ = copies ? scratch<T>(ctx, tile_ * value_width) : nullptr;
    if (!ctx.ok()) return;
    // Layouts: those of no rows at all.
    const MatrixView query = rows_as(attention.query, 0, 0, 0, query_copy_);
    const MatrixView key = rows_as(attention.key, 0, 0, 0, key_copy_);
    const MatrixView value = rows_as(attention.value, 0, 0, 0, value_copy_);
    if (!multiply_keys_.prepare(ctx, block_, tile_, width, query, {nullptr, key.column, key.row})) return;
    multiply_values_.prepare(ctx, block_, value_width, tile_, {nullptr, tile_, 1}, value);
  }

  // One batch and head; offsets in elements.
  void run(dim_t query_at, dim_t key_at, dim_t value_at, dim_t mask_at, Tensor& out, dim_t out_at) {
    for (dim_t first = 0; first < attention_.queries; first += block_) {
      const dim_t count = smaller(attention_.queries - first, block_);
      const MatrixView query = rows_as(attention_.query, query_at, first, count, query_copy_);
      for (dim_t i = 0; i < count * attention_.value_width; ++i) sums_[i] = 0;
      for (dim_t i = 0; i < count; ++i) {
        largest_[i] = kNothing<T>;
        total_[i] = 0;
      }
      const dim_t end = attention_.causal ? smaller(attention_.keys, first + count) : attention_.keys;
      for (dim_t key = 0; key < end; key += tile_)
        add_tile(query, first, count, key, smaller(end - key, tile_), key_at, value_at, mask_at);
      finish(first, count, out, out_at);
    }
  }

 private:
  void add_tile(const MatrixView& query, dim_t first, dim_t count, dim_t key_first, dim_t key_count,
                dim_t key_at, dim_t value_at, dim_t mask_at) {
    const MatrixView key = rows_as(attention_.key, key_at, key_first, key_count, key_copy_);
    multiply_keys_.shrink(count, key_count, attention_.width);
    multiply_keys_.run(query, {key.data, key.column, key.row}, Epilogue(), scores_, tile_, 1);
    for (dim_t i = 0; i < count; ++i) soften_row(i, first + i, key_first, key_count, mask_at);
    const MatrixView value = rows_as(attention_.value, value_at, key_first, key_count, value_copy_);
    Epilogue epilogue;
    epilogue.addend = {sums_, attention_.value_width, 1};
    multiply_values_.shrink(count, attention_.value_width, key_count);
    multiply_values_.run({scores_, tile_, 1}, value, epilogue, sums_, attention_.value_width, 1);
  }

  // Scores of one query to exponentials, what was summed before scaled to match.
  void soften_row(dim_t i, dim_t query, dim_t key_first, dim_t key_count, dim_t mask_at) {
    T* row = scores_ + i * tile_;
    const T scale = static_cast<T>(attention_.scale);
    for (dim_t j = 0; j < key_count; ++j) row[j] *= scale;
    if (attention_.mask) add_mask(row, query, key_first, key_count, mask_at);
    if (attention_.causal) {
      for (dim_t j = query + 1 > key_first ? query + 1 - key_first : 0; j < key_count; ++j)
        row[j] = kNothing<T>;
    }
    const T seen = largest_[i], here = max_row(row, key_count);
    const T largest = here > seen || here != here ? here : seen;
    // Nothing but masked scores so far: any finite shift makes them zeros.
    const T shift = largest == kNothing<T> ? T(0) : largest;
    const T kept = static_cast<T>(exp(seen - shift));
    total_[i] = total_[i] * kept + exp_row(row, key_count, shift);
    largest_[i] = largest;
    if (kept == T(1)) return;
    T* sums = sums_ + i * attention_.value_width;
    for (dim_t j = 0; j < attention_.value_width; ++j) sums[j] *= kept;
  }

  void add_mask(T* row, dim_t query, dim_t key_first, dim_t key_count, dim_t mask_at) {
    const Tensor& mask = *attention_.mask;
    const dim_t step = mask.dim() < 2 || mask.size(-2) == 1 ? 0 : mask.stride(-2);
    const dim_t column = mask.dim() < 1 || mask.size(-1) == 1 ? 0 : mask.stride(-1);
    load_block(mask_, mask, mask_at + query * step + key_first * column, column, key_count);
    const bool hides = mask.dtype() == ScalarType::Bool, fills = attention_.hidden_score.has_value();
    const T hidden = static_cast<T>(attention_.hidden_score.value_or(-__builtin_inf()));
    for (dim_t j = 0; j < key_count; ++j) {
      const T hidden_here = fills ? hidden : row[j] + hidden;
      row[j] = !hides ? row[j] + mask_[j] : mask_[j] != T(0) ? row[j] : hidden_here;
    }
  }

  void finish(dim_t first, dim_t count, Tensor& out, dim_t out_at) {
    // Of no keys at all, products are sums of nothing in any case.
    const T hidden = attention_.safe_softmax || attention_.keys == 0 ? T(0) : static_cast<T>(NAN);
    for (dim_t i = 0; i < count; ++i) {
      T* sums = sums_ + i * attention_.value_width;
      const T factor = total_[i] == T(0) ? hidden : T(1) / total_[i];
      for (dim_t j = 0; j < attention_.value_width; ++j) sums[j] *= factor;
      const dim_t at = out_at + (first + i) * out.stride(-2);
      store_block(out, at, out.stride(-1), sums, attention_.value_width);
    }
  }

  const Attention& attention_;
  dim_t block_, tile_;
  T *scores_, *sums_, *largest_, *total_, *mask_;
  T *query_copy_, *key_copy_, *value_copy_;
  Product<T> multiply_keys_, multiply_values_;
};

template <class T>
void attend(KernelContext& ctx, const Attention& attention, bool share_heads, Tensor& out) {
  Pass<T> pass(ctx, attention);
  if (!ctx.ok()) return;
  dim_t batches = 1;
  for (dim_t d = 3; d <= out.dim(); ++d) batches *= out.size(-d);
  for (dim_t i = 0; i < batches; ++i) {
    const dim_t mask_at = attention.mask ? batch_offset(*attention.mask, out, i, false) : 0;
    pass.run(batch_offset(attention.query, out, i, false), batch_offset(attention.key, out, i, share_heads),
             batch_offset(attention.value, out, i, share_heads), mask_at, out,
             batch_offset(out, out, i, false));
  }
}

// Batch sizes that broadcast to out's; heads may divide instead where they are shared.
bool check_batch(KernelContext& ctx, const char* name, const Tensor& tensor, SizesRef sizes,
                 bool share_heads) {
  const dim_t rank = static_cast<dim_t>(sizes.size());
  for (dim_t d = 3; d <= tensor.dim(); ++d) {
    const dim_t own = tensor.size(-d), wanted = sizes[static_cast<size_t>(rank - d)];
    if (own == wanted || own == 1 || (share_heads && d == 3 && own > 0 && wanted % own == 0)) continue;
    return ctx.refuse("{} has size {} in dimension {} from the end, {} is wanted", name, own, d, wanted);
  }
  return true;
}

bool check_mask(KernelContext& ctx, const Tensor& mask, const Tensor& query, SizesRef sizes, dim_t keys) {
  const dim_t queries = query.size(-2);
  if (mask.dim() > static_cast<dim_t>(sizes.size()) ||
      (mask.dim() >= 1 && mask.size(-1) != 1 && mask.size(-1) != keys) ||
      (mask.dim() >= 2 && mask.size(-2) != 1 && mask.size(-2) != queries))
    return ctx.refuse("attn_mask of {} dimensions cannot be broadcast to [{}, {}]", mask.dim(), queries,
                      keys);
  if (mask.dtype() != ScalarType::Bool && !is_floating(mask.dtype()))
    return ctx.refuse("attn_mask has dtype {}, it is bool or floating", dtype_name(mask.dtype()));
  return check_batch(ctx, "attn_mask", mask, sizes, false);
}

}  // namespace

// query [..., heads, L, E], key [..., heads, S, E], value [..., heads, S, Ev].
void scaled_dot_product_attention_out(KernelContext& ctx, const Tensor& query, const Tensor& key,
                                      const Tensor& value, Optional<Tensor> attn_mask, double dropout_p,
                                      bool is_causal, Optional<double> scale, bool enable_gqa,
                                      bool safe_softmax, Optional<double> hidden_score, Tensor& out) {
  if (dropout_p > 0)
    return ctx.fail(Status::NotSupported, "attention drops nothing at run time: dropout_p has to be 0");
  if (query.dim() < 2 || key.dim() < 2 || value.dim() < 2 || query.size(-1) != key.size(-1) ||
      key.size(-2) != value.size(-2))
    return ctx.fail("query of {}, key of {} and value of {} dimensions do not fit together", query.dim(),
                    key.dim(), value.dim());
  if (!is_floating(query.dtype()) || !check_same_dtype(ctx, query, key) ||
      !check_same_dtype(ctx, query, value) || !check_same_dtype(ctx, query, out))
    return ctx.fail("attention takes floating types, got {}", dtype_name(query.dtype()));
  if (is_causal && attn_mask) return ctx.fail("attention is causal or has a mask, not both");
  // Batch dimensions broadcast; shared heads are the query's.
  dim_t rank = query.dim() > key.dim() ? query.dim() : key.dim();
  if (value.dim() > rank) rank = value.dim();
  dim_t sizes[kMaxDim];
  for (dim_t d = 3; d <= rank; ++d) {
    const dim_t q = d <= query.dim() ? query.size(-d) : 1, k = d <= key.dim() ? key.size(-d) : 1;
    const dim_t v = d <= value.dim() ? value.size(-d) : 1;
    sizes[rank - d] = q != 1 || (enable_gqa && d == 3) ? q : k != 1 ? k : v;
  }
  sizes[rank - 2] = query.size(-2);
  sizes[rank - 1] = value.size(-1);
  const SizesRef shape(sizes, static_cast<size_t>(rank));
  if (!check_batch(ctx, "query", query, shape, false) || !check_batch(ctx, "key", key, shape, enable_gqa) ||
      !check_batch(ctx, "value", value, shape, enable_gqa))
    return;
  if (attn_mask && !check_mask(ctx, attn_mask.value(), query, shape, key.size(-2))) return;
  if (!ctx.resize(out, shape) || out.numel() == 0) return;
  const double factor = scale ? *scale : 1 / sqrt(static_cast<double>(query.size(-1)));
  const Attention attention = {query,          key,          value,          attn_mask,
                               is_causal,      factor,       safe_softmax,   hidden_score,
                               query.size(-2), key.size(-2), query.size(-1), value.size(-1)};
  dispatch_real(ctx, query.dtype(),
                [&](auto zero) { attend<decltype(zero)>(ctx, attention, enable_gqa, out); });
}

}  // namespace penlight::portable
