// Advanced indexing: x[i, :, j] and x[i, :, j] = values, and rows of a table by their numbers.
#include "indexed.h"

namespace penlight::portable {

// What the indices name in `whole`.
static void take(KernelContext& ctx, const Indexing& indexing, const View& whole, Tensor& out) {
  if (!ctx.resize(out, indexing.sizes())) return;
  const View result = view_of(out);
  const IndexedMover mover(out.element_size(), indexing.rest(), indexing.rest_of(result));
  indexing.for_each_block(ctx, result, [&](const dim_t* offsets, const dim_t* result_offsets, int count) {
    mover.run(whole.data, offsets, result.data, result_offsets, count);
  });
}

void index_tensor_out(KernelContext& ctx, const Tensor& self, ArrayRef<Optional<Tensor>> indices,
                      Tensor& out) {
  Indexing indexing;
  const View whole = view_of(self);
  if (check_same_dtype(ctx, self, out) && indexing.prepare(ctx, whole, indices))
    take(ctx, indexing, whole, out);
}

// padding_idx, scale_grad_by_freq and sparse say something about gradients only.
void embedding_out(KernelContext& ctx, const Tensor& weight, const Tensor& indices, int64_t, bool, bool,
                   Tensor& out) {
  Indexing indexing;
  const View table = view_of(weight);
  if (check_rank(ctx, weight, 2, "weight") && check_same_dtype(ctx, weight, out) &&
      indexing.prepare_slices(ctx, table, 0, indices, false, kMaxDim - 1))
    take(ctx, indexing, table, out);
}

void index_put_out(KernelContext& ctx, const Tensor& self, ArrayRef<Optional<Tensor>> indices,
                   const Tensor& values, bool accumulate, Tensor& out) {
  Indexing indexing;
  if (!check_same_dtype(ctx, self, out) || !check_same_dtype(ctx, values, out)) return;
  if (!ctx.resize(out, self.sizes())) return;
  const View whole = view_of(out);
  View given = view_of(values);
  if (!indexing.prepare(ctx, whole, indices)) return;
  const Shape sizes = indexing.sizes();
  while (given.dim > sizes.dim && given.sizes[0] == 1) given.remove_dim(0);
  if (!expand_view(ctx, given, SizesRef(sizes))) return;
  move_view(out.element_size(), view_of(self), whole);

  View rest = indexing.rest(), given_rest = indexing.rest_of(given);
  if (!accumulate) {
    const IndexedMover mover(out.element_size(), given_rest, rest);
    indexing.for_each_block(ctx, given, [&](const dim_t* offsets, const dim_t* given_offsets, int count) {
      mover.run(given.data, given_offsets, whole.data, offsets, count);
    });
    return;
  }
  // Complex numbers are added part by part.
  ScalarType type = out.scalar_type();
  if (is_complex(type)) {
    type = part_of(type);
    rest.insert_dim(rest.dim, 2, static_cast<dim_t>(element_size(type)));
    given_rest.insert_dim(given_rest.dim, 2, static_cast<dim_t>(element_size(type)));
  }
  const CombineRow row = combine_row_for(ctx, type);
  if (!row) return;
  const bool single = rest.numel() == 1;
  indexing.for_each_block(ctx, given, [&](const dim_t* offsets, const dim_t* given_offsets, int count) {
    if (single) return combine_at(row, whole.data, offsets, given.data, given_offsets, count);
    for (int i = 0; i < count; ++i) {
      rest.data = whole.data + offsets[i];
      given_rest.data = given.data + given_offsets[i];
      combine_views(row, Combine::Add, rest, given_rest);
    }
  });
}

}  // namespace penlight::portable
