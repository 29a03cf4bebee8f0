// Slices that are added to those that a row of indices names, or reduced with them.
//
// Each element is combined with its own in the order of the indices, whichever way
// they are walked: slice by slice where slices are runs in memory, else along the
// indices, position by position of a slice.
#include "kernels/common/elementwise.h"
#include "kernels/common/span.h"
#include "likeness.h"
#include "reduction.h"
#include "slices.h"

namespace penlight::portable {

namespace {

struct Folding {
  KernelContext& ctx;
  Combine op;
  CombineRow row;
  ScalarType type;         // of what is combined with
  const Tensor& source;    // of another type: a 16-bit float where `type` is float
  const int64_t* indices;  // one behind the other
  dim_t count;             // of them
  IndexedDim along;        // what they count in `to`
  dim_t step;              // from one slice of `from` to the next, in bytes
  View to, from;           // the first slices
  bool by_slices;

  // A call for each slice takes longer than walking the indices for each of so few elements.
  static constexpr dim_t kFewElements = 8;

  // Neighbours in memory, or indices, are in the inner loop.
  void choose() {
    join_views(to, from);
    const dim_t item = static_cast<dim_t>(element_size(type));
    const dim_t elements = to.numel();
    by_slices = elements == 0 ||
                (elements >= kFewElements && (to.strides[to.dim - 1] == item || along.stride != item));
  }

  bool in_range() const {
    uint64_t outside = 0;
    for (dim_t i = 0; i < count; ++i)
      outside |= static_cast<uint64_t>(indices[i]) >= static_cast<uint64_t>(along.size);
    return !outside || refuse();
  }

  // Says which it is.
  bool refuse() const {
    for (dim_t i = 0; i < count; ++i) {
      dim_t offset = 0;
      if (!add_offsets(ctx, along, ScalarType::Long, reinterpret_cast<const char*>(indices + i), 0, 1,
                       &offset))
        return false;
    }
    return true;
  }

  // `places.index` null: neighbours.
  bool combine(char* at, Places places, const char* values, dim_t values_step, dim_t many) const {
    const ScalarType given = source.scalar_type();
    if (given == type) return row(op, at, places, values, values_step, many);
    const dim_t item = static_cast<dim_t>(element_size(given));
    for (dim_t first = 0; first < many; first += kIndexBlock) {
      const dim_t some = many - first < kIndexBlock ? many - first : kIndexBlock;
      float block[kIndexBlock];
      load_block(block, given, values + first * values_step, values_step / item, some);
      Places some_places = places;
      if (places.index) some_places.index = static_cast<const int64_t*>(places.index) + first;
      if (!row(op, at + first * places.step, some_places, reinterpret_cast<const char*>(block), sizeof(float),
               some))
        return false;
    }
    return true;
  }

  bool run() const {
    if (!by_slices) {
      bool inside = true;
      for_each_place({&to, &from}, to.dim, [&](char* const* at) {
        const Places places = {0, indices, along.stride, static_cast<uint64_t>(along.size)};
        inside = inside && combine(at[0], places, at[1], step, count);
      });
      return inside || refuse();
    }
    if (!in_range()) return false;
    const int last = to.dim - 1;
    View into = to, values = from;
    for (dim_t i = 0; i < count; ++i) {
      into.data = to.data + static_cast<dim_t>(indices[i]) * along.stride;
      values.data = from.data + i * step;
      if (last == 0) {
        combine(into.data, {to.strides[0]}, values.data, from.strides[0], to.sizes[0]);
        continue;
      }
      for_each_place({&into, &values}, last, [&](char* const* at) {
        combine(at[0], {to.strides[last]}, at[1], from.strides[last], to.sizes[last]);
      });
    }
    return true;
  }

  // The slices that are named, by `item` each element.
  void replace(const int64_t* counts, const char* item) const {
    const size_t size = element_size(type);
    const dim_t still[kMaxViewDim] = {};
    const Mover fill(size, to.dim, to.sizes, still, to.strides);
    if (by_slices) {
      for (dim_t i = 0; i < along.size; ++i) {
        if (counts[i] > 0) fill.run(item, to.data + i * along.stride);
      }
      return;
    }
    detail::with_item(size, [&](auto tag) {
      const auto value = detail::load_item<typename decltype(tag)::type>(item);
      for_each_place({&to}, to.dim, [&](char* const* at) {
        for (dim_t i = 0; i < along.size; ++i) {
          if (counts[i] > 0) detail::store_item(at[0] + i * along.stride, value);
        }
      });
    });
  }

