// Linear layers of rows that are sorted by group, each group with weights of its own: experts of
// mixtures. Packed weights of all groups lie one after the other.
#include <string.h>

#include "isa.h"
#include "kernels/common/groups.h"
#include "packed.h"
#include "parallel.h"
#include "parameters.h"

namespace penlight::optimized {

namespace {

// Panels that stay in one part: as many as are multiplied at once, so that no split changes the
// order of a sum.
constexpr dim_t kPanelStep = 4;

// In how many of `steps` that take `cost` each so much work is reached.
dim_t steps_until(dim_t work, dim_t cost, dim_t steps) {
  if (work <= 0) return 0;
  const dim_t needed = (work + cost - 1) / cost;
  return needed < steps ? needed : steps;
}

// All rows of `groups`, cut into parts of equal work: each group's panels in steps, one group after
// the other. Of `product`, a group's rows and weights are still to be filled in.
void multiply_groups(KernelContext& ctx, const Groups& groups, const Product& product, size_t weights_size) {
  const dim_t steps = (product.last_panel + kPanelStep - 1) / kPanelStep;
  // With few rows it is reading the weights that takes the time.
  const auto cost_of = [&](dim_t rows) {
    const dim_t least = routines().tile_rows;
    return rows < least ? least : rows;
  };
  dim_t work = 0;
  for (dim_t g = 0; g < groups.count(); ++g) {
    const dim_t rows = groups.last(g) - groups.first(g);
    if (rows > 0) work += steps * cost_of(rows);
  }
  const double operations = 2.0 * static_cast<double>(work) * static_cast<double>(kPanelStep * kPanel) *
                            static_cast<double>(product.channels);
  const dim_t parts = parts_of(ctx, operations, work);
  PartMemory memory;
  if (!allocate_parts(ctx, parts, routines().product_scratch(product), memory)) return;
  const auto multiply = product.format == Format::Float32 ? routines().product : routines().short_product;
  const auto part = [&](size_t index) {
    const Range range = range_of(index, parts, work);
    dim_t before = 0;  // work of the groups before this one
    for (dim_t g = 0; g < groups.count() && before < range.last; ++g) {
      const dim_t first = groups.first(g), rows = groups.last(g) - first;
      if (rows == 0) continue;
      const dim_t cost = cost_of(rows);
      const dim_t from = steps_until(range.first - before, cost, steps),
                  to = steps_until(range.last - before, cost, steps);
      before += steps * cost;
      if (from == to) continue;
      Product mine = over_matrix(rows, product.channels, product.channels, product.outputs, product.outputs);
      mine.input = product.input + first * product.channels;
      mine.output = product.output + first * product.outputs;
      mine.packed = static_cast<const char*>(product.packed) + static_cast<size_t>(g) * weights_size;
      mine.format = product.format;
      mine.has_room = product.has_room;
      mine.first_panel = from * kPanelStep;
      if (to < steps) mine.last_panel = to * kPanelStep;
      mine.scratch = memory.of(index);
      multiply(mine);
    }
  };
  ctx.parallel(static_cast<size_t>(parts), part);
}

}  // namespace

Tensor& grouped_linear_packed_out(KernelContext& ctx, const Tensor& input, const Tensor& weight,
                                  const Tensor& ends, int64_t outputs, Tensor& out) {
  if (!is_dense_float(input) || input.dim() != 2 || !is_float(out))
    return ctx.fail(out, Status::InvalidArgument, "grouped_linear_packed takes a dense matrix of float32");
  const dim_t rows = input.size(0), depth = input.size(1);
  const Groups groups(ends);
  if (!groups.check(ctx, rows)) return out;
  dim_t each = 0, size = 0;
  if (!packed_size(outputs, depth, each) || !multiply_sizes(each, groups.count(), size))
    return ctx.fail(out, Status::InvalidArgument, "grouped_linear_packed cannot have {} outputs", outputs);
  const Format format = format_of(weight);
  if (!check_packed(ctx, weight, size, format)) return out;
  const dim_t sizes[] = {rows, static_cast<dim_t>(outputs)};
  if (!ctx.resize(out, sizes) || out.numel() == 0) return out;
  if (!out.is_contiguous())
    return ctx.fail(out, Status::InvalidArgument, "the result of grouped_linear_packed is contiguous");
  float* const output = out.mutable_data_ptr<float>();
  const dim_t computed = groups.rows() * sizes[1];
  memset(output + computed, 0, static_cast<size_t>(out.numel() - computed) * sizeof(float));
  if (computed == 0) return out;
  Product product = over_matrix(rows, depth, depth, sizes[1], sizes[1]);
  product.input = input.const_data_ptr<float>();
  product.output = output;
  product.packed = weight.const_data_ptr();
  product.format = format;
  product.has_room = true;
  multiply_groups(ctx, groups, product, static_cast<size_t>(each) * weight.element_size());
  return out;
}

}  // namespace penlight::optimized
