// softmax and log_softmax along one dimension.
//
// A row is read into scratch in its compute type, worked on there and written
// back, so any stride and dtype takes the same path.
#include <math.h>
#include <penlight/kernel.h>

#include "exponential.h"
#include "kernels/common/checks.h"
#include "kernels/common/convert.h"

namespace penlight::portable {

namespace {

template <bool log_result, class T>
void softmax_row(T* row, dim_t count) {
  const T largest = max_row(row, count);
  if constexpr (log_result) {
    T sum = 0;
    for (dim_t i = 0; i < count; ++i) sum += exp(row[i] - largest);
    const T shift = static_cast<T>(log(sum));
    for (dim_t i = 0; i < count; ++i) row[i] = row[i] - largest - shift;
  } else {
    const T factor = T(1) / exp_row(row, count, largest);
    for (dim_t i = 0; i < count; ++i) row[i] *= factor;
  }
}

template <bool log_result, class T>
void softmax_as(KernelContext& ctx, const Tensor& self, dim_t dim, Tensor& out) {
  const dim_t count = self.dim() ? self.size(dim) : 1;
  const dim_t in_step = self.dim() ? self.stride(dim) : 1, out_step = self.dim() ? out.stride(dim) : 1;
  T* row = ctx.allocate_scratch_array<T>(static_cast<size_t>(count));
  if (!row) return;
  const char* from = self.const_data_ptr<char>();
  char* to = out.mutable_data_ptr<char>();
  const dim_t in_size = static_cast<dim_t>(self.element_size()),
              out_size = static_cast<dim_t>(out.element_size());
  dim_t index[kMaxDim] = {}, in_at = 0, out_at = 0;
  for (;;) {
    load_block(row, self.dtype(), from + in_at * in_size, in_step, count);
    softmax_row<log_result>(row, count);
    store_block(out.dtype(), to + out_at * out_size, out_step, row, count);
    dim_t d = self.dim() - 1;
    for (; d >= 0; --d) {
      if (d == dim) continue;
      in_at += self.stride(d);
      out_at += out.stride(d);
      if (++index[d] < self.size(d)) break;
      in_at -= self.stride(d) * self.size(d);
      out_at -= out.stride(d) * self.size(d);
      index[d] = 0;
    }
    if (d < 0) return;
  }
}

// `out` has the input's dtype, or float for 16-bit input (half_to_float).
template <bool log_result>
void softmax(KernelContext& ctx, const Tensor& self, int64_t dim, Tensor& out) {
  if (!normalize_dim(ctx, dim, self.dim()) || !ctx.resize(out, self.sizes())) return;
  if (!is_floating(self.dtype()) || !is_floating(out.dtype())) {
    ctx.fail(Status::InvalidArgument, "softmax takes floating types, got {} and {}", dtype_name(self.dtype()),
             dtype_name(out.dtype()));
    return;
  }
  if (self.numel() == 0) return;
  if constexpr (kDoubleSelected) {
    if (self.dtype() == ScalarType::Double || out.dtype() == ScalarType::Double) {
      softmax_as<log_result, double>(ctx, self, static_cast<dim_t>(dim), out);
      return;
    }
  }
  softmax_as<log_result, float>(ctx, self, static_cast<dim_t>(dim), out);
}

}  // namespace

Tensor& softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float, Tensor& out) {
  (void)half_to_float;
  softmax<false>(ctx, self, dim, out);
  return out;
}

Tensor& log_softmax_out(KernelContext& ctx, const Tensor& self, int64_t dim, bool half_to_float,
                        Tensor& out) {
  (void)half_to_float;
  softmax<true>(ctx, self, dim, out);
  return out;
}

}  // namespace penlight::portable