  // Calls body(first, counts, counts_step, step, many) for the elements of all slices: runs of many, and how
  // often the slice of each is named.
  template <class Body>
  void for_each_run(const int64_t* counts, Body&& body) const {
    const int last = to.dim - 1;
    if (!by_slices)
      return for_each_place({&to}, to.dim,
                            [&](char* const* at) { body(at[0], counts, 1, along.stride, along.size); });
    View slice = to;
    for (dim_t i = 0; i < along.size; ++i) {
      if (counts[i] == 0) continue;
      slice.data = to.data + i * along.stride;
      for_each_place({&slice}, last,
                     [&](char* const* at) { body(at[0], counts + i, 0, to.strides[last], to.sizes[last]); });
    }
  }
};

// With `rounds_once` 16-bit floats are combined in float, and rounded at the end.
void reduce_slices(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                   const Tensor& source, Combine op, bool mean, bool include_self, bool rounds_once,
                   Tensor& out) {
  const ScalarType type = out.scalar_type();
  Slices slices;
  if (!check_same_dtype(ctx, source, out) || !copy_whole(ctx, self, out) ||
      !slices.prepare(ctx, out, dim, index, &source))
    return;
  int d;
  if (!wrap_dim(ctx, dim, out.dim(), d)) return;
  const bool wide = rounds_once && (type == ScalarType::Half || type == ScalarType::BFloat16);
  // By place in memory: `out` may lie there in any order, but without overlap.
  char* const memory = static_cast<char*>(out.mutable_data_ptr());
  dim_t span = out.numel() > 0 ? 1 : 0;
  for (int k = 0; span > 0 && k < out.dim(); ++k) span += (out.size(k) - 1) * out.stride(k);
  Likeness sums(out);
  float* const wide_sums = wide ? scratch<float>(ctx, span) : nullptr;
  const int64_t* const indices = dense_indices(ctx, index);
  if (!ctx.ok()) return;
  if (wide) {
    load_block(wide_sums, type, memory, 1, span);
    sums.look_at(wide_sums);
  }
  const View whole = at_least_1d(sums.tensor);
  Folding folding = {ctx,
                     op,
                     combine_row_for(ctx, sums.tensor.scalar_type()),
                     sums.tensor.scalar_type(),
                     source,
                     indices,
                     index.numel(),
                     {d, whole.sizes[d], whole.strides[d], false},
                     slices.other.strides[d],
                     without_dim(whole, d),
                     slices.other_slice(),
                     false};
  if (!folding.row) return;
  folding.choose();

  int64_t* counts = nullptr;
  if (mean || !include_self) {
    if (!folding.in_range()) return;
    counts = scratch<int64_t>(ctx, folding.along.size);
    if (!counts) return;
    memset(counts, 0, static_cast<size_t>(folding.along.size) * sizeof *counts);
    for (dim_t i = 0; i < index.numel(); ++i) ++counts[indices[i]];
  }
  if (!include_self) {
    char identity[16];
    if (!identity_item(ctx, op, folding.type, identity)) return;
    folding.replace(counts, identity);
  }
  if (!folding.run()) return;
  if (wide) store_block(type, memory, 1, wide_sums, span);
  if (!mean) return;
  const dim_t item = static_cast<dim_t>(out.element_size());
  for (dim_t i = 0; include_self && i < folding.along.size; ++i) ++counts[i];
  folding.for_each_run(counts, [&](char* at, const int64_t* named, dim_t named_step, dim_t step, dim_t many) {
    divide(ctx, type, at, step / item, named, named_step, many);
  });
}

}  // namespace

void index_add_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                   const Tensor& source, Scalar alpha, Tensor& out) {
  const bool scaled = alpha.isFloatingPoint() ? alpha.to<double>() != 1 : alpha.to<int64_t>() != 1;
  Likeness product(source);
  if (!check_same_dtype(ctx, source, out)) return;
  if (scaled) {
    product.impl.data = ctx.allocate_scratch(source.nbytes() + 1);
    if (!product.impl.data) return;
    for (dim_t d = source.dim(), stride = 1; d-- > 0; stride *= source.size(d)) product.strides[d] = stride;
    map<Domain::Real>(ctx, PENLIGHT_OF_2(math::times(a, b)), product.tensor, source,
                      cast_to(out.scalar_type(), alpha));
  }
  reduce_slices(ctx, self, dim, index, scaled ? product.tensor : source, Combine::Add, false, true, true,
                out);
}

void index_reduce_out(KernelContext& ctx, const Tensor& self, int64_t dim, const Tensor& index,
                      const Tensor& source, StringView reduce_name, bool include_self, Tensor& out) {
  static const char* const kFolds[] = {"mean", "prod", "amin", "amax"};
  const Reduction reduction = {reduce_name, kFolds};
  Combine op;
  const bool fits = source.dim() == self.dim() && index.dim() <= 1;
  if (!reduction.find(ctx, op) || !check(ctx, fits, "index has not one element for each slice of the source"))
    return;
  reduce_slices(ctx, self, dim, index, source, op, reduction.mean(), include_self, false, out);
}

}  // namespace penlight::portable
