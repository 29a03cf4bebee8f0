// Gather and scatter: an index for each element, counted along one dimension.
#include "kernels/common/combine.h"
#include "kernels/common/fill.h"
#include "kernels/common/indexing.h"
#include "kernels/common/order.h"

namespace penlight::portable {

// A tensor without dimensions is taken as having one of size 1.
static View at_least_1d(const Tensor& tensor) {
  View view = view_of(tensor);
  if (view.dim == 0) view.insert_dim(0, 1, 0);
  return view;
}

// Visits the elements of `index`. body(offsets, other_start, other_step, count)
// gets, for a block in a row, the byte offsets of the named elements of `whole`
// and where the elements at the index's own position lie in `other`.
struct Scatter {
  View index, whole, other;
  ScalarType type;
  int dim;

  // `other` may be null: then it is not looked at.
  bool prepare(KernelContext& ctx, const Tensor& named, int64_t along, const Tensor& index_tensor,
               const Tensor* other_tensor) {
    if (!check_index_dtype(ctx, index_tensor) || !wrap_dim(ctx, along, named.dim(), dim)) return false;
    index = at_least_1d(index_tensor);
    whole = at_least_1d(named);
    other = other_tensor ? at_least_1d(*other_tensor) : index;
    type = index_tensor.scalar_type();
    if (index_tensor.numel() == 0) return true;
    if (index.dim != whole.dim || other.dim != whole.dim) {
      ctx.fail(Status::InvalidArgument, "index has {} dimensions, input {}, values {}", index.dim, whole.dim,
               other.dim);
      return false;
    }
    for (int d = 0; d < index.dim; ++d) {
      if ((d == dim || index.sizes[d] <= whole.sizes[d]) && index.sizes[d] <= other.sizes[d]) continue;
      ctx.fail(Status::InvalidArgument, "index has size {} in dimension {}, input {}, values {}",
               index.sizes[d], d, whole.sizes[d], other.sizes[d]);
      return false;
    }
    return true;
  }

  template <class Body>
  bool for_each_block(KernelContext& ctx, Body&& body) const {
    if (index.numel() == 0) return true;
    const int last = index.dim - 1;
    const dim_t step = last == dim ? 0 : whole.strides[last];
    const IndexedDim to = {dim, whole.sizes[dim], whole.strides[dim], false};
    dim_t at[kMaxDim] = {};
    for (;;) {
      dim_t index_start = 0, whole_start = 0, other_start = 0;
      for (int d = 0; d < last; ++d) {
        index_start += at[d] * index.strides[d];
        other_start += at[d] * other.strides[d];
        if (d != dim) whole_start += at[d] * whole.strides[d];
      }
      for (dim_t first = 0; first < index.sizes[last]; first += kIndexBlock) {
        const dim_t left = index.sizes[last] - first;
        const int count = static_cast<int>(left < kIndexBlock ? left : kIndexBlock);
        dim_t offsets[kIndexBlock];
        for (int i = 0; i < count; ++i) offsets[i] = whole_start + (first + i) * step;
        const char* from = index.data + index_start + first * index.strides[last];
        if (!add_offsets(ctx, to, type, from, index.strides[last], count, offsets)) return false;
        body(static_cast<const dim_t*>(offsets), other_start + first * other.strides[last],
             other.strides[last], count);
      }
      int d = last - 1;
      while (d >= 0 && ++at[d] == index.sizes[d]) at[d--] = 0;
      if (d < 0) return true;
    }
  }
};

Tensor& gather_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, bool,
                   Tensor& out) {
  Scatter scatter;
  if (!check_same_dtype(ctx, self, out) || !ctx.resize(out, index.sizes()) ||
      !scatter.prepare(ctx, self, dim, index, &out)) {
    return out;
  }
  const size_t item = out.element_size();
  scatter.for_each_block(ctx, [&](const dim_t* offsets, dim_t start, dim_t step, int count) {
    dim_t out_offsets[kIndexBlock];
    for (int i = 0; i < count; ++i) out_offsets[i] = start + i * step;
    move_items(item, scatter.whole.data, offsets, scatter.other.data, out_offsets, count);
  });
  return out;
}

// Writes self to out, then src, or `item` where there is no src, to the named places.
static Tensor& replace(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                       const Tensor* src, const char* item, Tensor& out) {
  Scatter scatter;
  if (!check_same_dtype(ctx, self, out) || (src && !check_same_dtype(ctx, *src, out))) return out;
  if (!ctx.resize(out, self.sizes()) || !scatter.prepare(ctx, out, dim, index, src)) return out;
  move_view(out.element_size(), view_of(self), view_of(out));
  const char* from = src ? scatter.other.data : item;
  scatter.for_each_block(ctx, [&](const dim_t* offsets, dim_t start, dim_t step, int count) {
    dim_t from_offsets[kIndexBlock] = {};
    for (int i = 0; src && i < count; ++i) from_offsets[i] = start + i * step;
    move_items(out.element_size(), from, from_offsets, scatter.whole.data, offsets, count);
  });
  return out;
}

