// Geometry of pooling, and the two loops over its windows.
#include <penlight/kernel.h>

#include "kernels/common/checks.h"
#include "kernels/common/convert.h"
#include "pool.h"
#include "vector.h"

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
  shape.in_batch = batched ? self.stride(0) : 0;
  shape.out_batch = batched ? out.stride(0) : 0;
  shape.indices_batch = batched && indices ? indices->stride(0) : 0;
  shape.in_channel = self.stride(-dims - 1);
  shape.out_channel = out.stride(-dims - 1);
  shape.indices_channel = indices ? indices->stride(-dims - 1) : 0;
  for (int d = 0; d < dims; ++d) {
    PoolAxis& axis = shape.axes[3 - dims + d];
    axis.in_stride = self.stride(d - dims);
    axis.out_stride = out.stride(d - dims);
    axis.indices_stride = indices ? indices->stride(d - dims) : 0;
  }
  return true;
}

bool check_pool(KernelContext& ctx, int dims, const Tensor& self, const Tensor& out, const Tensor* indices) {
  if (self.dim() != dims + 1 && self.dim() != dims + 2)
    return ctx.refuse(Status::InvalidArgument, "input has {} dimensions, pooling here takes {} or {}",
                      self.dim(), dims + 1, dims + 2);
  if (indices && indices->dtype() != ScalarType::Long)
    return ctx.refuse(Status::InvalidArgument, "indices have dtype {}, they are int64",
                      dtype_name(indices->dtype()));
  return check_same_dtype(ctx, self, out);
}

// Products of two of these and of a tensor's sizes do not overflow.
constexpr int64_t kLargestArgument = sizeof(dim_t) == 8 ? 1 << 30 : 1 << 14;

bool axis_value(KernelContext& ctx, const char* name, ArrayRef<int64_t> list, int dims, int d, int64_t lowest,
                dim_t& value) {
  if (list.size() != 1 && list.size() != static_cast<size_t>(dims))
    return ctx.refuse(Status::InvalidArgument, "{} has {} values for {} dimensions", name, list.size(), dims);
  const int64_t given = list[list.size() == 1 ? 0 : static_cast<size_t>(d)];
  value = static_cast<dim_t>(given);
  if (given >= lowest && given <= kLargestArgument) return true;
  return ctx.refuse(Status::InvalidArgument, "{} is {}, it has to be from {} to {}", name, given, lowest,
                    kLargestArgument);
}

}  // namespace

bool prepare_pool(KernelContext& ctx, int dims, const Tensor& self, ArrayRef<int64_t> kernel,
                  ArrayRef<int64_t> stride, ArrayRef<int64_t> padding, ArrayRef<int64_t> dilation,
                  bool ceil_mode, Tensor& out, Tensor* indices, PoolShape& shape) {
  if (!check_pool(ctx, dims, self, out, indices)) return false;
  for (int d = 0; d < dims; ++d) {
    PoolAxis& axis = shape.axes[3 - dims + d];
    axis.in = self.size(d - dims);
    if (!axis_value(ctx, "kernel_size", kernel, dims, d, 1, axis.kernel) ||
        !axis_value(ctx, "stride", stride.empty() ? kernel : stride, dims, d, 1, axis.stride) ||
        !axis_value(ctx, "padding", padding, dims, d, 0, axis.padding) ||
        !axis_value(ctx, "dilation", dilation, dims, d, 1, axis.dilation)) {
      return false;
    }
    const dim_t reach = axis.dilation * (axis.kernel - 1) + 1;
    const dim_t room = axis.in + 2 * axis.padding - reach;
    // Rounded up, a window may be larger than the padded input, by less than a stride.
    if (axis.padding > reach / 2 || room < (ceil_mode ? 1 - axis.stride : 0))
      return ctx.refuse(Status::InvalidArgument, "a window of {} with padding {} does not fit an input of {}",
                        reach, axis.padding, axis.in);
    axis.out = (room + (ceil_mode ? axis.stride - 1 : 0)) / axis.stride + 1;
    // The last window has to begin inside the input or its leading padding.
    if (ceil_mode && (axis.out - 1) * axis.stride >= axis.in + axis.padding) --axis.out;
  }
  return resize_pool(ctx, dims, self, out, indices, shape);
}

