// Gather and scatter: an index for each element, counted along one dimension.
#include "kernels/common/span.h"
#include "likeness.h"
#include "order.h"
#include "reduction.h"

namespace penlight::portable {

enum class Way { Any, Gathers, Scatters };

// False at an index that is out of range. Only Any asks how far apart the items lie.
template <class Item, Way way>
static bool move_each(char* dst, Places to, const char* src, Places from, dim_t count) {
  constexpr dim_t kSize = sizeof(Item);
  if (way == Way::Gathers) to.step = from.along = kSize, to.along = from.step = 0;
  if (way == Way::Scatters) to.along = from.step = kSize, to.step = from.along = 0;
  for (dim_t i = 0; i < count; ++i) {
    const uint64_t index = from.index_at(i);
    if (index >= from.size) return false;
    const dim_t at = static_cast<dim_t>(index);
    detail::store_item(dst + i * to.step + at * to.along,
                       detail::load_item<Item>(src + i * from.step + at * from.along));
  }
  return true;
}

// Items from places to places, with the same indices.
template <class Item>
static bool move_row(char* dst, Places to, const char* src, Places from, dim_t count) {
  constexpr dim_t kSize = sizeof(Item);
  if (!kSmallCode && to.step == kSize && from.along == kSize && from.step == 0)
    return move_each<Item, Way::Gathers>(dst, to, src, from, count);
  if (!kSmallCode && to.along == kSize && from.step == kSize && to.step == 0)
    return move_each<Item, Way::Scatters>(dst, to, src, from, count);
  return move_each<Item, Way::Any>(dst, to, src, from, count);
}

static bool move_row(size_t item, char* dst, Places to, const char* src, Places from, dim_t count) {
  return detail::with_item(
      item, [&](auto tag) { return move_row<typename decltype(tag)::type>(dst, to, src, from, count); });
}

// Visits the elements of `index`, those it names in `whole` and those at its own position in `other`.
struct Scatter {
  View index, whole, other;
  ScalarType type;
  int dim;
  IndexedDim to;

  // `other` may be null: then it is not looked at.
  bool prepare(KernelContext& ctx, const Tensor& named, int64_t along, const Tensor& index_tensor,
               const Tensor* other_tensor) {
    if (!check_index_dtype(ctx, index_tensor) || !wrap_dim(ctx, along, named.dim(), dim)) return false;
    index = at_least_1d(index_tensor);
    whole = at_least_1d(named);
    other = other_tensor ? at_least_1d(*other_tensor) : index;
    type = index_tensor.scalar_type();
    if (index_tensor.numel() == 0) return true;
    if (index.dim != whole.dim || other.dim != whole.dim)
      return ctx.refuse("index has {} dimensions, input {}, values {}", index.dim, whole.dim, other.dim);
    for (int d = 0; d < index.dim; ++d) {
      if ((d == dim || index.sizes[d] <= whole.sizes[d]) && index.sizes[d] <= other.sizes[d]) continue;
      return ctx.refuse("index has size {} in dimension {}, input {}, values {}", index.sizes[d], d,
                        whole.sizes[d], other.sizes[d]);
    }
    to = {dim, whole.sizes[dim], whole.strides[dim], false};
    // A last dimension of size 1 would make rows of single elements.
    for (int d = index.dim - 1; d > 0 && index.sizes[index.dim - 1] == 1; --d) {
      last_to_front(index);
      last_to_front(whole);
      last_to_front(other);
      dim = (dim + 1) % index.dim;
    }
    return true;
  }

  static void last_to_front(View& view) {
    const dim_t size = view.sizes[view.dim - 1], stride = view.strides[view.dim - 1];
    view.remove_dim(view.dim - 1);
    view.insert_dim(0, size, stride);
  }

  // From one element of `whole` to the next in a row, beside what an index adds.
  dim_t step() const { return index.dim - 1 == dim ? 0 : whole.strides[index.dim - 1]; }
  dim_t beside_step() const { return other.strides[index.dim - 1]; }