Tensor& scatter_src_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                        const Tensor& src, Tensor& out) {
  return replace(ctx, self, dim, index, &src, nullptr, out);
}

Tensor& scatter_value_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                          Scalar value, Tensor& out) {
  char item[16];
  if (!scalar_item(ctx, value, out.scalar_type(), item)) return out;
  return replace(ctx, self, dim, index, nullptr, item, out);
}

// What combining with leaves any element as it is, as an item of `type`.
static bool identity_item(KernelContext& ctx, Combine op, ScalarType type, char* item) {
  const bool min = op == Combine::Min;
  if (op == Combine::Add) return scalar_item(ctx, Scalar(0), type, item);
  if (op == Combine::Multiply) return scalar_item(ctx, Scalar(1), type, item);
  if (is_floating(type))
    return scalar_item(ctx, Scalar(min ? __builtin_inf() : -__builtin_inf()), type, item);
  const int bits = static_cast<int>(8 * element_size(type));
  if (type == ScalarType::Bool) return scalar_item(ctx, Scalar(min), type, item);
  if (type == ScalarType::Byte) return scalar_item(ctx, Scalar(min ? 255 : 0), type, item);
  const int64_t lowest = static_cast<int64_t>(UINT64_MAX << (bits - 1));
  return scalar_item(ctx, Scalar(min ? ~lowest : lowest), type, item);
}

// Combines src (or `item`) with what is at the named places. With `mean` the sums
// are divided by how many went in. With `rounds_once` 16-bit floats are combined in
// float, and rounded at the end.
static Tensor& reduce(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor* src, const char* item, Combine op, bool mean, bool include_self,
                      bool rounds_once, Tensor& out) {
  Scatter scatter;
  if (!check_same_dtype(ctx, self, out) || (src && !check_same_dtype(ctx, *src, out))) return out;
  if (!ctx.resize(out, self.sizes()) || !scatter.prepare(ctx, out, dim, index, src)) return out;
  const ScalarType type = out.scalar_type();
  const bool wide = rounds_once && (type == ScalarType::Half || type == ScalarType::BFloat16);
  const CombineRow row = combine_row_for(ctx, wide ? ScalarType::Float : type);
  if (!row) return out;
  const dim_t element_size = static_cast<dim_t>(out.element_size());
  move_view(out.element_size(), view_of(self), view_of(out));
  char* to = scatter.whole.data;
  if (!include_self) {
    char identity[16];
    if (!identity_item(ctx, op, out.scalar_type(), identity)) return out;
    const bool done = scatter.for_each_block(ctx, [&](const dim_t* offsets, dim_t, dim_t, int count) {
      const dim_t still[kIndexBlock] = {};
      move_items(out.element_size(), identity, still, to, offsets, count);
    });
    if (!done) return out;
  }
  // By byte offset: `out` may lie in memory in any order, but without overlap.
  int64_t* counts = nullptr;
  float* sums = nullptr;
  dim_t span = 1;
  for (int d = 0; d < scatter.whole.dim; ++d) {
    span += (scatter.whole.sizes[d] - 1) * scatter.whole.strides[d] / element_size;
  }
  if (span < 0) span = 0;
  if (mean) counts = ctx.allocate_scratch_array<int64_t>(static_cast<size_t>(span) + 1);
  if (wide) sums = ctx.allocate_scratch_array<float>(static_cast<size_t>(span) + 1);
  if (!ctx.ok()) return out;
  for (dim_t i = 0; i < span; ++i) {
    if (mean) counts[i] = include_self ? 1 : 0;
    if (wide) sums[i] = load_element<float>(type, to + i * element_size);
  }
  const bool done =
      scatter.for_each_block(ctx, [&](const dim_t* offsets, dim_t start, dim_t step, int count) {
        const char* from = src ? scatter.other.data + start : item;
        const dim_t from_step = src ? step : 0;
        for (int i = 0; mean && i < count; ++i) ++counts[offsets[i] / element_size];
        if (!wide) return row(op, to, offsets, from, from_step, count);
        float values[kIndexBlock];
        dim_t places[kIndexBlock];
        constexpr dim_t kFloat = sizeof(float);
        load_block(values, type, from, from_step / element_size, count);
        for (int i = 0; i < count; ++i) places[i] = offsets[i] / element_size * kFloat;
        row(op, reinterpret_cast<char*>(sums), places, reinterpret_cast<const char*>(values), kFloat, count);
      });
  for (dim_t i = 0; done && wide && i < span; ++i) store_element(type, to + i * element_size, sums[i]);
  if (!done || !mean) return out;
  for (dim_t i = 0; i < span; ++i) {
    if (counts[i] <= 1) continue;
    char* element = to + i * element_size;
    if (type == ScalarType::Double || !is_floating(type)) {
      // Integer means round down.
      if (is_floating(type)) {
        const double sum = load_element<double>(type, element);
        store_element(type, element, sum / static_cast<double>(counts[i]));
      } else {
        const int64_t sum = load_element<int64_t>(type, element);
        const int64_t quotient = sum / counts[i];
        store_element(type, element, quotient - (sum % counts[i] < 0 ? 1 : 0));
      }
    } else {
      const float sum = load_element<float>(type, element);
      store_element(type, element, sum / static_cast<float>(counts[i]));
    }
  }
  return out;
}

