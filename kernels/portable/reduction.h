// Reductions by name into places that tensors name, of elements and of slices.
#pragma once

#include "fill.h"
#include "indexing.h"

namespace penlight::portable {

// The name's place among those of its operator is the Combine. A mean is a sum, divided.
struct Reduction {
  StringView name;
  ArrayRef<const char*> names;

  bool mean() const { return name == "mean"; }
  bool find(KernelContext& ctx, Combine& op) const {
    for (size_t i = 0; i < names.size(); ++i) {
      op = mean() ? Combine::Add : static_cast<Combine>(i);
      if (name == names[i]) return true;
    }
    return ctx.refuse("unknown reduction; known are {}, {} and the like", names[0], names[1]);
  }
};

// What combining with leaves any element as it is, as an item of `type`.
inline bool identity_item(KernelContext& ctx, Combine op, ScalarType type, char* item) {
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

template <class C>
inline C quotient_of(C sum, int64_t count) {
  const C many = static_cast<C>(count > 1 ? count : 1);
  // Integer means round down.
  if constexpr (same_type<C, int64_t>) return sum / many - (sum % many < 0 ? 1 : 0);
  return sum / many;
}

PENLIGHT_BY_DTYPES_BEGIN

// sums[i * step] /= counts[i * counts_step], steps in elements; a count below 1 stands for 1.
inline void divide(KernelContext& ctx, ScalarType type, char* sums, dim_t step, const int64_t* counts,
                   dim_t counts_step, dim_t count) {
  const dim_t item = static_cast<dim_t>(element_size(type));
  dispatch<RealBool>(ctx, type, [&](auto tag) {
    using C = Compute<typename decltype(tag)::type>;
    for (dim_t first = 0; first < count; first += kIndexBlock) {
      const dim_t some = count - first < kIndexBlock ? count - first : kIndexBlock;
      C block[kIndexBlock];
      load_block(block, type, sums + first * step * item, step, some);
      for (dim_t i = 0; i < some; ++i) block[i] = quotient_of(block[i], counts[(first + i) * counts_step]);
      store_block(type, sums + first * step * item, step, block, some);
    }
  });
}

PENLIGHT_BY_DTYPES_END

}  // namespace penlight::portable
