// Average and maximum pooling in one, two and three dimensions, fixed and adaptive: the geometry, and the two
// loops over windows.
#include "pool.h"

#include "axis_argument.h"
#include "kernels/common/checks.h"
#include "kernels/common/convert.h"

namespace penlight::portable {

PoolRange PoolAxis::range(dim_t position) const {
  if (adaptive) {
    const dim_t first = position * in / out, end = ((position + 1) * in + out - 1) / out;
    return {first, end, 1, end - first};
  }
  dim_t first = position * stride - padding, end = first + dilation * (kernel - 1) + 1;
  const dim_t padded = (end < in + padding ? end : in + padding) - first;
  if (first < 0) first += (-first + dilation - 1) / dilation * dilation;
  if (end > in) end = in;
  return {first, end, dilation, padded};
}

namespace {

bool resize_pool(KernelContext& ctx, int dims, const Tensor& self, Tensor& out, Tensor* indices,
                 PoolShape& shape) {
  const bool batched = self.dim() == dims + 2;
  dim_t sizes[5];
  size_t rank = 0;
  if (batched) sizes[rank++] = self.size(0);
  sizes[rank++] = self.size(-dims - 1);
  for (int d = 0; d < dims; ++d) sizes[rank++] = shape.axes[3 - dims + d].out;
  if (!ctx.resize(out, SizesRef(sizes, rank))) return false;
  if (indices && !ctx.resize(*indices, SizesRef(sizes, rank))) return false;
  shape.batch = batched ? self.size(0) : 1;
  shape.channels = self.size(-dims - 1);
  shape.in = Volume(self, dims);
  shape.out = Volume(out, dims);
  if (indices) shape.indices = Volume(*indices, dims);
  return true;
}

bool check_pool(KernelContext& ctx, int dims, const Tensor& self, const Tensor& out, const Tensor* indices) {
  if (self.dim() != dims + 1 && self.dim() != dims + 2)
    return ctx.refuse("input has {} dimensions, pooling here takes {} or {}", self.dim(), dims + 1, dims + 2);
  if (indices && indices->dtype() != ScalarType::Long)
    return ctx.refuse("indices have dtype {}, they are int64", dtype_name(indices->dtype()));
  return check_same_dtype(ctx, self, out);
}

}  // namespace

bool prepare_pool(KernelContext& ctx, int dims, const Tensor& self, IntArrayRef kernel, IntArrayRef stride,
                  IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out, Tensor* indices,
                  PoolShape& shape) {
  if (!check_pool(ctx, dims, self, out, indices)) return false;
  for (int d = 0; d < dims; ++d) {
    PoolAxis& axis = shape.axes[3 - dims + d];
    axis.in = self.size(d - dims);
    if (!axis_argument(ctx, "kernel_size", kernel, dims, d, 1, axis.kernel) ||
        !axis_argument(ctx, "stride", stride.empty() ? kernel : stride, dims, d, 1, axis.stride) ||
        !axis_argument(ctx, "padding", padding, dims, d, 0, axis.padding) ||
        !axis_argument(ctx, "dilation", dilation, dims, d, 1, axis.dilation))
      return false;
    const dim_t reach = axis.dilation * (axis.kernel - 1) + 1;
    const dim_t room = axis.in + 2 * axis.padding - reach;
    // Rounded up, a window may be larger than the padded input, by less than a stride.
    if (axis.padding > reach / 2 || room < (ceil_mode ? 1 - axis.stride : 0))
      return ctx.refuse("a window of {} with padding {} does not fit an input of {}", reach, axis.padding,
                        axis.in);
    axis.out = (room + (ceil_mode ? axis.stride - 1 : 0)) / axis.stride + 1;
    // The last window has to begin inside the input or its leading padding.
    if (ceil_mode && (axis.out - 1) * axis.stride >= axis.in + axis.padding) --axis.out;
  }
  return resize_pool(ctx, dims, self, out, indices, shape);
}

bool prepare_adaptive_pool(KernelContext& ctx, const Tensor& self, IntArrayRef output_size, Tensor& out,
                           Tensor* indices, PoolShape& shape) {
  const int dims = static_cast<int>(output_size.size());
  if (dims < 1 || dims > 3)
    return ctx.refuse("output_size has {} values, pooling is of 1 to 3 dimensions", dims);
  if (!check_pool(ctx, dims, self, out, indices)) return false;
  for (int d = 0; d < dims; ++d) {
    PoolAxis& axis = shape.axes[3 - dims + d];
    axis.in = self.size(d - dims);
    axis.adaptive = true;
    if (!axis_argument(ctx, "output_size", output_size, dims, d, 0, axis.out)) return false;
    if (axis.in == 0 && axis.out != 0) return ctx.refuse("an empty input cannot be pooled to {}", axis.out);
  }
  return resize_pool(ctx, dims, self, out, indices, shape);
}

namespace {

// One output, and where it is in each tensor.
struct PoolWindow {
  PoolRange d, h, w;
  dim_t from, to, indices;