static bool equals(StringView text, const char* name) {
  return text.size() == strlen(name) && memcmp(text.data(), name, text.size()) == 0;
}

// One of names[0..count), the position of which is the Combine.
static bool find_reduction(KernelContext& ctx, StringView reduce, const char* const* names, int count,
                           int& found) {
  for (found = 0; found < count; ++found) {
    if (equals(reduce, names[found])) return true;
  }
  ctx.fail(Status::InvalidArgument, "unknown reduction; known are {}, {} and the like", names[0], names[1]);
  return false;
}

Tensor& scatter_add_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                        const Tensor& src, Tensor& out) {
  return reduce(ctx, self, dim, index, &src, nullptr, Combine::Add, false, true, true, out);
}

Tensor& scatter_reduce_two_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                               const Tensor& src, StringView reduce_name, bool include_self, Tensor& out) {
  static const char* const kNames[] = {"sum", "prod", "amin", "amax", "mean"};
  int found;
  if (!find_reduction(ctx, reduce_name, kNames, 5, found)) return out;
  const bool mean = found == 4;
  return reduce(ctx, self, dim, index, &src, nullptr, mean ? Combine::Add : static_cast<Combine>(found), mean,
                include_self, true, out);
}

// The same with one index for each slice of source: an index for each element that
// does not change along the other dimensions.
Tensor& index_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                         const Tensor& source, StringView reduce_name, bool include_self, Tensor& out) {
  static const char* const kNames[] = {"mean", "prod", "amin", "amax"};
  int found, d;
  if (!find_reduction(ctx, reduce_name, kNames, 4, found) || !wrap_dim(ctx, dim, self.dim(), d)) return out;
  const bool fits = index.dim() <= 1 && source.dim() == self.dim() &&
                    (source.dim() == 0 ? 1 : source.size(d)) == index.numel();
  if (!check(ctx, fits, "index has not one element for each slice of the source")) return out;
  for (int k = 0; k < self.dim(); ++k) {
    if (k != d && !check(ctx, source.size(k) == self.size(k), "slices of the source have other sizes"))
      return out;
  }
  TensorImpl impl = *index.unsafeGetTensorImpl();
  dim_t sizes[kMaxDim], strides[kMaxDim] = {};
  for (int k = 0; k < source.dim(); ++k) sizes[k] = source.size(k);
  if (source.dim() > 0 && index.dim() > 0) strides[d] = index.stride(0);
  impl.sizes = sizes;
  impl.strides = strides;
  impl.dim = static_cast<uint8_t>(source.dim());
  impl.numel = source.numel();
  return reduce(ctx, self, dim, Tensor(&impl), &source, nullptr,
                found == 0 ? Combine::Add : static_cast<Combine>(found), found == 0, include_self, false,
                out);
}

// Places counted in row-major order.
Tensor& put_out(KernelContext& ctx, const Tensor& self, const Tensor& index, const Tensor& source,
                bool accumulate, Tensor& out) {
  if (!check_same_dtype(ctx, self, out) || !check_same_dtype(ctx, source, out) ||
      !check_index_dtype(ctx, index) ||
      !check(ctx, index.numel() == source.numel(), "index and source have different numbers of elements") ||
      !ctx.resize(out, self.sizes())) {
    return out;
  }
  const CombineRow row = accumulate ? combine_row_for(ctx, out.scalar_type()) : nullptr;
  if (!ctx.ok()) return out;
  move_view(out.element_size(), view_of(self), view_of(out));
  for (dim_t i = 0; i < index.numel(); ++i) {
    int64_t place = load_element<int64_t>(index.scalar_type(), element_at(index, i));
    if (!normalize_index(ctx, place, out.numel())) return out;
    char* const to = const_cast<char*>(element_at(out, static_cast<dim_t>(place)));
    if (accumulate) {
      row(Combine::Add, to, dim_t{0}, element_at(source, i), 0, 1);
    } else {
      memcpy(to, element_at(source, i), out.element_size());
    }
  }
  return out;
}

Tensor& scatter_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                           const Tensor& src, StringView reduce_name, Tensor& out) {
  static const char* const kNames[] = {"add", "multiply"};
  int found;
  if (!find_reduction(ctx, reduce_name, kNames, 2, found)) return out;
  return reduce(ctx, self, dim, index, &src, nullptr, static_cast<Combine>(found), false, true, true, out);
}

Tensor& scatter_value_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                                 Scalar value, StringView reduce_name, Tensor& out) {
  static const char* const kNames[] = {"add", "multiply"};
  int found;
  char item[16];
  if (!find_reduction(ctx, reduce_name, kNames, 2, found)) return out;
  if (!scalar_item(ctx, value, out.scalar_type(), item)) return out;
  return reduce(ctx, self, dim, index, nullptr, item, static_cast<Combine>(found), false, true, true, out);
}

}  // namespace penlight::portable