  // Calls body(named, places, beside, count) for blocks in a row: where a block begins in `whole`, how its
  // elements lie from there, and where it begins in `other`. It returns false at an index out of range.
  template <class Body>
  bool for_each_block(KernelContext& ctx, Body&& body) const {
    const int last = index.dim - 1;
    const dim_t stride = index.strides[last];
    const bool dense = type == ScalarType::Long && stride == sizeof(int64_t);
    if (index.numel() == 0) return true;
    View named = whole;
    named.strides[dim] = 0;
    for_each_place({&index, &named, &other}, last, [&](char* const* at) {
      for (dim_t first = 0; first < index.sizes[last] && ctx.ok(); first += kIndexBlock) {
        const dim_t left = index.sizes[last] - first, count = left < kIndexBlock ? left : kIndexBlock;
        const char* const indices = at[0] + first * stride;
        int64_t block[kIndexBlock];
        if (!dense) load_block(block, type, indices, stride / static_cast<dim_t>(element_size(type)), count);
        const Places places = {step(), dense ? static_cast<const void*>(indices) : block, to.stride,
                               static_cast<uint64_t>(to.size)};
        if (body(at[1] + first * step(), places, at[2] + first * beside_step(), count)) continue;
        dim_t offsets[kIndexBlock] = {};  // says which it is
        add_offsets(ctx, to, type, indices, stride, static_cast<int>(count), offsets);
      }
    });
    return ctx.ok();
  }

  // Moves what is at the index's own position, or `item` each time, to the named places.
  bool replace(KernelContext& ctx, size_t size, const char* item) const {
    return for_each_block(ctx, [&](char* named, const Places& places, const char* beside, dim_t count) {
      const Places from = {item ? 0 : beside_step(), places.index, 0, places.size};
      return move_row(size, named, places, item ? item : beside, from, count);
    });
  }
};

void gather_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, bool, Tensor& out) {
  Scatter scatter;
  if (!check_same_dtype(ctx, self, out) || !ctx.resize(out, index.sizes()) ||
      !scatter.prepare(ctx, self, dim, index, &out))
    return;
  scatter.for_each_block(ctx, [&](const char* named, const Places& places, char* beside, dim_t count) {
    return move_row(out.element_size(), beside, {scatter.beside_step()}, named, places, count);
  });
}

// Writes self to out, then src, or `item` where there is no src, to the named places.
static void replace(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                    const Tensor* src, const char* item, Tensor& out) {
  Scatter scatter;
  if ((src && !check_same_dtype(ctx, *src, out)) || !copy_whole(ctx, self, out) ||
      !scatter.prepare(ctx, out, dim, index, src))
    return;
  scatter.replace(ctx, out.element_size(), item);
}

void scatter_src_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                     const Tensor& src, Tensor& out) {
  replace(ctx, self, dim, index, &src, nullptr, out);
}

void scatter_value_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index, Scalar value,
                       Tensor& out) {
  char item[16];
  if (!scalar_item(ctx, value, out.scalar_type(), item)) return;
  replace(ctx, self, dim, index, nullptr, item, out);
}

static const char* const kFolds[] = {"sum", "prod", "amin", "amax", "mean"};
static const char* const kSumAndProduct[] = {"add", "multiply"};

// Combines src (or `item`) with what is at the named places of `to`, in to's dtype.
static bool combine(KernelContext& ctx, Combine op, const Tensor& to, int64_t dim, const Tensor& index,
                    const Tensor* src, const char* item) {
  Scatter scatter;
  const CombineRow row = combine_row_for(ctx, to.scalar_type());
  if (!row || !scatter.prepare(ctx, to, dim, index, src)) return false;
  const dim_t step = src ? scatter.beside_step() : 0;
  const bool converts = src && src->scalar_type() != to.scalar_type();  // a 16-bit float to float
  return scatter.for_each_block(ctx, [&](char* named, const Places& places, const char* beside, dim_t count) {
    if (!converts) return row(op, named, places, src ? beside : item, step, count);
    float values[kIndexBlock];
    load_block(values, src->scalar_type(), beside, step / static_cast<dim_t>(src->element_size()), count);
    return row(op, named, places, reinterpret_cast<const char*>(values), sizeof(float), count);
  });
}