bool prepare_adaptive_pool(KernelContext& ctx, int dims, const Tensor& self, ArrayRef<int64_t> output_size,
                           Tensor& out, Tensor* indices, PoolShape& shape) {
  if (!check_pool(ctx, dims, self, out, indices)) return false;
  for (int d = 0; d < dims; ++d) {
    PoolAxis& axis = shape.axes[3 - dims + d];
    axis.in = self.size(d - dims);
    axis.adaptive = true;
    if (!axis_value(ctx, "output_size", output_size, dims, d, 0, axis.out)) return false;
    if (axis.in == 0 && axis.out != 0)
      return ctx.refuse(Status::InvalidArgument, "an empty input cannot be pooled to {}", axis.out);
  }
  return resize_pool(ctx, dims, self, out, indices, shape);
}

namespace {

constexpr dim_t kChannelChunk = 64;

struct PoolWindow {
  PoolRange d, h, w;
  dim_t count() const { return d.count() * h.count() * w.count(); }
};

// work(image, first channel, count of channels, position, window): channels that
// lie side by side come in chunks, others one by one.
template <class Work>
void for_each_window(const PoolShape& shape, bool chunks, Work&& work) {
  const PoolAxis* axes = shape.axes;
  const dim_t chunk = chunks ? kChannelChunk : 1;
  for (dim_t image = 0; image < shape.batch; ++image) {
    // Chunks go innermost, single channels outermost: both as memory lies.
    const dim_t outer = chunks ? 1 : shape.channels;
    for (dim_t channel = 0; channel < outer; ++channel) {
      for (dim_t d = 0; d < axes[0].out; ++d) {
        const PoolRange along_d = axes[0].range(d);
        for (dim_t h = 0; h < axes[1].out; ++h) {
          const PoolRange along_h = axes[1].range(h);
          for (dim_t w = 0; w < axes[2].out; ++w) {
            const PoolWindow window = {along_d, along_h, axes[2].range(w)};
            const dim_t at[3] = {d, h, w};
            if (!chunks) {
              work(image, channel, dim_t{1}, at, window);
              continue;
            }
            for (dim_t c = 0; c < shape.channels; c += chunk) {
              work(image, c, shape.channels - c < chunk ? shape.channels - c : chunk, at, window);
            }
          }
        }
      }
    }
  }
}

template <class Tap>
inline void for_each_tap(const PoolShape& shape, const PoolWindow& window, Tap&& tap) {
  const PoolAxis* axes = shape.axes;
  for (dim_t d = window.d.first; d < window.d.end; d += window.d.step) {
    for (dim_t h = window.h.first; h < window.h.end; h += window.h.step) {
      const dim_t row = d * axes[0].in_stride + h * axes[1].in_stride;
      const dim_t row_index = (d * axes[1].in + h) * axes[2].in;
      for (dim_t w = window.w.first; w < window.w.end; w += window.w.step) {
        tap(row + w * axes[2].in_stride, row_index + w);
      }
    }
  }
}

inline dim_t output_offset(const PoolShape& shape, const dim_t at[3]) {
  return at[0] * shape.axes[0].out_stride + at[1] * shape.axes[1].out_stride +
         at[2] * shape.axes[2].out_stride;
}

template <class S, class T>
inline void add_channels(T* sums, const S* from, dim_t count) {
  dim_t c = 0;
  if constexpr (same_type<S, T>) {
    constexpr int lanes = VectorOf<T>::lanes;
    for (; c + lanes <= count; c += lanes)
      store_vector<T>(sums + c, load_vector(sums + c) + load_vector(from + c));
  }
  for (; c < count; ++c) sums[c] += static_cast<T>(from[c]);
}

template <class S>
void average_as(const PoolShape& shape, const PoolAverage& average, const S* input, S* out) {
  using T = Compute<S>;
  const bool chunks = shape.in_channel == 1 && shape.channels > 1;
  for_each_window(
      shape, chunks, [&](dim_t image, dim_t c, dim_t channels, const dim_t* at, const PoolWindow& window) {
        const S* from = input + image * shape.in_batch + c * shape.in_channel;
        S* to = out + image * shape.out_batch + c * shape.out_channel + output_offset(shape, at);
        const dim_t inside = window.count();
        // Unsigned: a window far larger than the input may be any size.
        const int64_t whole = static_cast<int64_t>(static_cast<uint64_t>(window.d.padded) *
                                                   static_cast<uint64_t>(window.h.padded) *
                                                   static_cast<uint64_t>(window.w.padded));
        const T divisor = static_cast<T>(average.divisor         ? average.divisor
                                         : average.count_padding ? whole
                                                                 : inside);
        if (channels == 1) {
          T sum = 0;
          for_each_tap(shape, window, [&](dim_t offset, dim_t) { sum += static_cast<T>(from[offset]); });
          *to = static_cast<S>(inside ? sum / divisor : T(0));
          return;
        }
        T sums[kChannelChunk] = {};
        for_each_tap(shape, window,
                     [&](dim_t offset, dim_t) { add_channels(sums, from + offset, channels); });
        for (dim_t i = 0; i < channels; ++i)
          to[i * shape.out_channel] = static_cast<S>(inside ? sums[i] / divisor : T(0));
      });
}

template <class S>
inline bool exceeds(S value, S best) {
  // A NaN wins over everything, the last one over earlier ones.
  return value > best || value != value;
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

// Rows of images whose pixels lie side by side, four windows at a time as long as
// they are inside the row; `one(w)` does the others.
template <int step, class One>
void maximum_row(const PoolShape& shape, const PoolRange& d, const PoolRange& h, const float* plane,
                 float* to, int64_t* where, One&& one) {
  typedef int32_t Lanes __attribute__((vector_size(16)));
  const PoolAxis& axis = shape.axes[2];
  const dim_t reach = axis.dilation * (axis.kernel - 1);
  const dim_t room = axis.in + axis.padding - reach - (step - 1);
  dim_t first = (axis.padding + step - 1) / step, end = room > 0 ? (room - 1) / step + 1 : 0, w = 0;
  if (first > axis.out) first = axis.out;
  if (end > axis.out) end = axis.out;
  for (; w < first; ++w) one(w);
  const Lanes apart = Lanes{0, 1, 2, 3} * step;
  for (; w + 4 <= end; w += 4) {
    const dim_t x = w * step - axis.padding;
    const dim_t corner = (d.first * shape.axes[1].in + h.first) * axis.in + x;
    Vector<float> best = splat(-__builtin_inff());
    Lanes best_at = apart + static_cast<int32_t>(corner);
    for (dim_t i = d.first; i < d.end; i += d.step) {
      for (dim_t j = h.first; j < h.end; j += h.step) {
        const float* row = plane + i * shape.axes[0].in_stride + j * shape.axes[1].in_stride + x;
        const dim_t index = (i * shape.axes[1].in + j) * axis.in + x;
        for (dim_t k = 0; k <= reach; k += axis.dilation) {
          Vector<float> value;
          if constexpr (step == 2) {
            value = load_every_second(row + k);
          } else {
            value = load_vector(row + k);
          }
          const Lanes better = (Lanes)(value > best) | (Lanes)(value != value);
          const Lanes at = apart + static_cast<int32_t>(index + k);
          best = (Vector<float>)(((Lanes)value & better) | ((Lanes)best & ~better));
          best_at = (at & better) | (best_at & ~better);
        }
      }
    }
    store_vector(to + w, best);
    for (int lane = 0; lane < 4; ++lane) where[w + lane] = best_at[lane];
  }
  for (; w < axis.out; ++w) one(w);
}

// Whether rows are of the kind maximum_row() takes.
bool rows_in_vectors(const PoolShape& shape) {
  const PoolAxis& axis = shape.axes[2];
  const dim_t pixels = shape.axes[0].in * shape.axes[1].in * shape.axes[2].in;
  return !axis.adaptive && axis.stride <= 2 && axis.in_stride == 1 && axis.out_stride == 1 &&
         axis.indices_stride == 1 && pixels < (dim_t{1} << 30);
}

template <class S>
void maximum_window(const PoolShape& shape, const PoolWindow& window, const S* from, S* to, int64_t* where) {
  using T = Compute<S>;
  T best = static_cast<T>(lowest_value<S>());
  dim_t best_at = (window.d.first * shape.axes[1].in + window.h.first) * shape.axes[2].in + window.w.first;
  for_each_tap(shape, window, [&](dim_t offset, dim_t index) {
    const T value = static_cast<T>(from[offset]);
    const bool better = exceeds(value, best);
    best = better ? value : best;
    best_at = better ? index : best_at;
  });
  *to = static_cast<S>(best);
  *where = best_at;
}

void maximum_rows(const PoolShape& shape, const float* input, float* out, int64_t* indices) {
  const PoolAxis* axes = shape.axes;
  for (dim_t plane = 0; plane < shape.batch * shape.channels; ++plane) {
    const dim_t image = plane / shape.channels, c = plane % shape.channels;
    const float* from = input + image * shape.in_batch + c * shape.in_channel;
    for (dim_t d = 0; d < axes[0].out; ++d) {
      for (dim_t h = 0; h < axes[1].out; ++h) {
        float* to = out + image * shape.out_batch + c * shape.out_channel + d * axes[0].out_stride +
                    h * axes[1].out_stride;
        int64_t* where = indices + image * shape.indices_batch + c * shape.indices_channel +
                         d * axes[0].indices_stride + h * axes[1].indices_stride;
        const PoolRange along_d = axes[0].range(d), along_h = axes[1].range(h);
        const auto one = [&](dim_t w) {
          maximum_window(shape, {along_d, along_h, axes[2].range(w)}, from, to + w, where + w);
        };
        if (axes[2].stride == 2) {
          maximum_row<2>(shape, along_d, along_h, from, to, where, one);
        } else {
          maximum_row<1>(shape, along_d, along_h, from, to, where, one);
        }
      }
    }
  }
}

template <class S>
void maximum_as(const PoolShape& shape, const S* input, S* out, int64_t* indices) {
  using T = Compute<S>;
  const bool chunks = shape.in_channel == 1 && shape.channels > 1;
  if constexpr (same_type<S, float>) {
    if (!chunks && rows_in_vectors(shape)) return maximum_rows(shape, input, out, indices);
  }
  const T lowest = static_cast<T>(lowest_value<S>());
  for_each_window(
      shape, chunks, [&](dim_t image, dim_t c, dim_t channels, const dim_t* at, const PoolWindow& window) {
        const S* from = input + image * shape.in_batch + c * shape.in_channel;
        S* to = out + image * shape.out_batch + c * shape.out_channel + output_offset(shape, at);
        int64_t* where = indices + image * shape.indices_batch + c * shape.indices_channel;
        for (int d = 0; d < 3; ++d) where += at[d] * shape.axes[d].indices_stride;
        const dim_t first =
            (window.d.first * shape.axes[1].in + window.h.first) * shape.axes[2].in + window.w.first;
        if (channels == 1) return maximum_window(shape, window, from, to, where);
        T best[kChannelChunk];
        dim_t best_at[kChannelChunk];
        for (dim_t i = 0; i < channels; ++i) {
          best[i] = lowest;
          best_at[i] = first;
        }
        for_each_tap(shape, window, [&](dim_t offset, dim_t index) {
          for (dim_t i = 0; i < channels; ++i) {
            const T value = static_cast<T>(from[offset + i]);
            const bool better = exceeds(value, best[i]);
            best[i] = better ? value : best[i];
            best_at[i] = better ? index : best_at[i];
          }
        });
        for (dim_t i = 0; i < channels; ++i) {
          to[i * shape.out_channel] = static_cast<S>(best[i]);
          where[i * shape.indices_channel] = best_at[i];
        }
      });
}

}  // namespace

bool average_pool(KernelContext& ctx, const PoolShape& shape, const PoolAverage& average, const Tensor& self,
                  Tensor& out) {
  return dispatch<Real>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    average_as<S>(shape, average, self.const_data_ptr<S>(), out.mutable_data_ptr<S>());
  });
}

bool maximum_pool(KernelContext& ctx, const PoolShape& shape, const Tensor& self, Tensor& out,
                  Tensor& indices) {
  return dispatch<Real>(ctx, out.dtype(), [&](auto tag) {
    using S = typename decltype(tag)::type;
    maximum_as<S>(shape, self.const_data_ptr<S>(), out.mutable_data_ptr<S>(),
                  indices.mutable_data_ptr<int64_t>());
  });
}

}  // namespace penlight::portable