  dim_t count() const { return d.count() * h.count() * w.count(); }
};

// Channels are the innermost loop where they lie side by side, else the outermost.
template <class Work>
void for_each_window(const PoolShape& shape, Work&& work) {
  const PoolAxis* axes = shape.axes;
  const dim_t inner = shape.in.channel == 1 ? shape.channels : 1;
  for (dim_t plane = 0; plane < shape.batch * shape.channels; plane += inner) {
    const dim_t image = plane / shape.channels;
    for (dim_t d = 0; d < axes[0].out; ++d) {
      for (dim_t h = 0; h < axes[1].out; ++h) {
        for (dim_t w = 0; w < axes[2].out; ++w) {
          PoolWindow window = {axes[0].range(d), axes[1].range(h), axes[2].range(w), 0, 0, 0};
          for (dim_t c = plane % shape.channels; c < plane % shape.channels + inner; ++c) {
            window.from = shape.in.plane(image, c);
            window.to = shape.out.plane(image, c) + shape.out.place(d, h, w);
            window.indices = shape.indices.plane(image, c) + shape.indices.place(d, h, w);
            work(window);
          }
        }
      }
    }
  }
}

// tap(offset in the input, index in its plane)
template <class Tap>
inline void for_each_tap(const PoolShape& shape, const PoolWindow& window, Tap&& tap) {
  const PoolAxis* axes = shape.axes;
  for (dim_t d = window.d.first; d < window.d.end; d += window.d.step) {
    for (dim_t h = window.h.first; h < window.h.end; h += window.h.step) {
      const dim_t row = window.from + shape.in.place(d, h, 0);
      const dim_t row_index = (d * axes[1].in + h) * axes[2].in;
      for (dim_t w = window.w.first; w < window.w.end; w += window.w.step)
        tap(row + w * shape.in.steps[2], row_index + w);
    }
  }
}

void average_pool(KernelContext& ctx, const PoolShape& shape, const PoolAverage& average, const Tensor& self,
                  Tensor& out) {
  dispatch<Real>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    using T = Compute<S>;
    const S* const input = self.const_data_ptr<S>();
    for_each_window(shape, [&](const PoolWindow& window) {
      const dim_t inside = window.count();
      // Unsigned: a window far larger than the input may be any size.
      const uint64_t whole = static_cast<uint64_t>(window.d.padded) * static_cast<uint64_t>(window.h.padded) *
                             static_cast<uint64_t>(window.w.padded);
      const T divisor = static_cast<T>(average.divisor         ? average.divisor
                                       : average.count_padding ? static_cast<int64_t>(whole)
                                                               : inside);
      T sum = 0;
      for_each_tap(shape, window, [&](dim_t offset, dim_t) { sum += static_cast<T>(input[offset]); });
      out.mutable_data_ptr<S>()[window.to] = static_cast<S>(inside ? sum / divisor : T(0));
    });
  });
}

template <class S>
S lowest_value() {
  if constexpr (is_floating_type<S>) {
    return static_cast<S>(-static_cast<Compute<S>>(__builtin_inff()));
  } else if constexpr (static_cast<S>(-1) > S(0)) {
    return S(0);
  } else {
    return static_cast<S>(static_cast<uint64_t>(1) << (8 * sizeof(S) - 1));
  }
}

void maximum_pool(KernelContext& ctx, const PoolShape& shape, const Tensor& self, Tensor& out,
                  Tensor& indices) {
  dispatch<Real>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    using T = Compute<S>;
    const S* const input = self.const_data_ptr<S>();
    for_each_window(shape, [&](const PoolWindow& window) {
      T best = static_cast<T>(lowest_value<S>());
      dim_t best_at =
          (window.d.first * shape.axes[1].in + window.h.first) * shape.axes[2].in + window.w.first;
      for_each_tap(shape, window, [&](dim_t offset, dim_t index) {
        const T value = static_cast<T>(input[offset]);
        // A NaN wins over everything, the last one over earlier ones.
        const bool better = (value > best) | (value != value);
        best = better ? value : best;
        best_at = better ? index : best_at;
      });
      out.mutable_data_ptr<S>()[window.to] = static_cast<S>(best);
      indices.mutable_data_ptr<int64_t>()[window.indices] = best_at;
    });
  });
}

}  // namespace

void avg_pool_out(KernelContext& ctx, int dims, const Tensor& self, IntArrayRef kernel_size,
                  IntArrayRef stride, IntArrayRef padding, bool ceil_mode, bool count_include_pad,
                  Optional<int64_t> divisor_override, Tensor& out) {
  PoolShape shape;
  const int64_t divisor = divisor_override.value_or(0);
  if (divisor_override && divisor == 0) return ctx.fail("divisor_override is 0");
  if (prepare_pool(ctx, dims, self, kernel_size, stride, padding, kNoDilation, ceil_mode, out, nullptr,
                   shape))
    average_pool(ctx, shape, {count_include_pad, divisor}, self, out);
}

void avg_pool1d_out(KernelContext& ctx, const Tensor& self, IntArrayRef kernel_size, IntArrayRef stride,
                    IntArrayRef padding, bool ceil_mode, bool count_include_pad, Tensor& out) {
  avg_pool_out(ctx, 1, self, kernel_size, stride, padding, ceil_mode, count_include_pad, nullopt, out);
}

void max_pool_out(KernelContext& ctx, int dims, const Tensor& self, IntArrayRef kernel_size,
                  IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool ceil_mode, Tensor& out,
                  Tensor& indices) {
  PoolShape shape;
  if (prepare_pool(ctx, dims, self, kernel_size, stride, padding, dilation, ceil_mode, out, &indices, shape))
    maximum_pool(ctx, shape, self, out, indices);
}

// Of one, two and three dimensions: as many as output_size has values.
void adaptive_avg_pool_out(KernelContext& ctx, const Tensor& self, IntArrayRef output_size, Tensor& out) {
  PoolShape shape;
  if (prepare_adaptive_pool(ctx, self, output_size, out, nullptr, shape))
    average_pool(ctx, shape, {false, 0}, self, out);
}

void adaptive_max_pool_out(KernelContext& ctx, const Tensor& self, IntArrayRef output_size, Tensor& out,
                           Tensor& indices) {
  PoolShape shape;
  if (prepare_adaptive_pool(ctx, self, output_size, out, &indices, shape))
    maximum_pool(ctx, shape, self, out, indices);
}

}  // namespace penlight::portable