// Combines src (or `item`) with what is at the named places. With `rounds_once` 16-bit floats are combined in
// float, and rounded at the end.
static void reduce(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                   const Tensor* src, const char* item, const Reduction& reduction, bool include_self,
                   bool rounds_once, Tensor& out) {
  Combine op;
  if (!reduction.find(ctx, op)) return;
  Scatter scatter;
  const ScalarType type = out.scalar_type();
  if ((src && !check_same_dtype(ctx, *src, out)) || !copy_whole(ctx, self, out) ||
      !scatter.prepare(ctx, out, dim, index, src))
    return;
  if (!include_self) {
    char identity[16];
    if (!identity_item(ctx, op, type, identity) || !scatter.replace(ctx, out.element_size(), identity))
      return;
  }
  // By place in memory: `out` may lie there in any order, but without overlap.
  char* const to = static_cast<char*>(out.mutable_data_ptr());
  dim_t span = out.numel() > 0 ? 1 : 0;
  for (int d = 0; span > 0 && d < out.dim(); ++d) span += (out.size(d) - 1) * out.stride(d);
  Likeness sums(out), counts(out);
  const bool wide = rounds_once && (type == ScalarType::Half || type == ScalarType::BFloat16);
  float value, *const wide_sums = wide ? scratch<float>(ctx, span) : nullptr;
  int64_t *const how_often = reduction.mean() ? scratch<int64_t>(ctx, span) : nullptr, one = 1;
  if (!ctx.ok()) return;
  if (wide) {
    load_block(wide_sums, type, to, 1, span);
    sums.look_at(wide_sums);
    if (item) value = load_element<float>(type, item);
  }
  const char* const added = wide && item ? reinterpret_cast<const char*>(&value) : item;
  if (!combine(ctx, op, sums.tensor, dim, index, src, added)) return;
  if (wide) store_block(type, to, 1, wide_sums, span);
  if (!how_often) return;
  for (dim_t i = 0; i < span; ++i) how_often[i] = include_self ? 1 : 0;
  counts.look_at(how_often);
  if (!combine(ctx, Combine::Add, counts.tensor, dim, index, nullptr, reinterpret_cast<const char*>(&one)))
    return;
  divide(ctx, type, to, 1, how_often, 1, span);
}

void scatter_add_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                     const Tensor& src, Tensor& out) {
  reduce(ctx, self, dim, index, &src, nullptr, {StringView("sum", 3), kFolds}, true, true, out);
}

void scatter_reduce_two_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                            const Tensor& src, StringView reduce_name, bool include_self, Tensor& out) {
  reduce(ctx, self, dim, index, &src, nullptr, {reduce_name, kFolds}, include_self, true, out);
}

// Places counted in row-major order.
void put_out(KernelContext& ctx, const Tensor& self, const Tensor& index, const Tensor& source,
             bool accumulate, Tensor& out) {
  const CombineRow row = accumulate ? combine_row_for(ctx, out.scalar_type()) : nullptr;
  if (!check_same_dtype(ctx, source, out) || !check_index_dtype(ctx, index) ||
      !check(ctx, index.numel() == source.numel(), "index and source have different numbers of elements") ||
      !copy_whole(ctx, self, out))
    return;
  Elements indices(view_of(index)), sources(view_of(source));
  for (dim_t i = 0; i < index.numel(); ++i) {
    dim_t place;
    if (!wrap_index(ctx, load_element<int64_t>(index.scalar_type(), indices.next()), 0, out.numel(), place))
      return;
    char* const to = element_at(out, place);
    if (accumulate) {
      row(Combine::Add, to, {0}, sources.next(), 0, 1);
    } else {
      memcpy(to, sources.next(), out.element_size());
    }
  }
}

void scatter_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                        const Tensor& src, StringView reduce_name, Tensor& out) {
  reduce(ctx, self, dim, index, &src, nullptr, {reduce_name, kSumAndProduct}, true, true, out);
}

void scatter_value_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                              Scalar value, StringView reduce_name, Tensor& out) {
  char item[16];
  if (scalar_item(ctx, value, out.scalar_type(), item))
    reduce(ctx, self, dim, index, nullptr, item, {reduce_name, kSumAndProduct}, true, true, out);
}

}  // namespace penlight::portable
