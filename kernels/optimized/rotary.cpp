// Rotary position embeddings of float32, read where a projection wrote the heads.
#include "heads.h"
#include "isa.h"
#include "parallel.h"

namespace penlight::optimized {

namespace {

// Angles of each row: [rows, width], with ones or the batch in front.
bool fits(const Tensor& angles, const Heads& x) {
  const dim_t rank = angles.dim();
  if (angles.scalar_type() != ScalarType::Float || rank < 1 || rank > 4) return false;
  const auto is = [&](dim_t d, dim_t size) {
    return rank < d || angles.size(-d) == 1 || angles.size(-d) == size;
  };
  return angles.size(-1) == x.width && angles.stride(-1) == 1 && is(2, x.rows) && is(3, 1) &&
         is(4, x.batches);
}

const float* angles_of(const Tensor& angles, dim_t batch, dim_t row) {
  const float* data = angles.const_data_ptr<float>();
  if (angles.dim() > 1 && angles.size(-2) != 1) data += row * angles.stride(-2);
  if (angles.dim() > 3 && angles.size(-4) != 1) data += batch * angles.stride(-4);
  return data;
}

}  // namespace

Tensor& rotary_out(KernelContext& ctx, const Tensor& input, const Tensor& cosine, const Tensor& sine,
                   ArrayRef<int64_t> heads, Tensor& out) {
  Heads x;
  const bool mine = x.read(input, heads) && out.scalar_type() == ScalarType::Float && x.width % 2 == 0 &&
                    x.width > 0 && fits(cosine, x) && fits(sine, x);
  if (!mine)
    return ctx.fail(out, Status::InvalidArgument, "rotary cannot read its operands, of {} and {} dimensions",
                    input.dim(), cosine.dim());
  dim_t sizes[4], columns = 0;
  for (dim_t d = 0; d < input.dim(); ++d) sizes[d] = input.size(d);
  if (!heads.empty()) {
    if (__builtin_mul_overflow(x.heads, x.width, &columns)) columns = -1;
    sizes[2] = columns;
  }
  if (!ctx.resize(out, SizesRef(sizes, static_cast<size_t>(input.dim()))) || out.numel() == 0) return out;
  if (!out.is_contiguous())
    return ctx.fail(out, Status::InvalidArgument, "rotary writes dense rows, not {} dimensions of others",
                    out.dim());
  const int64_t own[] = {x.heads, x.width, 0, x.width, heads.empty() ? 0 : heads[4]};
  Heads y;
  y.read(out, heads.empty() ? heads : ArrayRef<int64_t>(own, 5));
  const dim_t rows = x.batches * x.rows;
  const dim_t parts = parts_of(ctx, 6.0 * static_cast<double>(out.numel()), rows);
  const auto part = [&](size_t index) {
    const Range range = range_of(index, parts, rows);
    for (dim_t i = range.first; i < range.last; ++i) {
      const dim_t batch = i / x.rows, row = i % x.rows;
      const Rotary r = {input.const_data_ptr<float>() + batch * x.batch_pitch + row * x.row_pitch + x.offset,
                        angles_of(cosine, batch, row),
                        angles_of(sine, batch, row),
                        out.mutable_data_ptr<float>() + batch * y.batch_pitch + row * y.row_pitch,
                        x.heads,
                        x.width,
                        x.head_pitch,
                        y.head_pitch};
      routines().rotary(r);
    }
  };
  ctx.parallel(static_cast<size_t>(parts), part);
  return out;
}

}  // namespace penlight::optimized
